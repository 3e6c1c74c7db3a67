"""Spans with a dash that is said as "to": of numbers, years, measures, months, weekdays and letters."""

from __future__ import annotations

import re
from collections.abc import Callable

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.scan import Scan
from edgettsd.frontends.english.units import END, NUMBER, joins, measured, number_words, with_unit

DASH = r"(?: [-–] |[-–—])"
"""A dash of a span. It has a space on both sides or on none, because "5 -3" is a difference."""

_TO = re.compile(DASH)
_RANGE = re.compile(rf"(?P<a>{NUMBER})\s?[-–—]\s?(?P<b>{NUMBER})(?![\d-])")
_FACTOR = re.compile(rf"[x×]{END}")
_SIGNED = re.compile(
    rf"(?P<minus>-?)(?P<a>{NUMBER})(?:(?P<dash>{DASH})(?P<low>[-+]?))(?P<b>{NUMBER})(?![\d-])"
)
_OPEN = re.compile(rf"(?P<year>[12]\d{{3}}) ?[-–—] ?(?P<end>present|now|today|date){END}")
_MONTH = "|".join(sorted((n.capitalize() for n in tables.MONTH_NAMES), key=len, reverse=True))
_MONTHS = re.compile(rf"(?P<a>{_MONTH})\.?{DASH}(?P<b>{_MONTH}){END}(?P<more>\.? \d)?")
_WEEKDAY = "|".join(
    sorted((n.capitalize() for n in (*tables.WEEKDAYS, *tables.WEEKDAYS.values())), key=len, reverse=True)
)
_WEEKDAYS = re.compile(rf"(?P<a>{_WEEKDAY})\.?{DASH}(?P<b>{_WEEKDAY}){END}")
_DAY_LIST = re.compile(rf"(?:{_WEEKDAY})(?:/(?:{_WEEKDAY})){{1,6}}{END}")
_PLACES = re.compile(rf"(?P<a>[A-Z]{{1,2}}\d{{1,4}}){DASH}(?P<b>[A-Z]{{1,2}}\d{{1,4}}){END}")
_LETTERS = re.compile(rf"(?:(?P<a>[A-Z])–(?P<b>[A-Z])|A-Z){END}")


def to(scan: Scan, handler: Callable[[Scan], bool]) -> bool:
    """Read the end of a span whose beginning was read: a dash and what `handler` takes. Always true."""
    match = scan.look(_TO)
    if match:
        place = scan.place()
        scan.skip(match.end(), ["to"])
        if not handler(scan):
            scan.back(place)
    return True


def number_range(scan: Scan) -> bool:
    """Two numbers with a dash: quantities, years, pages, temperatures; or a code in two groups."""
    if joins(scan):
        return False
    if match := scan.look(_OPEN):
        return scan.skip(match.end(), [*numbers.year(match["year"]), "to", match["end"]])
    match = scan.look(_RANGE)
    if match is None:
        return _signed(scan)
    a, b = match["a"], match["b"]
    if match[0] == "50-50":
        return scan.skip(match.end(), ["fifty", "fifty"])
    if factor := _FACTOR.match(scan.text, match.end()):
        return scan.skip(factor.end(), [*number_words(a), "to", *number_words(b), "times"])
    years = all(len(n) == 4 and n.isdecimal() and "10" <= n[:2] <= "20" for n in (a, b))
    if any(len(n) > 1 and n[0] == "0" and n.isdecimal() for n in (a, b)):
        # Numbers with a leading zero are a code in two groups, because no quantity has one.
        return scan.skip(match.end(), [*numbers.spelled(_digits(a)), ",", *numbers.spelled(_digits(b))])
    # A year with two digits behind the dash is a span of years: 2019-21.
    short = len(a) == 4 and len(b) == 2 and a.isdecimal() and b.isdecimal() and "1900" <= a <= "2099"
    if (years or short) and not measured(scan, match.end()):
        tail = numbers.year(b) if years else number_words(b)
        return scan.skip(match.end(), [*numbers.year(a), "to", *tail])
    return with_unit(scan, match.end(), [*number_words(a), "to", *number_words(b)], one=False)


def _signed(scan: Scan) -> bool:
    """A range with a minus in it: -5–0, -10 - -5."""
    match = scan.look(_SIGNED)
    if match is None or not (match["minus"] or match["low"]) or (match["low"] and match["dash"] == "-"):
        return False
    low = {"": [], "-": ["minus"], "+": ["plus"]}[match["low"]]
    words = [*(["minus"] if match["minus"] else []), *number_words(match["a"]), "to", *low]
    return with_unit(scan, match.end(), [*words, *number_words(match["b"])], one=False)


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdecimal())


def calendar_range(scan: Scan) -> bool:
    """Spans of months (Jan–Mar) and weekdays (Mon-Fri), and lists of weekdays (Sat/Sun)."""
    if joins(scan):
        return False
    if match := scan.look(_MONTHS):
        a, b = (tables.MONTH_NAMES[match[group].lower()] for group in "ab")
        # The month at the end is read with its day or year.
        return scan.skip(
            match.start("b") if match["more"] else match.end(), [a, "to", *([] if match["more"] else [b])]
        )
    if match := scan.look(_DAY_LIST):
        *first, last = (tables.WEEKDAYS.get(day.lower(), day.lower()) for day in match[0].split("/"))
        return scan.skip(match.end(), [*first, "and", last])
    if match := scan.look(_WEEKDAYS):
        a, b = (tables.WEEKDAYS.get(match[group].lower(), match[group].lower()) for group in "ab")
        return scan.skip(match.end(), [a, "to", b])
    return False


def letter_range(scan: Scan) -> bool:
    """Spans of letters (A–F) and of numbered places with the same letters (Q1-Q3)."""
    if joins(scan):
        return False
    if match := scan.look(_LETTERS):
        return scan.skip(
            match.end(), [f"{(match['a'] or 'a').lower()}.", "to", f"{(match['b'] or 'z').lower()}."]
        )
    match = scan.look(_PLACES)
    if match is None or match["a"].rstrip("0123456789") != match["b"].rstrip("0123456789"):
        return False
    for index, place in enumerate((match["a"], match["b"])):
        number = place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        name = place[: len(place) - len(number)].lower()
        scan.say(*(["to"] if index else []), *(f"{c}." for c in name), *numbers.pairs(number))
    return scan.skip(match.end(), [])
