"""Numbers with what belongs to them: units, money, dates, times, ranges, fractions, telephone numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.scan import Scan

Handler = Callable[[Scan], bool]

# At most 12 groups of three digits, so that a rejected match has cost little.
_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,12}(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_MONTH = "|".join(sorted((n.capitalize() for n in tables.MONTH_NAMES), key=len, reverse=True))
_SIGN = "[$€£¥₹₩₽]"
_END = r"(?![\w])"
_CLOCK_END = r"(?:\s?(?P<half>[aApP])\.?\s?[mM]\b(?P<dot>\.)?)"

_MONTH_DAY = re.compile(
    rf"(?P<month>{_MONTH})\.? (?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_END}(?!:|\.\d|,\d)"
    rf"(?:,? (?P<year>\d{{4}}){_END})?|(?P<only>[12]\d{{3}}){_END})"
)
_DAY_MONTH = re.compile(
    rf"(?P<day>\d{{1,2}})(?P<th>st|nd|rd|th)?(?P<of> of)? (?P<month>{_MONTH})\b\.?"
    rf"(?:,? (?P<year>\d{{4}}){_END})?"
)
_ISO = re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?!\d)(?:T(?=\d))?")
_SLASHED = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<sep>[/.])(?P<b>\d{{1,2}})(?P=sep)(?P<year>\d{{4}}|\d{{2}}){_END}(?!\.\d)"
)
_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?(?!\d|:\d)" + f"{_CLOCK_END}?"
)
_HOUR = re.compile(rf"(?P<hour>\d{{1,2}}){_CLOCK_END}")
_PHONE = re.compile(
    rf"(?:\+?\d{{1,3}}[ .-])?(?:\(\d{{2,4}}\) ?|\d{{3,4}}[.-])\d{{3,4}}[.-]\d{{3,4}}{_END}"
    rf"|\+\d{{1,3}}(?:[ .-]?\(?\d{{2,4}}\)?){{2,5}}{_END}|\d{{3}}-\d{{4}}{_END}"
)
_GROUPS = re.compile(rf"\d+(?:\.\d+){{2,}}{_END}")
_MONEY = re.compile(
    rf"(?P<minus>-)?(?:US|A|C)?(?P<sign>{_SIGN})\s?(?P<number>{_NUMBER})"
    rf"(?:\s?[-–]\s?{_SIGN}?(?P<to>{_NUMBER}))?(?:\s?(?P<multiple>[A-Za-z]{{1,8}}){_END})?"
)
_MONEY_AFTER = re.compile(rf"(?P<minus>-)?(?P<number>{_NUMBER})\s?(?P<sign>{_SIGN}|¢|[A-Z]{{3}}){_END}")
_DECADE = re.compile(r"'?(?P<year>\d{3}0|[2-9]0|10)'?s\b")
_ORDINAL = re.compile(r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", re.I)
_MIXED_FRACTION = re.compile(
    rf"(?P<whole>\d{{1,6}}) {{1,2}}(?P<over>\d{{1,3}})/(?P<under>\d{{1,3}}){_END}(?!/)"
)
_FRACTION = re.compile(rf"(?P<over>\d{{1,6}})/(?P<under>\d{{1,6}}){_END}(?!/)")
_BY = re.compile(rf"(?P<a>{_NUMBER})\s?[x×]\s?(?P<b>{_NUMBER})(?![A-WYZa-wyz])")
_TIMES = re.compile(rf"(?P<a>{_NUMBER})[x×]{_END}")
_FEET = re.compile(r"(?P<feet>\d{1,2})'\s?(?P<inches>\d{1,2})(?:\"|'')")
_RATIO = re.compile(rf"(?P<a>\d+):(?P<b>\d+){_END}")
_RANGE = re.compile(rf"(?P<a>{_NUMBER})\s?[-–—]\s?(?P<b>{_NUMBER})(?![\d-])")
_POWER = re.compile(rf"(?P<a>{_NUMBER})\^(?P<minus>-)?(?P<b>\d{{1,4}}){_END}")
_SCIENTIFIC = re.compile(rf"(?P<a>{_NUMBER})[eE](?P<sign>[+-]?)(?P<b>\d{{1,4}}){_END}")
_PLAIN = re.compile(rf"(?P<sign>[-+±~])?(?P<number>{_NUMBER})")
_UNIT = re.compile(r"(?P<gap>[ -]?)(?P<unit>[A-Za-zµ°Ω][A-Za-zµ°Ω/0-9^]{0,7})")
_MULTIPLE = re.compile(r" ?(?P<multiple>thousand|million|billion|trillion)\b")
_STOP_INSIDE = re.compile(r"\. [a-z]")
_PERCENT = re.compile(r"\s?%")
_SIGN_WORDS = {"-": ["minus"], "+": ["plus"], "±": ["plus", "or", "minus"], "~": ["about"]}
_EASY_UNDER = frozenset((*range(2, 11), 12, 16, 20, 32, 64, 100, 1000))


def number_words(text: str) -> list[str]:
    """A number as written, with commas and a decimal point: "1,234.5"."""
    whole, point, digits = text.replace(",", "").partition(".")
    if point:
        return numbers.decimal(whole, digits)
    if (len(whole) > 1 and whole[0] == "0") or (
        len(text) > 7 and "," not in text and not whole.endswith("000")
    ):
        return numbers.spelled(whole)
    return numbers.cardinal(whole)


def unit_words(unit: str, one: bool) -> list[str]:
    """A unit's words: "km/h", False -> kilometers per hour."""
    return tables.UNITS[unit][0 if one else 1].split("-")


