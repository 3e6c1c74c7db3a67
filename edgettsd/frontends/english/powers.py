"""Powers and scientific notation in their spellings: 6.02×10^23, 6.02e23, 10**-6, x^n, 10^{-3}."""

from __future__ import annotations

import re

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.scan import Scan, letters
from edgettsd.frontends.english.units import END, NUMBER, joins, number_words, with_unit

# An exponent stands alone or in the brackets of a formula.
_EXPONENT = r"(?:\^|\*\*)(?:(?P<sign>[-+]?)(?P<b>\d{1,4}+)(?!\d)|[{(](?P<sign2>[-+]?)(?P<b2>\d{1,4})[})])"
_TIMES_POWER = re.compile(rf"(?P<minus>-?)(?P<a>{NUMBER}) ?(?:[x×*·⋅]|times) ?10{_EXPONENT}")
_POWER = re.compile(rf"(?P<minus>-?)(?P<a>{NUMBER}){_EXPONENT}")
_SCIENTIFIC = re.compile(rf"(?P<minus>-?)(?P<a>{NUMBER})[eE](?P<sign>[+-]?)(?P<b>\d{{1,4}}){END}")
_LETTER = re.compile(
    r"(?P<a>[A-Za-z0-9]{1,3})(?:\^|\*\*)[{(]?(?:(?P<sign>[-+]?)(?P<b>\d{1,4})|(?P<name>[A-Za-z]))[})]?(?![\w^])"
)
_MINUS = re.compile(r"[-+](?=\d)")


def power(scan: Scan) -> bool:
    """A number with a power, or times a power of ten; a unit may follow."""
    if joins(scan):
        return False
    if match := scan.look(_TIMES_POWER):
        words = [*number_words(match["a"]), "times", "ten"]
    elif match := scan.look(_SCIENTIFIC):
        words = [*number_words(match["a"]), "times", "ten"]
        words += exponent(match["b"], match["sign"] == "-")
        return with_unit(scan, match.end(), [*_minus(match), *words], one=False)
    elif match := scan.look(_POWER):
        words = number_words(match["a"])
        if not (match["sign"] == "-" or match["sign2"] == "-"):
            short = tables.POWERS.get(match["b"] or match["b2"])
            if short:
                return _sum(scan, match.end(), [*_minus(match), *words, short])
    else:
        return False
    negative = "-" in ((match["sign"] or "") + (match["sign2"] or ""))
    return _sum(scan, match.end(), [*_minus(match), *words, *exponent(match["b"] or match["b2"], negative)])


def _minus(match: re.Match[str]) -> list[str]:
    return ["minus"] if match["minus"] else []


def _sum(scan: Scan, end: int, words: list[str]) -> bool:
    """Say a power with its unit, and the sign of a sum behind it: 2^31-1."""
    sign = _MINUS.match(scan.text, end)
    if sign:
        return scan.skip(sign.end(), [*words, "minus" if sign[0] == "-" else "plus"])
    return with_unit(scan, end, words, one=False)


def exponent(digits: str, minus: bool) -> list[str]:
    """Words of a power: to the eighth, to the minus six."""
    return ["to", "the", *(["minus", *numbers.cardinal(digits)] if minus else numbers.ordinal(digits))]


def letter_power(scan: Scan) -> bool:
    """A power of a letter, or with a letter: x^2, x^10, e^x, 2^n."""
    match = scan.look(_LETTER)
    if match is None or joins(scan) or scan.before == "^":
        return False
    if match["a"][0].isdecimal() if match["name"] is None else match["a"].isalpha() and len(match["a"]) > 1:
        return False
    base = [
        word
        for part in re.findall(r"\d+|[A-Za-z]+", match["a"])
        for word in (numbers.cardinal(part) if part.isdecimal() else letters(part))
    ]
    if match["name"]:
        return scan.skip(match.end(), [*base, "to", "the", *letters(match["name"])])
    short = tables.POWERS.get(match["b"]) if match["sign"] != "-" else None
    return scan.skip(
        match.end(), [*base, short] if short else [*base, *exponent(match["b"], match["sign"] == "-")]
    )
