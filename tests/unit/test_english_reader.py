"""Written English becomes words, letters and marks."""

from __future__ import annotations

import pytest
from edgettsd_tools.voice.lexicon import read_cmudict
from english_readings import well_formed
from hypothesis import given, settings
from hypothesis import strategies as st

from edgettsd.frontends.english import numbers
from edgettsd.frontends.english.clean import clean
from edgettsd.frontends.english.reader import read
from edgettsd.frontends.english.tables import UNITS

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
# Text that is dense in what the patterns look for.
TRICKY = st.text(st.sampled_from(list("0123456789.,:;/-+$%°^'@#()[] \nxXaApPmMIVe½²µé€")), max_size=60)


@pytest.fixture(scope="module")
def words() -> frozenset[str]:
    return frozenset(read_cmudict())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "zero ."),
        ("7", "seven ."),
        ("12", "twelve ."),
        ("21", "twenty one ."),
        ("100", "one hundred ."),
        ("101", "one hundred one ."),
        ("999", "nine hundred ninety nine ."),
        ("1000", "one thousand ."),
        ("12345", "twelve thousand three hundred forty five ."),
        ("1,000,000", "one million ."),
        ("2,500,017", "two million five hundred thousand seventeen ."),
        ("1000000000", "one billion ."),
        ("0.5", "zero point five ."),
        (".25", "point two five ."),
        ("2.50", "two point five zero ."),
        ("-7", "minus seven ."),
        ("+3", "plus three ."),
        ("±2", "plus or minus two ."),
        ("007", "zero zero seven ."),
        ("1st", "first ."),
        ("2nd", "second ."),
        ("3rd", "third ."),
        ("12th", "twelfth ."),
        ("21st", "twenty first ."),
        ("30th", "thirtieth ."),
        ("100th", "one hundredth ."),
        ("1,001st", "one thousand first ."),
        ("in 1066", "in ten sixty six ."),
        ("in 1805", "in eighteen oh five ."),
        ("1999", "nineteen ninety nine ."),
        ("2000", "two thousand ."),
        ("2007", "two thousand seven ."),
        ("2010", "twenty ten ."),
        ("2026", "twenty twenty six ."),
        ("the 1980s", "the nineteen eighties ."),
        ("the '90s", "the nineties ."),
        ("5:30", "five thirty ."),
        ("5:05", "five oh five ."),
        ("5:00", "five o'clock ."),
        ("17:05", "seventeen oh five ."),
        ("17:00", "seventeen hundred ."),
        ("00:00", "midnight ."),
        ("12:30:15", "twelve thirty and fifteen seconds ."),
        ("5:30 p.m.", "five thirty p. m. ."),
        ("5 pm", "five p. m. ."),
        ("5 a.m. sharp", "five a. m. sharp ."),
        ("2026-11-29", "november twenty ninth , twenty twenty six ."),
        ("2026-11-29T17:05", "november twenty ninth , twenty twenty six at seventeen oh five ."),
        ("Nov 29, 2026", "november twenty ninth , twenty twenty six ."),
        ("November 29", "november twenty ninth ."),
        ("Nov. 29", "november twenty ninth ."),
        ("29 Nov 2026", "the twenty ninth of november twenty twenty six ."),
        ("the 5th of May", "the fifth of may ."),
        ("11/29/2026", "november twenty ninth , twenty twenty six ."),
        ("29/11/2026", "november twenty ninth , twenty twenty six ."),
        ("29.11.2026", "november twenty ninth , twenty twenty six ."),
        ("1/2/99", "january second , nineteen ninety nine ."),
        ("$1", "one dollar ."),
        ("$3.50", "three dollars and fifty cents ."),
        ("$0.99", "ninety nine cents ."),
        ("$1,200", "one thousand two hundred dollars ."),
        ("$5 million", "five million dollars ."),
        ("$2.5bn", "two point five billion dollars ."),
        ("-$5", "minus five dollars ."),
        ("£5.99", "five pounds and ninety nine pence ."),
        ("€20", "twenty euros ."),
        ("20 €", "twenty euros ."),
        ("¥500", "five hundred yen ."),
        ("5 USD", "five dollars ."),
        ("$5-10", "five to ten dollars ."),
        ("50%", "fifty percent ."),
        ("0.5 %", "zero point five percent ."),
        ("10-20%", "ten to twenty percent ."),
        ("100 km/h", "one hundred kilometers per hour ."),
        ("21°C", "twenty one degrees celsius ."),
        ("-4 °F", "minus four degrees fahrenheit ."),
        ("45°", "forty five degrees ."),
        ("5kg", "five kilograms ."),
        ("1 kg", "one kilogram ."),
        ("3.5 GB", "three point five gigabytes ."),
        ("10 MB", "ten megabytes ."),
        ("16 GHz", "sixteen gigahertz ."),
        ("1 min", "one minute ."),
        ("20 m/s", "twenty meters per second ."),
        ("5 m²", "five square meters ."),
        ("2 kWh", "two kilowatt hours ."),
        ("5 in.", "five inches ."),
        ("a 5-km run", "a five kilometer run ."),
        ("12 V", "twelve volts ."),
        ("1/2", "one half ."),
        ("3/4", "three quarters ."),
        ("2/3", "two thirds ."),
        ("1 1/2", "one and a half ."),
        ("2½", "two and a half ."),
        ("5/100", "five hundredths ."),
        ("10-20", "ten to twenty ."),
        ("2019–2021", "twenty nineteen to twenty twenty one ."),
        ("2019-21", "twenty nineteen to twenty one ."),
        ("16:9", "sixteen to nine ."),
        ("1920x1080", "nineteen twenty by ten eighty ."),
        ("3x", "three times ."),
        ("10^8", "ten to the eighth ."),
        ("5²", "five squared ."),
        ("1e-6", "one times ten to the minus six ."),
        ("555-1234", "five five five , one two three four ."),
        ("(555) 123-4567", "five five five , one two three , four five six seven ."),
        ("555-123-4567", "five five five , one two three , four five six seven ."),
        ("+1 555 123 4567", "plus one , five five five , one two three , four five six seven ."),
        ("1.2.3", "one point two point three ."),
        ("v2.0", "version two point zero ."),
        ("192.168.0.1", "one ninety two dot one sixty eight dot zero dot one ."),
        ("MP3", "m. p. three ."),
        ("4K", "four k. ."),
        ("x86", "x. eighty six ."),
        ("B12", "b. twelve ."),
        ("USB", "u. s. b. ."),
        ("D-Bus", "d. bus ."),
        ("NASA", "nasa ."),
        ("GPIO", "g. p. i. o. ."),
        ("the US", "the u. s. ."),
        ("IBM", "ibm ."),
        ("TVs", "t. vees ."),
        ("DVD's", "d. v. d.'s ."),
        ("WiFi", "why fi ."),
        ("GitHub", "git hub ."),
        ("macOS", "mac o. s. ."),
        ("plan A", "plan a. ."),
        ("vitamin C", "vitamin c. ."),
        ("Dr. Smith", "doctor smith ."),
        ("Main St. is", "main street is ."),
        ("St. Louis", "saint louis ."),
        ("e.g. this", "for example this ."),
        ("cats, dogs, etc.", "cats , dogs , et cetera ."),
        ("No. 5", "number five ."),
        ("no. ", "no ."),
        ("Mr. Jones vs. Mrs. Hall", "mister jones versus missus hall ."),
        ("Jan. 5", "january fifth ."),
        ("U.S. law", "u. s. law ."),
        ("J. R. R. Tolkien", "j. r. r. tolkien ."),
        ("w/o", "without ."),
        ("info@example.com", "info at example dot com ."),
        ("https://www.example.org/a-b", "example dot org slash a. dash b. ."),
        ("example.com", "example dot com ."),
        ("config.toml", "config dot toml ."),
        ("/etc/hosts", "slash etc slash hosts ."),
        ("R&D", "r. and d. ."),
        ("a + b = c", "a plus b. equals c. ."),
        ("and/or", "and or ."),
        ("50 @ 3", "fifty at three ."),
        ("#5", "number five ."),
        ("#news", "hashtag news ."),
        ("Henry VIII", "henry the eighth ."),
        ("Chapter IV", "chapter four ."),
        ("World War II", "world war two ."),
        ("I am", "i am ."),
        ("naïve café", "naive cafe ."),
        ("Zürich", "zurich ."),
        ("Straße", "strasse ."),
        ("Москва", "moskva ."),
        ("π", "pie ."),
        ("東京", ""),
        ("hi 😀!", "hi !"),
        ("Wait... what?!", "wait , what ?"),
        ("yes — no", "yes , no ."),
        ("(aside)", "aside ."),
        ('"quoted"', "quoted ."),
        ("it’s", "it's ."),
        ("rock 'n' roll", "rock 'n roll ."),
        ("'tis", "'tis ."),
        ("room 404", "room four oh four ."),
        ("call 911", "call nine one one ."),
        ("24/7", "twenty four seven ."),
        ("0x1F", "zero x. one f. ."),
        ("5'10\"", "five foot ten ."),
        ("one;two:three", "one ; two : three ."),
        ("WARNING: DOOR OPEN", "warning : door open ."),
        ("I/O", "i. o. ."),
        ("12:61", "twelve to sixty one ."),
        ("1:2:3", "one to two : three ."),
        ("1,2,3", "one , two , three ."),
        ("3 million people", "three million people ."),
        ("1 cup, 1/8 mi", "one cup , one eighth of a mile ."),
        ("1/2 km", "one half of a kilometer ."),
        ("3 1/4 miles", "three and a quarter miles ."),
        ("€1.5m", "one point five million euros ."),
        ("$1,234.56", "one thousand two hundred thirty four dollars and fifty six cents ."),
        ("90 °", "ninety degrees ."),
        ("0 K", "zero kelvins ."),
        ("5 µs", "five microseconds ."),
        ("5 Ω", "five ohms ."),
        ("1 lb", "one pound ."),
        ("1 psi", "one p. s. i. ."),
        ("100 Mbps", "one hundred megabits per second ."),
        ("48 kHz", "forty eight kilohertz ."),
        ("30 fps", "thirty frames per second ."),
        ("98.6°F", "ninety eight point six degrees fahrenheit ."),
        ("12-15 kg", "twelve to fifteen kilograms ."),
        ("5 A.", "five amps ."),
        ("I have 5 in my bag", "i have five in my bag ."),
        ("7:00 am", "seven a. m. ."),
        ("10 o'clock", "ten o'clock ."),
        ("24:00", "twenty four hundred ."),
        ("Sept. 3rd, 2021", "september third , twenty twenty one ."),
        ("March 2026", "march twenty twenty six ."),
        ("on May 5", "on may fifth ."),
        ("I may 5", "i may five ."),
        ("4 July", "the fourth of july ."),
        ("Q3", "q. three ."),
        ("3D", "three d. ."),
        ("H264", "h. two sixty four ."),
        ("iPhone", "i. phone ."),
        ("JSON and YAML", "jason and yammel ."),
        ("HTML5", "html five ."),
        ("COVID-19", "covid nineteen ."),
        ("PhD", "p. h. d. ."),
        ("Prof. Lee", "professor lee ."),
        ("5th Ave.", "fifth avenue ."),
        ("approx. 5", "approximately five ."),
        ("Fig. 3", "figure three ."),
        ("p. 12", "page twelve ."),
        ("pp. 3-5", "pages three to five ."),
        ("i.e. now", "that is now ."),
        ("9 a.m. ", "nine a. m. ."),
        ("It ended at 9 p.m. Then", "it ended at nine p. m. then ."),
        ("Smith Jr. and Sons Inc.", "smith junior and sons incorporated ."),
        ("Acme Co., Ltd.", "acme company , limited ."),
        ("user_name", "user name ."),
        ("foo_bar@mail.org", "foo underscore bar at mail dot org ."),
        ("http://10.0.0.1/", "ten dot zero dot zero dot one ."),
        ("www.test.org.", "test dot org ."),
        ("~/notes.txt", "tilde slash notes dot t. x. t. ."),
        ("C++", "c. plus plus ."),
        ("A&B", "a and b. ."),
        ("5 > 3", "five greater than three ."),
        ("x = y", "x. equals y. ."),
        ("~5", "about five ."),
        ("½ cup", "one half cup ."),
        ("m²", "m. squared ."),
        ("…well", "well ."),
        ("«oui»", "oui ."),
        ("ﬁne", "fine ."),
        ("１２３", "one hundred twenty three ."),
        ("Łódź", "lodz ."),
        ("ÆØÅ", "ae o. a. ."),
        ("©2024", "twenty twenty four ."),
        ("* item", "item ."),
        ("- item", "item ."),
        ("---", ""),
        ("a---b", "a , b. ."),
        ("!!!", ""),
        ("1) first", "one , first ."),
        ("[note]", "note ."),
        ("{x}", "x. ."),
        ("O'Brien's", "o'brien's ."),
        ("don't", "don't ."),
        ("y'all'd've", "y'all'd've ."),
        ("rock'n'roll", "rock'n'roll ."),
        ("A.I.", "a. i. ."),
        ("a.k.a. Bob", "also known as bob ."),
        ("P.S. hello", "p. s. hello ."),
        ("the A team", "the a. team ."),
        ("A", "a ."),
        ("I", "i ."),
        ("x", "x. ."),
        ("II", "i. i. ."),
        ("Louis XIV", "louis the fourteenth ."),
        ("King George V.", "king george the fifth ."),
        ("Part II.", "part two ."),
        ("mix IV fluids", "mix i. v. fluids ."),
    ],
)
def test_reading(text: str, expected: str, words: frozenset[str]) -> None:
    assert " ".join(read(text, words.__contains__)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Good morning! The door is open.", "good morning ! the door is open ."),
        ("At 7:15 a.m., set it to 68°F.",
         "at seven fifteen a. m. , set it to sixty eight degrees fahrenheit ."),
        ("Backup #12 of 3.2 TB took 1h.",
         "backup number twelve of three point two terabytes took one hour ."),
        ("Your code is 4711-0815.", "your code is four seven one one , zero eight one five ."),
        ("The API returned HTTP 404.", "the a. p. i. returned h. t. t. p. four hundred four ."),
        ("Mr. O'Neil paid $1,250.75 on 3/4/2025.",
         "mister o'neil paid one thousand two hundred fifty dollars and seventy five cents on march fourth , "
         "twenty twenty five ."),
        ("para one\n\npara two", "para one ; para two ."),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: str, words: frozenset[str]) -> None:
    assert " ".join(read(text, words.__contains__)) == expected