def _joins(scan: Scan) -> bool:
    """Whether a number here would begin inside something else."""
    return scan.before.isalnum()


def _month_day(scan: Scan) -> bool:
    match = scan.look(_MONTH_DAY)
    if match is None or _joins(scan):
        return False
    month = tables.MONTH_NAMES[match["month"].lower()]
    if match["only"]:
        return scan.skip(match.end(), [month, *numbers.year(match["only"])])
    if not 1 <= int(match["day"]) <= 31:
        return False
    year = [",", *numbers.year(match["year"])] if match["year"] else []
    return scan.skip(match.end(), [month, *numbers.ordinal(match["day"]), *year])


def _day_month(scan: Scan) -> bool:
    match = scan.look(_DAY_MONTH)
    if match is None or _joins(scan) or not 1 <= int(match["day"]) <= 31:
        return False
    if match["month"] in ("May", "March") and not (match["th"] or match["year"]) and scan.last == "number":
        return False
    article = [] if scan.last == "the" else ["the"]
    words = [*article, *numbers.ordinal(match["day"]), "of", tables.MONTH_NAMES[match["month"].lower()]]
    # The stop of an abbreviated month at the end of a sentence ends it.
    end = match.end()
    if scan.text[end - 1] == "." and not scan.text[end : end + 2].strip():
        end -= 1
    return scan.skip(end, words + (numbers.year(match["year"]) if match["year"] else []))


def _date(scan: Scan) -> bool:
    match = scan.look(_ISO) or scan.look(_SLASHED)
    if match is None or _joins(scan):
        return False
    if match.re is _ISO:
        month, day = match["month"], match["day"]
    else:
        # The American order, unless only the other one is a date or dots are used.
        month, day = match["a"], match["b"]
        if int(month) > 12 or (match["sep"] == "." and int(day) <= 12):
            month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return False
    year = match["year"]
    if len(year) == 2:
        year = ("20" if int(year) < 70 else "19") + year
    words = [tables.MONTHS[int(month) - 1], *numbers.ordinal(day), ",", *numbers.year(year)]
    scan.skip(match.end(), words)
    if match[0].endswith("T"):
        scan.say("at")
        _clock(scan)
    return True


