"""Numbers as English words, the American way (no "and" after hundreds)."""

from __future__ import annotations

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
SCALES = (
    " thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion "
    "decillion"
).split(" ")
MAX_DIGITS = 3 * len(SCALES)
"""Longer whole numbers are read digit by digit."""

_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_DENOMINATORS = {2: ("half", "halves"), 4: ("quarter", "quarters")}
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def cardinal(digits: str) -> list[str]:
    """A whole number written in ASCII digits; more than MAX_DIGITS of them are read one by one."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > MAX_DIGITS:
        return spelled(digits)
    groups = [int(digits[max(0, end - 3) : end]) for end in range(len(digits), 0, -3)]
    words: list[str] = []
    for scale in range(len(groups) - 1, -1, -1):
        if groups[scale]:
            words += _below_thousand(groups[scale])
            if scale:
                words.append(SCALES[scale])
    return words or [ONES[0]]


def _below_thousand(n: int) -> list[str]:
    words = [ONES[n // 100], "hundred"] if n >= 100 else []
    n %= 100
    if n >= 20:
        words.append(TENS[n // 10])
        n %= 10
    return [*words, ONES[n]] if n else words


def ordinal(digits: str) -> list[str]:
    """The same number as an ordinal: "22" -> twenty second."""
    *rest, last = cardinal(digits)
    return [*rest, ordinal_word(last)]


def ordinal_word(word: str) -> str:
    """A number word as an ordinal: "twenty" -> twentieth."""
    if word in _ORDINALS:
        return _ORDINALS[word]
    return (word[:-1] + "ie" if word.endswith("y") else word) + "th"


def plural(words: list[str]) -> list[str]:
    """Number words in the plural: "ninety" -> nineties."""
    last = words[-1]
    if last.endswith("y"):
        last = last[:-1] + "ies"
    else:
        last += "es" if last.endswith("x") else "s"
    return [*words[:-1], last]


def spelled(digits: str) -> list[str]:
    """Digit by digit."""
    return [ONES[int(d)] for d in digits]


def decimal(whole: str, fraction: str) -> list[str]:
    """A decimal: "3", "14" -> three point one four; without a whole part it begins with point."""
    return [*(cardinal(whole) if whole else []), "point", *spelled(fraction)]


def year(digits: str) -> list[str]:
    """A year of three or four digits: "1999" -> nineteen ninety nine, "2007" -> two thousand seven."""
    number = int(digits)
    century, rest = divmod(number, 100)
    if len(digits) != 4 or century < 10 or number % 1000 < 10:
        return cardinal(digits)
    if rest == 0:
        return [*cardinal(str(century)), "hundred"]
    return [*cardinal(str(century)), *(["oh"] if rest < 10 else []), *cardinal(str(rest))]


def pairs(digits: str) -> list[str]:
    """A number in a name, as people say it: "737" -> seven thirty seven, "404" -> four oh four."""
    if digits.startswith("0") or len(digits) > 4:
        return spelled(digits)
    if len(digits) <= 2 or digits.endswith("00"):
        return cardinal(digits)
    if len(digits) == 4:
        return year(digits)
    rest = int(digits[1:])
    return [ONES[int(digits[0])], *(["oh"] if rest < 10 else []), *cardinal(str(rest))]


def fraction(numerator: str, denominator: str) -> list[str]:
    """A fraction: "3", "4" -> three quarters. `denominator` is at least 2."""
    one = numerator.lstrip("0") == "1"
    number = int(denominator)
    if number in _DENOMINATORS:
        last = [_DENOMINATORS[number][0 if one else 1]]
    else:
        last = ordinal(denominator)
        if last[0] == "one" and len(last) == 2:
            last = last[1:]
        last = last if one else [*last[:-1], last[-1] + "s"]
    return [*cardinal(numerator), *last]


def roman(numeral: str) -> int | None:
    """The value of a well-formed Roman numeral in capitals below 4000, else None."""
    total = previous = 0
    for c in reversed(numeral):
        value = _ROMAN.get(c)
        if value is None:
            return None
        total += -value if value < previous else value
        previous = max(previous, value)
    return total if 0 < total < 4000 and _to_roman(total) == numeral else None


def _to_roman(n: int) -> str:
    out = ""
    for value, sign in (
        (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
        (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
    ):  # fmt: skip
        out += sign * (n // value)
        n %= value
    return out
