"""Tags are dropped and their text is read; powers are read in every spelling."""

from __future__ import annotations

import pytest
from english_readings import readings, said

MARKUP = """
<b>hi</b> => hi
<p>Hello, <b>world</b>!</p> => hello , world !
<p>One.</p><p>Two</p> => one . two
<h1>News</h1><p>It rains.</p> => news ; it rains
one<br>two => one , two
one<br/>two => one , two
<ul><li>milk</li><li>eggs</li></ul> => milk , eggs
<td>5</td><td>10</td> => five , ten
<a href="https://example.com/a?b=c">our page</a> => our page
<a href='x'>link</a> => link
<img src="cat.png" alt="a cat"> text => text
<input type="checkbox" checked> Agree => agree
<BR CLEAR=all>loud => loud
<span class=x>span</span> => span
<b>H</b>ello => hello
H<sub>2</sub>O => h. two o.
5 m<sup>2</sup> => five square meters
10<sup>6</sup> => ten to the sixth
10<sup>-3</sup> => ten to the minus three
the 1<sup>st</sup> => the first
<!-- hidden -->shown => shown
<!DOCTYPE html><html><body>page</body></html> => page
<?xml version="1.0"?><note>remember</note> => remember
<script>var a = 1 < 2;</script>after => after
<style>p { color: red }</style>after => after
<![CDATA[raw text]]> => raw text
<speak>Hello</speak> => hello
<speak version="1.1" xml:lang="en-US">Hello there</speak> => hello there
Wait<break time="500ms"/>go => wait , go
<prosody rate="slow" pitch="-2st">slowly</prosody> => slowly
<emphasis level="strong">now</emphasis> => now
<say-as interpret-as="digits">123</say-as> => one hundred twenty three
<sub alias="World Wide Web">WWW</sub> => w. w. w.
<phoneme alphabet="ipa" ph="x">tomato</phoneme> => tomato
<voice name="joe">mine</voice> => mine
<amazon:effect name="whispered">psst</amazon:effect> => psst
<note><to>Tove</to><body>Call me</body></note> => tove ; call me
<config key="a"/>done => done
fish &amp; chips => fish and chips
5 &lt; 6 => five less than six
&lt;b&gt; => less than b. greater than
caf&eacute; => cafe
it&#39;s => it's
it&#x27;s => it's
&quot;so&quot; => so
one&nbsp;two => one two
wait&mdash;no => wait , no
20&deg;C => twenty degrees celsius
&copy; 2024 => twenty twenty four
"""
PLAIN = """
I <3 you => i less than three you
a < b => a less than b.
a<b => a less than b.
a<b>c => a less than b. greater than c.
if a < b and c > d => if a less than b. and c. greater than d.
if a <b and c> d => if a less than b. and c. greater than d.
x <= y => x. less than equals y.
1 < 2 > 0 => one less than two greater than zero
5 > 3 => five greater than three
-> here => greater than here
<- there => less than , there
cp <file> <target> => cp file target
List<String> => list less than string greater than
<joe@example.com> => joe at example dot com
<https://example.com> => example dot com
R&D; next => r. and d. ; next
Q&A => q. and a.
a & b => a and b.
x&y; z => x. and y. ; z.
&unknown; => and unknown
< => less than
<> => less than greater than
</ => less than
<b => less than b.
<!-- never closed => never closed
<a href="never closed>text => less than a href equals never closed greater than text
"""
POWERS = """
6.02×10^23 => six point zero two times ten to the twenty third
6.02 × 10^23 => six point zero two times ten to the twenty third
6.02x10^23 => six point zero two times ten to the twenty third
6.02*10^23 => six point zero two times ten to the twenty third
6.02 · 10^23 => six point zero two times ten to the twenty third
6.02×10²³ => six point zero two times ten to the twenty third
6.02×10**23 => six point zero two times ten to the twenty third
6.02 times 10^23 => six point zero two times ten to the twenty third
6.02×10^{23} => six point zero two times ten to the twenty third
6.02e23 => six point zero two times ten to the twenty third
6.02E+23 => six point zero two times ten to the twenty third
1.6×10^-19 => one point six times ten to the minus nineteen
1.6×10⁻¹⁹ => one point six times ten to the minus nineteen
1.6×10^(-19) => one point six times ten to the minus nineteen
1.6e-19 => one point six times ten to the minus nineteen
-1.6e-19 => minus one point six times ten to the minus nineteen
3×10⁸ m/s => three times ten to the eighth meters per second
1.5 x 10^8 km => one point five times ten to the eighth kilometers
10^6 => ten to the sixth
10^6 people => ten to the sixth people
10⁶ => ten to the sixth
10**-6 => ten to the minus six
2^10 => two to the tenth
2^31-1 => two to the thirty first minus one
10² => ten squared
5^3 => five cubed
x^2 => x. squared
x^10 => x. to the tenth
x² + y² => x. squared plus y. squared
e^x => e. to the x.
2^n => two to the n.
xⁿ => x. to the n.
x^-1 => x. to the minus one
5 m² => five square meters
10 x 10 => ten by ten
6 x 9 => six by nine
1920×1080 => nineteen twenty by ten eighty
3x => three times
2 * 3 => two three
** bold ** => bold
E10 => e. ten
"""


@pytest.mark.parametrize(("text", "expected"), readings(MARKUP))
def test_tags_are_dropped(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(PLAIN))
def test_angle_brackets_and_ampersands_that_are_no_markup(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(POWERS))
def test_powers(text: str, expected: str) -> None:
    assert said(text) == expected