def _half(match: re.Match[str], scan: Scan) -> tuple[list[str], int, bool]:
    """Letters of a.m. or p.m., where it ends, and whether its stop ends the sentence."""
    if not match["half"]:
        return [], match.end(), False
    ends = bool(match["dot"]) and not scan.text[match.end() :][:2].strip()
    return [f"{match['half'].lower()}.", "m."], match.end(), ends


def _time(scan: Scan) -> bool:
    return not _joins(scan) and _clock(scan)


def _clock(scan: Scan) -> bool:
    match = scan.look(_TIME) or scan.look(_HOUR)
    if match is None or int(match["hour"]) > 24:
        return False
    half, end, stop = _half(match, scan)
    hour = numbers.cardinal(match["hour"])
    if match.re is _HOUR:
        return int(match["hour"]) <= 12 and scan.skip(end, hour + half, stop=stop)
    if int(match["minute"]) > 59:
        return False
    minute = int(match["minute"])
    if minute == 0:
        early = int(match["hour"]) <= 12 and not match["hour"].startswith("0")
        words = hour + ([] if half else ["o'clock"] if early else ["hundred"])
        if int(match["hour"]) == 0:
            words = ["midnight"] if not half else ["twelve"]
    else:
        words = hour + (["oh"] if minute < 10 else []) + numbers.cardinal(str(minute))
    if match["second"] and int(match["second"]):
        second = int(match["second"])
        words += ["and", *numbers.cardinal(str(second)), "second" if second == 1 else "seconds"]
    return scan.skip(end, words + half, stop=stop)


def _phone(scan: Scan) -> bool:
    match = scan.look(_PHONE)
    if match is None or _joins(scan):
        return False
    words = ["plus"] if match[0].startswith("+") else []
    for index, group in enumerate(re.findall(r"\d+", match[0])):
        words += ([","] if index else []) + numbers.spelled(group)
    return scan.skip(match.end(), words)


def _dotted_groups(scan: Scan) -> bool:
    """Versions (1.2.3) and network addresses (192.168.0.1)."""
    match = scan.look(_GROUPS)
    if match is None or _joins(scan):
        return False
    groups = match[0].split(".")
    address = len(groups) == 4
    words: list[str] = []
    for index, group in enumerate(groups):
        words += (["dot" if address else "point"] if index else []) + numbers.pairs(group)
    return scan.skip(match.end(), words)


def _money(scan: Scan) -> bool:
    match = scan.look(_MONEY) or scan.look(_MONEY_AFTER)
    if match is None or _joins(scan):
        return False
    sign, end = match["sign"], match.end()
    if match.re is _MONEY_AFTER:
        sign = tables.CURRENCY_CODES.get(sign, sign)
        multiple, to = "", None
    else:
        multiple, to = match["multiple"] or "", match["to"]
        if multiple and multiple not in tables.MULTIPLES:
            end, multiple = match.start("multiple"), ""
    if sign not in tables.CURRENCIES:
        return False
    words = ["minus"] if match["minus"] else []
    if multiple:
        words += number_words(match["number"])
        words += (["to", *number_words(to)] if to else []) + [tables.MULTIPLES[multiple]]
        return scan.skip(end, [*words, tables.CURRENCIES[sign][1]])
    if to:
        words += [*_amount(match["number"], sign, bare=True), "to", *_amount(to, sign)]
        return scan.skip(end, words)
    return scan.skip(end, words + _amount(match["number"], sign))


def _amount(number: str, sign: str, bare: bool = False) -> list[str]:
    """Dollars and cents; `bare` leaves the currency out where there are no cents."""
    one, many, small_one, small_many = tables.CURRENCIES[sign]
    whole, _, digits = number.replace(",", "").partition(".")
    if digits and (len(digits) != 2 or not small_one):
        return [*number_words(number), many]
    whole_words = [] if bare and not digits else [one if whole.lstrip("0") == "1" else many]
    cents = int(digits or 0)
    small = [*numbers.cardinal(digits), small_one if cents == 1 else small_many] if cents else []
    if small and not whole.strip("0"):
        return small
    return [*numbers.cardinal(whole), *whole_words, *(["and", *small] if small else [])]


