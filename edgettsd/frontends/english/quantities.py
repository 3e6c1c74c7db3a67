"""Numbers with what belongs to them: units, money, decades, ordinals, fractions, sizes, ratios."""

from __future__ import annotations

import re
from collections.abc import Callable

from edgettsd.frontends.english import codes, dates, numbers, powers, ranges, tables
from edgettsd.frontends.english.scan import Scan
from edgettsd.frontends.english.units import (
    END,
    NUMBER,
    PERCENT,
    joins,
    measured,
    number_words,
    unit_at,
    unit_words,
    with_unit,
)

Handler = Callable[[Scan], bool]

_SIGN = "[$€£¥₹₩₽]"
_MONEY = re.compile(
    rf"(?P<minus>-)?(?:US|A|C)?(?P<sign>{_SIGN})\s?(?P<number>{NUMBER})"
    rf"(?:\s?[-–]\s?{_SIGN}?(?P<to>{NUMBER}))?(?:\s?(?P<multiple>[A-Za-z]{{1,8}}){END})?"
)
_MONEY_AFTER = re.compile(rf"(?P<minus>-)?(?P<number>{NUMBER})\s?(?P<sign>{_SIGN}|¢|[A-Z]{{3}}){END}")
_DECADE = re.compile(r"'?(?P<year>\d{3}0|[2-9]0|10)'?s\b")
_ORDINAL = re.compile(r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", re.I)
_MIXED_FRACTION = re.compile(
    rf"(?P<whole>\d{{1,6}}) {{1,2}}(?P<over>\d{{1,3}})/(?P<under>\d{{1,3}}){END}(?!/)"
)
_FRACTION = re.compile(rf"(?P<over>\d{{1,6}})/(?P<under>\d{{1,6}}){END}(?!/)")
_BY = re.compile(rf"(?P<a>{NUMBER})\s?[x×]\s?(?P<b>{NUMBER})(?![A-WYZa-wyz])")
_TIMES = re.compile(rf"(?P<a>{NUMBER})[x×]{END}")
_FEET = re.compile(r"(?P<feet>\d{1,2})'\s?(?P<inches>\d{1,2})(?:\"|'')")
_VERSES = re.compile(
    rf"(?P<chapter>[1-9]\d{{0,2}}):(?P<first>[1-9]\d{{0,2}})[-–](?P<last>[1-9]\d{{0,2}}){END}(?!:)"
)
_RATIO = re.compile(rf"(?P<a>\d+):(?P<b>\d+){END}")
_PLAIN = re.compile(rf"(?P<sign>[-+±~])?(?P<number>{NUMBER})")
_SIGN_WORDS = {"-": ["minus"], "+": ["plus"], "±": ["plus", "or", "minus"], "~": ["about"]}
_EASY_UNDER = frozenset((*range(2, 11), 12, 16, 20, 32, 64, 100, 1000))
_YEAR_LONG = re.compile(r"24/7(?P<year>/365)?(?![\w/])")
_SEASON = re.compile(r"(?P<year>(?:19|20)\d\d)/(?P<next>(?:19|20)?\d\d)(?![\w/])")
_BEAT = re.compile(r"(?P<a>\d{1,2})/(?P<b>[248]|16) (?=(?:time|beat|bar|meter|metre|measure)s?\b)")
_OUT_OF = re.compile(r"\d{1,3}/\d{1,3} (?:stars?|points?|marks?)\b")
# Fractions in form that are said as two numbers.
_TWINS = frozenset(("50/50", "20/20", "80/20", "60/40", "70/30", "90/10"))


def _money(scan: Scan) -> bool:
    return _sum_of_money(scan) and ranges.to(scan, _sum_of_money)


def _sum_of_money(scan: Scan) -> bool:
    match = scan.look(_MONEY) or scan.look(_MONEY_AFTER)
    if match is None or joins(scan):
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


def _decades(scan: Scan) -> bool:
    return _decade(scan) and ranges.to(scan, _decade)


def _decade(scan: Scan) -> bool:
    match = scan.look(_DECADE)
    if match is None or joins(scan):
        return False
    digits = match["year"]
    return scan.skip(
        match.end(), numbers.plural(numbers.year(digits) if len(digits) == 4 else numbers.cardinal(digits))
    )


def _ordinals(scan: Scan) -> bool:
    return _ordinal(scan) and ranges.to(scan, _ordinal)


def _ordinal(scan: Scan) -> bool:
    match = scan.look(_ORDINAL)
    if match is None or joins(scan):
        return False
    return scan.skip(match.end(), numbers.ordinal(match["number"].replace(",", "")))


def _fractions(scan: Scan) -> bool:
    return _fraction(scan) and ranges.to(scan, _fraction)


def _fraction(scan: Scan) -> bool:
    match = scan.look(_MIXED_FRACTION)
    if match and not joins(scan) and 0 < int(match["over"]) < int(match["under"]):
        part = numbers.fraction(match["over"], match["under"])
        if part[0] == "one":
            part = ["an" if part[1].startswith("eighth") else "a", *part[1:]]
        end, words = match.end(), [*numbers.cardinal(match["whole"]), "and", *part]
        return with_unit(scan, end, words, one=False)
    if not joins(scan) and (year := scan.look(_YEAR_LONG)):
        more = ["three", "sixty", "five"] if year["year"] else []
        return scan.skip(year.end(), ["twenty", "four", "seven", *more])
    match = scan.look(_FRACTION)
    if match is None or joins(scan):
        return False
    over, under = match["over"], match["under"]
    if words := _no_fraction(scan, match):
        return scan.skip(match.end(), words)
    if int(under) in _EASY_UNDER and 0 < int(over) < int(under):
        words = numbers.fraction(over, under)
        unit = unit_at(scan, match.end())
        if unit:
            return scan.skip(unit[1], [*words, "of", "a", *unit_words(unit[0], True)])
        return scan.skip(match.end(), words)
    return scan.skip(match.end(), [*number_words(over), "over", *number_words(under)])


def _no_fraction(scan: Scan, match: re.Match[str]) -> list[str]:
    """Words of a/b that is a rating, a place in a row, a beat or a pair; none for a fraction."""
    a, b = numbers.cardinal(match["over"]), numbers.cardinal(match["under"])
    if (season := scan.look(_SEASON)) and (int(season["year"]) + 1) % 100 == int(season["next"][-2:]):
        later = numbers.year(season["next"]) if len(season["next"]) == 4 else number_words(season["next"])
        return [*numbers.year(season["year"]), *later]
    if scan.look(_BEAT) or match[0] in _TWINS:
        return [*a, *b]
    said = scan.out[-2:]
    before = said[-1] if said and said[-1] not in (":", "of", "is", "was", "a") else said[0] if said else ""
    if scan.look(_OUT_OF) or before in tables.RATINGS:
        return [*a, "out", "of", *b]
    if before in tables.PLACES and int(match["over"]) <= int(match["under"]):
        return [*a, "of", *b]
    return []


def _by(scan: Scan) -> bool:
    """Sizes (1920x1080), factors (3x) and heights in feet and inches."""
    if joins(scan):
        return False
    if match := scan.look(_BY):
        a, b = ((numbers.pairs if match[g].isdecimal() else number_words)(match[g]) for g in "ab")
        return with_unit(scan, match.end(), [*a, "by", *b], one=False)
    if match := scan.look(_TIMES):
        return scan.skip(match.end(), [*number_words(match["a"]), "times"])
    if match := scan.look(_FEET):
        inches = numbers.cardinal(match["inches"])
        return scan.skip(match.end(), [*numbers.cardinal(match["feet"]), "foot", *inches])
    return False


def _ratio(scan: Scan) -> bool:
    verses = scan.look(_VERSES)
    if verses and not joins(scan):
        chapter, first, last = (numbers.cardinal(verses[group]) for group in ("chapter", "first", "last"))
        return scan.skip(verses.end(), [*chapter, *first, "to", *last])
    match = scan.look(_RATIO)
    if match is None or joins(scan):
        return False
    return scan.skip(match.end(), [*number_words(match["a"]), "to", *number_words(match["b"])])


def _number(scan: Scan) -> bool:
    """A number with what belongs to it; with a unit, also a range of two."""
    match = scan.look(_PLAIN)
    with_unit = match is not None and measured(scan, match.end())
    return _plain(scan) and (not with_unit or ranges.to(scan, _measure))


def _measure(scan: Scan) -> bool:
    match = scan.look(_PLAIN)
    return match is not None and measured(scan, match.end()) and _plain(scan)


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
    unit = unit_at(scan, match.end())
    if after.isalpha() and unit is None:
        return False
    digits = number.replace(",", "")
    if not sign and unit is None and number == digits and _is_year(scan, digits, match.end()):
        return scan.skip(match.end(), numbers.year(digits))
    name = codes.name_number(scan, digits) if digits == number and not sign and unit is None else None
    if name:
        return scan.skip(match.end(), name)
    return with_unit(scan, match.end(), words + number_words(number), one=number == "1")


def _is_year(scan: Scan, digits: str, end: int) -> bool:
    if len(digits) != 4 or not digits.isdecimal() or PERCENT.match(scan.text, end):
        return False
    return "1900" <= digits <= "2099" or ("1010" <= digits < "1900" and scan.last in tables.YEAR_WORDS)


# The order matters, because a handler takes whatever it can: the more special ones come first.
QUANTITIES: tuple[Handler, ...] = (
    dates.day_month,
    dates.date,
    codes.code,
    codes.mixed_code,
    codes.lettered,
    dates.time,
    dates.short_date,
    codes.phone,
    codes.dotted_groups,
    _money,
    _decades,
    _ordinals,
    _fractions,
    powers.power,
    powers.letter_power,
    _by,
    _ratio,
    ranges.number_range,
    _number,
)
