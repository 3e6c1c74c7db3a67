"""Numbers as written, and the units, multiples and signs that stand behind them."""

from __future__ import annotations

import re

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.scan import Scan

# The number of groups is bounded (12), so that a match that fails later has cost little.
NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,12}(?!\d)|\d+)(?:\.\d+)?|\.\d+"
END = r"(?![\w])"

_UNIT = re.compile(r"(?P<gap>[ -]?)(?P<unit>[A-Za-zµ°Ω][A-Za-zµ°Ω/0-9^]{0,7})")
_MULTIPLE = re.compile(r" ?(?P<multiple>thousand|million|billion|trillion)\b")
_CURRENCY = re.compile(rf" ?(?P<code>{'|'.join(tables.CURRENCY_CODES)}){END}")
_STOP_INSIDE = re.compile(r"\. [a-z]")
PERCENT = re.compile(r"\s?%")


def joins(scan: Scan) -> bool:
    """Whether a number here would begin inside something else."""
    return scan.before.isalnum()


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


def unit_at(scan: Scan, at: int) -> tuple[str, int] | None:
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


def measured(scan: Scan, at: int) -> bool:
    """Whether a unit, a multiple, a percent sign or a currency's code stands at `at`."""
    return bool(
        _MULTIPLE.match(scan.text, at)
        or PERCENT.match(scan.text, at)
        or _CURRENCY.match(scan.text, at)
        or unit_at(scan, at)
    )


def with_unit(scan: Scan, end: int, words: list[str], one: bool) -> bool:
    """Say `words`, then a multiple, a unit, percent or a currency if one stands at `end`."""
    multiple = _MULTIPLE.match(scan.text, end)
    if multiple:
        words, end, one = [*words, multiple["multiple"]], multiple.end(), False
    percent = PERCENT.match(scan.text, end)
    if percent:
        return scan.skip(percent.end(), [*words, "percent"])
    currency = _CURRENCY.match(scan.text, end)
    if currency:
        names = tables.CURRENCIES[tables.CURRENCY_CODES[currency["code"]]]
        return scan.skip(currency.end(), [*words, names[0 if one else 1]])
    unit = unit_at(scan, end)
    if unit is None:
        return scan.skip(end, words)
    # A hyphen makes an adjective, whose unit is singular: "a 5-km run".
    hyphen = scan.text[end] == "-"
    end = unit[1]
    if _STOP_INSIDE.match(scan.text, end):
        end += 1
    return scan.skip(end, words + unit_words(unit[0], one or hyphen))