def _decade(scan: Scan) -> bool:
    match = scan.look(_DECADE)
    if match is None or _joins(scan):
        return False
    digits = match["year"]
    return scan.skip(
        match.end(), numbers.plural(numbers.year(digits) if len(digits) == 4 else numbers.cardinal(digits))
    )


def _ordinal(scan: Scan) -> bool:
    match = scan.look(_ORDINAL)
    if match is None or _joins(scan):
        return False
    return scan.skip(match.end(), numbers.ordinal(match["number"].replace(",", "")))


def _fraction(scan: Scan) -> bool:
    match = scan.look(_MIXED_FRACTION)
    if match and not _joins(scan) and 0 < int(match["over"]) < int(match["under"]):
        part = numbers.fraction(match["over"], match["under"])
        if part[0] == "one":
            part = ["an" if part[1].startswith("eighth") else "a", *part[1:]]
        end, words = match.end(), [*numbers.cardinal(match["whole"]), "and", *part]
        return _with_unit(scan, end, words, one=False)
    match = scan.look(_FRACTION)
    if match is None or _joins(scan):
        return False
    over, under = match["over"], match["under"]
    if over == "24" and under == "7":
        return scan.skip(match.end(), ["twenty", "four", "seven"])
    if int(under) in _EASY_UNDER and 0 < int(over) < int(under):
        words = numbers.fraction(over, under)
        unit = _unit_at(scan, match.end())
        if unit:
            return scan.skip(unit[1], [*words, "of", "a", *unit_words(unit[0], True)])
        return scan.skip(match.end(), words)
    return scan.skip(match.end(), [*number_words(over), "over", *number_words(under)])


def _by(scan: Scan) -> bool:
    """Sizes (1920x1080), factors (3x) and heights in feet and inches."""
    if _joins(scan):
        return False
    if match := scan.look(_BY):
        a, b = ((numbers.pairs if match[g].isdecimal() else number_words)(match[g]) for g in "ab")
        return _with_unit(scan, match.end(), [*a, "by", *b], one=False)
    if match := scan.look(_TIMES):
        return scan.skip(match.end(), [*number_words(match["a"]), "times"])
    if match := scan.look(_FEET):
        inches = numbers.cardinal(match["inches"])
        return scan.skip(match.end(), [*numbers.cardinal(match["feet"]), "foot", *inches])
    return False


def _ratio(scan: Scan) -> bool:
    match = scan.look(_RATIO)
    if match is None or _joins(scan):
        return False
    return scan.skip(match.end(), [*number_words(match["a"]), "to", *number_words(match["b"])])


def _range(scan: Scan) -> bool:
    match = scan.look(_RANGE)
    if match is None or _joins(scan):
        return False
    a, b = match["a"], match["b"]
    years = all(len(n) == 4 and 10 <= int(n[:2]) <= 20 and n.isdecimal() for n in (a, b))
    if any(len(n) > 1 and n[0] == "0" and n.isdecimal() for n in (a, b)):
        # No quantity has a leading zero: a code in two groups.
        return scan.skip(match.end(), [*numbers.spelled(_digits(a)), ",", *numbers.spelled(_digits(b))])
    # 2019-21, as a span of years.
    short = len(a) == 4 and len(b) == 2 and a.isdecimal() and b.isdecimal() and "1900" <= a <= "2099"
    if years or short:
        tail = numbers.year(b) if years else number_words(b)
        return scan.skip(match.end(), [*numbers.year(a), "to", *tail])
    return _with_unit(scan, match.end(), [*number_words(a), "to", *number_words(b)], one=False)


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdecimal())


