"""Spans, dates and times are read as what they are; fractions, scores and ratios too."""

from __future__ import annotations

import pytest
from english_readings import readings, said

TIMES = """
20:00-22:00 => twenty hundred to twenty two hundred
8 a.m.–5 p.m. => eight a. m. to five p. m.
Open 8 a.m.–5 p.m. daily => open eight a. m. to five p. m. daily
9am-5pm => nine a. m. to five p. m.
9-11 am => nine to eleven a. m.
7–9:30 pm => seven to nine thirty p. m.
8:30-9:15 => eight thirty to nine fifteen
8:30 – 9:15 => eight thirty to nine fifteen
8:30—9:15 => eight thirty to nine fifteen
10:00 AM - 4:30 PM => ten a. m. to four thirty p. m.
10:30-11 => ten thirty to eleven
Luke 5:3-7 => luke five three to seven
John 3:16-18 => john three sixteen to eighteen
from 5-7 p.m. => from five to seven p. m.
Mon-Fri 9:00-17:00 => monday to friday nine o'clock to seventeen hundred
Mon–Fri, 9–5 => monday to friday , nine to five
Sat.-Sun. => saturday to sunday
Monday–Friday => monday to friday
Tue - Thu => tuesday to thursday
11 p.m.–midnight => eleven p. m. to midnight
9:00–noon => nine o'clock to noon
The shop is open 10:00-18:00. => the shop is open ten o'clock to eighteen hundred
12:30:15-12:45:00 => twelve thirty and fifteen seconds to twelve forty five
between 5:30 and 6:15 => between five thirty and six fifteen
At 5:30 - 6 people came => at five thirty to six people came
The 8:15, the 9:20 - both late => the eight fifteen , the nine twenty , both late
At 5 p.m. - when the shop closes => at five p. m. , when the shop closes
2026-11-29T17:05-05:00 => november twenty ninth , twenty twenty six at seventeen oh five five hundred
16:9 or 4:3 => sixteen to nine or four to three
won 3-2 => won three to two
Fri 9-5, Sat/Sun 10-2 => friday nine to five , saturday and sunday ten to two
Mon/Wed/Fri => monday wednesday and friday
Sun 9:00 => sunday nine o'clock
The sun set at 9:00 => the sun set at nine o'clock
Fri, Nov 27 => friday , november twenty seventh
Sat in the sun => sat in the sun
Wed 2 people => wed two people
"""
DATES = """
May 3-5 => may third to fifth
May 3–5, 2026 => may third to fifth , twenty twenty six
Nov. 29-30 => november twenty ninth to thirtieth
November 29 – December 2 => november twenty ninth to december second
May 3rd-5th => may third to fifth
3-5 May => the third to the fifth of may
29–30 Nov 2026 => the twenty ninth to the thirtieth of november twenty twenty six
3rd–5th of June => the third to the fifth of june
29 Nov – 2 Dec => the twenty ninth of november to the second of december
Jan–Mar => january to march
June-August 2026 => june to august twenty twenty six
Jan. - Mar. 5 => january to march fifth
2026-11-29 – 2026-12-02 => november twenty ninth , twenty twenty six to december second , twenty twenty six
11/29/2026-12/2/2026 => november twenty ninth , twenty twenty six to december second , twenty twenty six
11/30-12/5 => november thirtieth to december fifth
shipped 11/30 => shipped november thirtieth
Shipped: 11/30 => shipped : november thirtieth
due 3/4 => due march fourth
due on 1/2 => due on january second
on 12/25 => on december twenty fifth
on 3/4 at noon => on march fourth at noon
as of 11/30 => as of november thirtieth
the week of 11/30 => the week of november thirtieth
by 11/30 => by november thirtieth
from 4/1 to 6/30 => from april first to june thirtieth
between 11/15 and 12/15 => between november fifteenth and december fifteenth
until 5/1 => until may first
Friday 11/30 => friday november thirtieth
Friday, 11/30 => friday , november thirtieth
Mon 11/30 => monday november thirtieth
delivered 1/2 => delivered january second
starting 9/1 => starting september first
11/30 at 5 pm => november thirtieth at five p. m.
11/30 17:05 => november thirtieth seventeen oh five
expires 30/11 => expires november thirtieth
exp 03/2028 => exp march twenty twenty eight
expires 11/2026 => expires november twenty twenty six
2026/11/30 => november thirtieth , twenty twenty six
11-30-2026 => november thirtieth , twenty twenty six
30-11-2026 => november thirtieth , twenty twenty six
30.11.2026 => november thirtieth , twenty twenty six
11/30/26 => november thirtieth , twenty twenty six
shipped 9/11 => shipped september eleventh
"""
NO_DATES = """
24/7 => twenty four seven
open 24/7, always => open twenty four seven , always
24/7/365 => twenty four seven three sixty five
9/11 => nine eleven
the 9/11 memorial => the nine eleven memorial
the 2020/21 season => the twenty twenty twenty one season
1999/2000 => nineteen ninety nine two thousand
2020/40 => two thousand twenty over forty
after 9/11 => after nine eleven
3/4 cup => three quarters cup
3/4 cup of milk => three quarters cup of milk
on 3/4 of the roads => on three quarters of the roads
half of 11/30 => half of eleven over thirty
by 1/2 => by one half
divided by 3/16 => divided by three sixteenths
multiply by 11/30 => multiply by eleven over thirty
from 1/2 to 3/4 inch => from one half to three quarters inch
1/2-3/4 inch => one half to three quarters inch
rated 4/5 => rated four out of five
Score: 8/10 => score : eight out of ten
a rating of 9/10 => a rating of nine out of ten
4/5 stars => four out of five stars
50/50 => fifty fifty
20/20 vision => twenty twenty vision
80/20 rule => eighty twenty rule
4/4 time => four four time
in 6/8 time => in six eight time
page 3/10 => page three of ten
step 2/4 => step two of four
11/30 => eleven over thirty
120/80 => one hundred twenty over eighty
2/30 => two over thirty
on 13/13 => on thirteen over thirteen
1 1/2 => one and a half
2/3 majority => two thirds majority
1/8 mi => one eighth of a mile
5/8 => five eighths
3/4" => three quarters
AC/DC => a. c. d. c.
"""
NUMBERS = """
50-50 => fifty fifty
2-3x faster => two to three times faster
a 3-in-1 tool => a three in one tool
10–20 => ten to twenty
1,000-2,000 => one thousand to two thousand
0.5–1.5 => zero point five to one point five
0.25-0.75 => zero point two five to zero point seven five
100-1000 people => one hundred to one thousand people
500-1000 => five hundred to one thousand
500-1200 km => five hundred to one thousand two hundred kilometers
$5-$10 => five to ten dollars
$5–10 => five to ten dollars
$5 - $10 => five to ten dollars
$5k-$10k => five thousand dollars to ten thousand dollars
$1.50–$2.75 => one dollar and fifty cents to two dollars and seventy five cents
$1-2 million => one to two million dollars
£20–£30 => twenty to thirty pounds
5-10 € => five to ten euros
5€-10€ => five euros to ten euros
5-10 USD => five to ten dollars
1999-2004 => nineteen ninety nine to two thousand four
1914–18 => nineteen fourteen to eighteen
2020–present => twenty twenty to present
1980s-1990s => nineteen eighties to nineteen nineties
1st-3rd => first to third
5th–8th grade => fifth to eighth grade
pp. 3-5 => pages three to five
pages 112–118 => pages one hundred twelve to one hundred eighteen
20–25°C => twenty to twenty five degrees celsius
15°C–20°C => fifteen degrees celsius to twenty degrees celsius
15°-20° => fifteen degrees to twenty degrees
-5–0°C => minus five to zero degrees celsius
-10 - -5 °C => minus ten to minus five degrees celsius
68°F - 72°F => sixty eight degrees fahrenheit to seventy two degrees fahrenheit
5%-10% => five percent to ten percent
5-10% => five to ten percent
5kg-10kg => five kilograms to ten kilograms
3 km – 5 km => three kilometers to five kilometers
Q1–Q3 => q. one to q. three
rows A1-A5 => rows a. one to a. five
A–F => a. to f.
from A-Z => from a. to z.
5 - 3 => five to three
a 10-year plan => a ten year plan
a 5-km run => a five kilometer run
555-1234 => five five five , one two three four
555-1000 => five five five , one zero zero zero
01-05 => zero one , zero five
fell 5% -10 points => fell five percent minus ten points
B-52 => b. fifty two
Boeing 747-400 => boeing seven hundred forty seven to four hundred
10 kg - heavy => ten kilograms , heavy
X-Y plots => x. y. plots
21st-century art => twenty first century art
1920x1080-based => nineteen twenty by ten eighty based
"""


@pytest.mark.parametrize(("text", "expected"), readings(TIMES))
def test_times_and_their_spans(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(DATES))
def test_dates_and_their_spans(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(NO_DATES))
def test_what_looks_like_a_date(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(("text", "expected"), readings(NUMBERS))
def test_spans_of_numbers(text: str, expected: str) -> None:
    assert said(text) == expected
