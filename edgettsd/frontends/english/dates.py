"""Dates and times of the day, and spans of them."""

from __future__ import annotations

import re

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.ranges import DASH, to
from edgettsd.frontends.english.scan import Scan
from edgettsd.frontends.english.units import END, joins, unit_at

_MONTH = "|".join(sorted((n.capitalize() for n in tables.MONTH_NAMES), key=len, reverse=True))
_CLOCK_END = r"(?:\s?(?P<half>[aApP])\.?\s?[mM]\b(?P<dot>\.)?)"
_CLOCK_ENDS = r"\s?[aApP]\.?\s?[mM]\b"

_MONTH_DAY = re.compile(
    rf"(?P<month>{_MONTH})\.? (?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{END}(?!:|\.\d|,\d)"
    rf"(?:{DASH}(?P<to>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:/]|\.\d|,\d|{_CLOCK_ENDS}))?"
    rf"(?:,? (?P<year>\d{{4}}){END})?|(?P<only>[12]\d{{3}}){END})"
)
_DAY_MONTH = re.compile(
    rf"(?P<day>\d{{1,2}})(?P<th>st|nd|rd|th)?(?P<of> of)? (?P<month>{_MONTH})\b\.?"
    rf"(?:,? (?P<year>\d{{4}}){END})?"
)
_DAY_TO = re.compile(
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{DASH}(?=\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b)"
)
_ISO = re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?!\d)(?:T(?=\d))?")
_YEAR_FIRST = re.compile(rf"(?P<year>(?:19|20)\d\d)/(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}}){END}(?!/)")
_SLASHED = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<sep>[/.])(?P<b>\d{{1,2}})(?P=sep)(?P<year>\d{{4}}|\d{{2}}){END}(?!\.\d)"
)
_DASHED = re.compile(rf"(?P<a>\d{{1,2}})(?P<sep>-)(?P<b>\d{{1,2}})-(?P<year>(?:19|20)\d\d){END}(?!-)")
_TIME = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?(?!\d|:\d)" + f"{_CLOCK_END}?"
)
_HOUR = re.compile(rf"(?P<hour>\d{{1,2}}){_CLOCK_END}")
_HOUR_TO = re.compile(
    rf"(?P<hour>\d{{1,2}}){DASH}(?=\d{{1,2}}(?::\d{{2}})?{_CLOCK_ENDS}|\d{{1,2}}:\d{{2}}(?!\d|:\d))"
)
_TO_HOUR = re.compile(r"(?P<hour>[1-9]\d?)(?![\w:/%]|[.,-]\d)")
_TO_NAME = re.compile(rf"(?P<name>noon|midnight|close|late){END}", re.I)
_ABBREVIATED_DAY = re.compile(
    rf"(?P<day>{'|'.join(sorted((d.capitalize() for d in tables.WEEKDAYS), key=len, reverse=True))})\b\.?"
    rf"(?=,? (?:\d{{1,2}}(?:[:/–-]\d|{_CLOCK_ENDS}|(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})\b)"
    rf"|(?:{_MONTH})\.? \d|\d{{4}}-\d\d-))"
)