def _power(scan: Scan) -> bool:
    match = scan.look(_SCIENTIFIC)
    if match and not _joins(scan):
        power = _exponent(match["b"], match["sign"] == "-")
        words = [*number_words(match["a"]), "times", "ten", *power]
        return scan.skip(match.end(), words)
    match = scan.look(_POWER)
    if match is None or _joins(scan):
        return False
    base, exponent = number_words(match["a"]), match["b"]
    if match["minus"] or exponent not in tables.POWERS:
        return scan.skip(match.end(), [*base, *_exponent(exponent, bool(match["minus"]))])
    return scan.skip(match.end(), [*base, tables.POWERS[exponent]])


def _exponent(power: str, minus: bool) -> list[str]:
    """Words of a power: to the eighth, to the minus six."""
    return ["to", "the", *(["minus", *numbers.cardinal(power)] if minus else numbers.ordinal(power))]


def _plain(scan: Scan) -> bool:
    """A number, with its sign, its unit, and the reading of years."""
    match = scan.look(_PLAIN)
    if match is None:
        return False
    sign, number = match["sign"], match["number"]
    before = scan.before
    if (sign and (before.isalnum() or before == ")")) or (not sign and before.isalpha()):
        return False
    if not sign and number.startswith(".") and before.isdecimal():
        return False
    words = list(_SIGN_WORDS[sign]) if sign else []
    after = scan.text[match.end() : match.end() + 1]
    unit = _unit_at(scan, match.end())
    if after.isalpha() and unit is None:
        return False
    digits = number.replace(",", "")
    if not sign and unit is None and number == digits and _is_year(scan, digits, match.end()):
        return scan.skip(match.end(), numbers.year(digits))
    if len(digits) == 3 and digits == number and not sign and scan.last in tables.NUMBER_NAMES:
        said = numbers.spelled(digits) if scan.last in ("call", "dial") else numbers.pairs(digits)
        return scan.skip(match.end(), said)
    return _with_unit(scan, match.end(), words + number_words(number), one=number == "1")


def _is_year(scan: Scan, digits: str, end: int) -> bool:
    if len(digits) != 4 or not digits.isdecimal() or _PERCENT.match(scan.text, end):
        return False
    return "1900" <= digits <= "2099" or ("1010" <= digits < "1900" and scan.last in tables.YEAR_WORDS)


def _unit_at(scan: Scan, at: int) -> tuple[str, int] | None:
    """The longest unit at `at`, behind a number, and where it ends."""
    match = _UNIT.match(scan.text, at)
    if match is None:
        return None
    text = match["unit"]
    for length in range(len(text), 0, -1):
        unit, end = text[:length], match.start("unit") + length
        behind = scan.text[end : end + 1]
        if unit not in tables.UNITS or behind.isalnum() or behind == "'":
            continue
        if unit == "K" and not match["gap"]:
            continue
        if unit in tables.UNCERTAIN_UNITS and match["gap"] and behind and behind not in ".,;:!?)":
            continue
        return unit, end
    return None


def _with_unit(scan: Scan, end: int, words: list[str], one: bool) -> bool:
    """Say `words`, then a multiple, a unit or percent if one stands at `end`."""
    multiple = _MULTIPLE.match(scan.text, end)
    if multiple:
        words, end, one = [*words, multiple["multiple"]], multiple.end(), False
    percent = _PERCENT.match(scan.text, end)
    if percent:
        return scan.skip(percent.end(), [*words, "percent"])
    unit = _unit_at(scan, end)
    if unit is None:
        return scan.skip(end, words)
    # A hyphen makes it an adjective: "a 5-km run".
    hyphen = scan.text[end] == "-"
    end = unit[1]
    if _STOP_INSIDE.match(scan.text, end):
        end += 1
    return scan.skip(end, words + unit_words(unit[0], one or hyphen))


QUANTITIES: tuple[Handler, ...] = (
    _month_day,
    _day_month,
    _date,
    _time,
    _phone,
    _dotted_groups,
    _money,
    _decade,
    _ordinal,
    _fraction,
    _by,
    _ratio,
    _range,
    _power,
    _plain,
)
__all__ = ["QUANTITIES", "Handler", "number_words", "unit_words"]