@given(ANY_TEXT)
def test_any_text_is_read(text: str) -> None:
    assert well_formed(read(text))


@given(TRICKY)
@settings(max_examples=500)
def test_tricky_text_is_read(text: str) -> None:
    assert well_formed(read(text))


@given(st.text(st.sampled_from("abc XYZ,'"), max_size=40))
def test_nothing_is_lost(text: str) -> None:
    # Every letter of plain words is in the output, in order.
    said = "".join(read(text, lambda word: True)).translate(dict.fromkeys(map(ord, ",.'!;:?")))
    assert said.replace(" ", "") == "".join(c for c in text.lower() if c.isalpha())


@pytest.mark.parametrize("n", [0, 1, 9, 10, 19, 20, 99, 100, 110, 999, 1000, 1001, 12_345, 10**6, 10**9 + 7])
def test_cardinals_agree_with_the_training_text(n: int) -> None:
    from edgettsd_tools.voice.corpus import number

    words = numbers.cardinal(str(n))
    if n < 1_000_000:
        assert " ".join(words) == number(n)
    assert all(word.isalpha() for word in words)


def test_huge_numbers_are_spelled() -> None:
    assert numbers.cardinal("1" * 37) == ["one"] * 37
    assert len(read("1" * 5000)) == 5001


@pytest.mark.parametrize(
    ("numeral", "value"),
    [("IV", 4), ("MCMXCIX", 1999), ("XL", 40), ("IIII", None), ("IM", None), ("", None), ("A", None)],
)
def test_roman(numeral: str, value: int | None) -> None:
    assert numbers.roman(numeral) == value


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_every_unit_is_read(unit: str) -> None:
    one, many = (" ".join(form.split("-")) for form in UNITS[unit])
    if unit != "K":
        assert " ".join(read(f"1{unit}")) == f"one {one} ."
        assert " ".join(read(f"25{unit}")) == f"twenty five {many} ."
    assert " ".join(read(f"1.5 {unit}")) == f"one point five {many} ."


def test_clean_keeps_plain_text() -> None:
    assert clean("plain, ASCII; text!") == "plain, ASCII; text!"
    assert clean("\ud83d\ude00x\ud800").strip() == "x"
    assert clean("٣ १") == "3 1"