_SHORT = re.compile(r"(?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\w/%]|\.\d|,\d)")
_SHORT_TO = re.compile(rf"{DASH}(?P<a>\d{{1,2}})/(?P<b>\d{{1,2}})(?![\w/%]|\.\d|,\d)")
_MONTH_YEAR = re.compile(rf"(?P<month>\d{{1,2}})/(?P<year>(?:19|20)\d\d){END}(?!/)")
_TIME_BEHIND = re.compile(rf",?(?: at| @)? \d{{1,2}}(?::\d\d|{_CLOCK_ENDS})")
# Words behind a/b that make a fraction of it.
_PART_BEHIND = re.compile(
    r" (?:of|a|an|the|cups?|tea|table|inch|inches|miles?|hours?|pounds?|full|empty|done|majority|time|beat"
    r"|mark|stars?"
    r"|spoons?|tsp|tbsp|gallons?|pints?|quarts?|acres?|way|scale|size|speed|price|votes?)\b"
)
# Behind the first words a/b is a day whatever its numbers are, behind the second ones where nobody would
# write a fraction so.
_SURELY = frozenset(
    "due dated date dates shipped ships delivered arrives arrived arriving expires expired exp "
    "deadline until till since scheduled born effective valid monday tuesday wednesday thursday "
    "friday saturday sunday on".split()
)
_MAYBE = frozenset(
    "by from through thru before after between and to for starting starts started start ending "
    "ends ended end begins beginning began opens opened opening closes closed closing released "
    "release updated update created published posted sent received ordered booked signed paid "
    "delivery shipping departs departing departure arrival returns return returning leaves "
    "leaving today tomorrow yesterday night morning evening week version build".split()
)
_TIMES_OF = frozenset("week weekend month night morning afternoon evening day date".split())
_SHARES = frozenset(
    "divided divide multiplied multiply reduced increased cut scaled fell rose grew dropped".split()
)
_EASY_UNDER = frozenset((*range(2, 11), 12, 16, 20, 32))
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def weekday(scan: Scan) -> bool:
    """An abbreviated weekday before a date or a time: Mon 5 pm, Fri, Nov 27."""
    match = scan.look(_ABBREVIATED_DAY)
    if match is None or joins(scan):
        return False
    return scan.skip(match.end(), [tables.WEEKDAYS[match["day"].lower()]])


def month_day(scan: Scan) -> bool:
    """November 29, Nov. 29-30, 2026, May 3 – June 5, March 2026."""
    return _month_day(scan) and to(scan, _month_day)


def _month_day(scan: Scan) -> bool:
    match = scan.look(_MONTH_DAY)
    if match is None or joins(scan):
        return False
    month = tables.MONTH_NAMES[match["month"].lower()]
    if match["only"]:
        return scan.skip(match.end(), [month, *numbers.year(match["only"])])
    if not 1 <= int(match["day"]) <= 31:
        return False
    words = [month, *numbers.ordinal(match["day"])]
    if match["to"]:
        if not 1 <= int(match["to"]) <= 31:
            return scan.skip(match.end("day"), words)
        words += ["to", *numbers.ordinal(match["to"])]
    year = [",", *numbers.year(match["year"])] if match["year"] else []
    return scan.skip(match.end(), words + year)


def day_month(scan: Scan) -> bool:
    """29 November, the 5th of May, 29-30 Nov 2026, 29 Nov – 2 Dec."""
    match = scan.look(_DAY_TO)
    if match and not joins(scan) and 1 <= int(match["day"]) <= 31:
        place = scan.place()
        article = [] if scan.last == "the" else ["the"]
        scan.skip(match.end(), [*article, *numbers.ordinal(match["day"]), "to"])
        if _day_month(scan):
            return True
        scan.back(place)
    return _day_month(scan) and to(scan, _day_month)


def _day_month(scan: Scan) -> bool:
    match = scan.look(_DAY_MONTH)
    if match is None or joins(scan) or not 1 <= int(match["day"]) <= 31:
        return False
    if match["month"] in ("May", "March") and not (match["th"] or match["year"]) and scan.last == "number":
        return False
    article = [] if scan.last == "the" else ["the"]
    words = [*article, *numbers.ordinal(match["day"]), "of", tables.MONTH_NAMES[match["month"].lower()]]
    # The stop of an abbreviated month at the end of a sentence is the sentence's.
    end = match.end()
    if scan.text[end - 1] == "." and not scan.text[end : end + 2].strip():
        end -= 1
    return scan.skip(end, words + (numbers.year(match["year"]) if match["year"] else []))


def date(scan: Scan) -> bool:
    """Dates in numbers with their year: 2026-11-29, 11/29/2026, 29.11.2026."""
    return _date(scan) and to(scan, _date)


def _date(scan: Scan) -> bool:
    match = scan.look(_ISO) or scan.look(_YEAR_FIRST) or scan.look(_SLASHED) or scan.look(_DASHED)
    if match is None or joins(scan):
        return False
    if match.re in (_ISO, _YEAR_FIRST):
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
    words = [*_day(int(month), int(day)), ",", *numbers.year(year)]
    scan.skip(match.end(), words)
    if match[0].endswith("T"):
        scan.say("at")
        _clock(scan)
    return True


def _day(month: int, day: int) -> list[str]:
    return [tables.MONTHS[month - 1], *numbers.ordinal(str(day))]


def short_date(scan: Scan) -> bool:
    """11/30 where a day is meant and no fraction, and 11/2026 where a month is."""
    if joins(scan):
        return False
    if match := scan.look(_MONTH_YEAR):
        month = int(match["month"])
        told = match["month"][0] == "0" or _before(scan) in _SURELY | _MAYBE
        if 1 <= month <= 12 and told:
            return scan.skip(match.end(), [tables.MONTHS[month - 1], *numbers.year(match["year"])])
        return False
    match = scan.look(_SHORT)
    day = _month_and_day(match) if match else None
    if (
        match is None
        or day is None
        or _PART_BEHIND.match(scan.text, match.end())
        or unit_at(scan, match.end())
    ):
        return False
    if match[0] == "9/11" and _before(scan) not in _SURELY - {"on", "since", "until", "till"}:
        return scan.skip(match.end(), ["nine", "eleven"])
    end = _SHORT_TO.match(scan.text, match.end())
    last = _month_and_day(end) if end else None
    if end and last and _PART_BEHIND.match(scan.text, end.end()):
        return False
    if end and last and (_odd(match) or _odd(end) or _told(scan, match)):
        return scan.skip(end.end(), [*_day(*day), "to", *_day(*last)])
    return _told(scan, match) and scan.skip(match.end(), _day(*day))


def _month_and_day(match: re.Match[str]) -> tuple[int, int] | None:
    """Month and day of a/b, the American way unless only the other one is a day of the year."""
    a, b = int(match["a"]), int(match["b"])
    if a > 12:
        a, b = b, a
    return (a, b) if 1 <= a <= 12 and 1 <= b <= _DAYS[a - 1] else None


def _odd(match: re.Match[str]) -> bool:
    """Whether nobody would write a part so."""
    a, b = int(match["a"]), int(match["b"])
    return a >= b or b not in _EASY_UNDER


def _told(scan: Scan, match: re.Match[str]) -> bool:
    """Whether the words around a/b make a day of it."""
    if _TIME_BEHIND.match(scan.text, match.end()):
        return True
    before = _before(scan)
    if before in _SURELY:
        return True
    if before not in _MAYBE or (before == "by" and _SHARES.intersection(scan.out[-3:])):
        return False
    # Only month before day is taken here, because 13/5 is more often a fraction.
    return (_odd(match) and int(match["a"]) <= 12 < int(match["b"])) or (
        before in ("from", "by", "until", "starting") and int(match["a"]) >= int(match["b"]) > 0
    )


def _before(scan: Scan) -> str:
    """The last word that was said; a comma or colon before the date is passed over."""
    said = scan.out[-2:]
    if said and said[-1] in (",", ":"):
        said = said[:-1]
    if said == ["as", "of"] or (said[1:] == ["of"] and said[0] in _TIMES_OF):
        return "by"
    return said[-1] if said else ""


def time(scan: Scan) -> bool:
    """5:30, 17:05, 5 p.m., 9–11 am, 20:00-22:00, 10:30-11."""
    if joins(scan):
        return False
    match = scan.look(_HOUR_TO)
    if match and int(match["hour"]) <= 24:
        place = scan.place()
        scan.skip(match.end(), [*numbers.cardinal(match["hour"]), "to"])
        if _clock(scan):
            return True
        scan.back(place)
    return _clock(scan) and to(scan, _to_time)


def _to_time(scan: Scan) -> bool:
    if _clock(scan):
        return True
    if match := scan.look(_TO_NAME):
        return scan.skip(match.end(), [match["name"].lower()])
    match = scan.look(_TO_HOUR)
    return (
        match is not None
        and not unit_at(scan, match.end())
        and scan.skip(match.end(), numbers.cardinal(match["hour"]))
    )


def _half(match: re.Match[str], scan: Scan) -> tuple[list[str], int, bool]:
    """Letters of a.m. or p.m., where it ends, and whether its stop ends the sentence."""
    if not match["half"]:
        return [], match.end(), False
    ends = bool(match["dot"]) and not scan.text[match.end() :][:2].strip()
    return [f"{match['half'].lower()}.", "m."], match.end(), ends


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
