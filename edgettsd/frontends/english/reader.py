"""From written English to what is said: words, spelled letters and pauses.

One pass over the text with patterns that are tried where they can begin; every pattern is anchored, its
repetitions are bounded or of one class, and what matched is never looked at again, so time is linear.
"""

from __future__ import annotations

import re

from edgettsd.frontends.english import (
    addresses,
    codes,
    dates,
    markup,
    names,
    numbers,
    powers,
    ranges,
    tables,
)
from edgettsd.frontends.english.clean import clean
from edgettsd.frontends.english.phones import FUNCTION_WORDS
from edgettsd.frontends.english.quantities import QUANTITIES, Handler
from edgettsd.frontends.english.scan import Known, Scan, letters

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_ORDINARY = re.compile(r"[a-z]{2,}(?=[ ,;!?)]|$)")
_PLAIN = re.compile(r"[A-Za-z]+(?:[-/.][A-Za-z]+)?[/.]?")
_DOTTED = re.compile(r"(?:[A-Za-z]\.){2,12}(?:[A-Za-z](?![A-Za-z']))?")
_MIXED = re.compile(r"[A-Za-z]{1,12}-?[0-9]{1,8}(?:[A-Za-z]{1,3}(?![A-Za-z]))?(?![A-Za-z0-9])")
_VERSION = re.compile(r"[vV]\.? ?([0-9]+(?:\.[0-9]+)*)(?![A-Za-z0-9])")
_ROMAN = re.compile(r"[IVXLCDM]+(?![A-Za-z'])")
_SIGNS = re.compile(r"([^A-Za-z0-9_\s])\1*")
_REPEATED_STOP = re.compile(r"[.]{2,}")
_RUN = re.compile(r"[A-Za-z0-9_]+")
_INITIAL_STOP = re.compile(r"\. ?[A-Z]")
_TOUCHED = re.compile(r"[A-Za-z0-9]|'[A-Za-z]")


def read(text: str, known: Known = lambda word: False) -> list[str]:
    """What is said, in order: lower-case words (a-z and apostrophes), letters ("b."), and marks , ; : . ! ?

    Tags are dropped, see `markup.plain`. `known` tells whether a lower-case word is in the dictionary,
    because that decides which capitals are acronyms. Marks never come first, nor two in a row, and the last
    item is a mark, unless nothing is said: then the list is empty. Never raises, for any text.
    """
    scan = Scan(clean(markup.plain(text)), known)
    while not scan.done:
        for handler in _HANDLERS.get(_kind(scan.text[scan.at]), ()):
            if handler(scan):
                break
        else:
            scan.at += 1
    return _finish(scan.out)


def _kind(c: str) -> str:
    if c.isspace():
        return "space"
    if "0" <= c <= "9":
        return "digit"
    if "a" <= c <= "z" or "A" <= c <= "Z":
        return "letter"
    return "sign"


_STRENGTH = {mark: rank for rank, mark in enumerate(",:;.!?")}


def _finish(items: list[str]) -> list[str]:
    """Without marks at the start and runs of marks; a run becomes its strongest mark."""
    out: list[str] = []
    for item in items:
        if item not in _STRENGTH:
            out.append(item)
        elif out and out[-1] in _STRENGTH:
            out[-1] = max(out[-1], item, key=_STRENGTH.__getitem__)
        elif out:
            out.append(item)
    if out and out[-1] not in ".!?":
        if out[-1] in _STRENGTH:
            out[-1] = "."
        else:
            out.append(".")
    return out


def _space(scan: Scan) -> bool:
    match = scan.take(_SPACE)
    if match and match[0].count("\n") > 1 and scan.out:
        scan.say(";")
    return True


def _ordinary(scan: Scan) -> bool:
    """A word in small letters before a space or a mark: most of a text, and nothing else begins there."""
    match = scan.look(_ORDINARY)
    if match is None or match[0] in tables.PLAIN or scan.before.isalnum():
        return False
    name_before = scan.capital_before
    scan.skip(match.end(), [match[0]])
    scan.name_before, scan.initial = name_before, False
    return True


def _abbreviation(scan: Scan) -> bool:
    """Abbreviations with and without a full stop, and dotted letters."""
    if scan.before.isalnum():
        return False
    match = scan.look(_PLAIN)
    assert match is not None
    token = match[0]
    word = scan.look(_WORD)
    for form in (token, token.rstrip("./"), word[0] if word else ""):
        end = scan.at + len(form)
        if form in tables.PLAIN and not _TOUCHED.match(scan.text, end):
            # The stop belongs to the abbreviation ("Mr."), except at the end of a sentence.
            dot = scan.text[end : end + 1] == "." and scan.text[end + 1 : end + 3].strip() != ""
            return scan.skip(end + dot, tables.PLAIN[form].split())
    if token.endswith(".") and _stopped(scan, token[:-1].lower()):
        return True
    return _dotted(scan)


def _stopped(scan: Scan, low: str) -> bool:
    """A word with a full stop that is an abbreviation here."""
    end = scan.at + len(low) + 1
    after = scan.text[end : end + 2].lstrip(" ")
    if low == "st":
        # "St." behind a name is a street, before a name a saint.
        name = after[:1].isupper() and (not scan.capital_before or scan.last in FUNCTION_WORDS)
        return scan.skip(end, ["saint" if name else "street"], stop=not name and not after)
    if low == "no":
        return after[:1].isdecimal() and scan.skip(end, ["number"])
    expansion = tables.DOTTED.get(low)
    if expansion is None:
        return False
    if low in tables.NUMBERED and not after[:1].isdecimal():
        return False
    if low in tables.WORDS_TOO and not (after[:1].isupper() or after[:1].isdecimal() or after[:1] in ",;:)"):
        return False
    # At the end of the text the stop also ends the sentence.
    return scan.skip(end, expansion.split(), stop=not scan.text[end : end + 2].strip())


def _dotted(scan: Scan) -> bool:
    match = scan.look(_DOTTED)
    if match is None or scan.before.isalnum():
        return False
    token = match[0]
    low = token.lower().rstrip(".")
    if low in tables.DOTTED:
        return scan.skip(scan.at + len(token), tables.DOTTED[low].split())
    end = scan.at + len(token)
    stop = token.endswith(".") and not scan.text[end : end + 2].strip()
    return scan.skip(end, letters(token.replace(".", "")), stop=stop)


def _numbered_name(scan: Scan) -> bool:
    """Versions (v1.2) and names of letters and digits (MP3, A4, H.264 without its dot, ISO-9001)."""
    if scan.before.isalnum():
        return False
    match = scan.look(_VERSION)
    if match:
        parts = match[1].split(".")
        words = numbers.cardinal(parts[0])
        for part in parts[1:]:
            words += ["point", *numbers.pairs(part)]
        return scan.skip(match.end(), ["version", *words])
    match = scan.look(_MIXED)
    if match is None:
        return False
    for part in re.finditer(r"[A-Za-z]+|[0-9]+", match[0]):
        if part[0].isdecimal():
            scan.say(*numbers.pairs(part[0]))
        elif len(part[0]) > 1 and part[0] in FUNCTION_WORDS and "-" in match[0]:
            # A small word between hyphens: 3-in-1.
            scan.say(part[0])
        else:
            names.word_or_letters(scan, part[0], short=2)
    scan.at = match.end()
    return True


def _roman_numeral(scan: Scan) -> bool:
    match = scan.look(_ROMAN)
    if match is None or scan.before.isalnum() or not scan.out:
        return False
    value = numbers.roman(match[0])
    previous = scan.out[-1]
    if value is None or value > 200 or not scan.capital_before:
        return False
    if previous in tables.RULERS and (len(match[0]) > 1 or match[0] in "VX"):
        return scan.skip(match.end(), ["the", *numbers.ordinal(str(value))])
    if previous in tables.COUNTED:
        return scan.skip(match.end(), numbers.cardinal(str(value)))
    return False


def _word(scan: Scan) -> bool:
    """A word; capitals that are no word are spelled, inner capitals part it."""
    match = scan.take(_WORD)
    assert match is not None
    token = match[0]
    scan.name_before = scan.capital_before
    scan.capital_before = token[0].isupper()
    if len(token) > 1:
        scan.initial = False
    stem, quote, tail = token.partition("'")
    if stem.isupper() and len(stem) > 1:
        names.acronym(scan, stem, quote + tail)
    elif names.is_camel(token):
        for part in names.camel_parts(token):
            names.word_or_letters(scan, part, short=1)
    elif len(token) == 1 and token not in "aAI":
        scan.say(*letters(token))
        _initial(scan, token)
    elif token == "A" and scan.out and scan.out[-1] not in ",;:.!?":
        # A capital A inside a sentence is the letter: "plan A".
        scan.say("a.")
    else:
        scan.say(token.lower())
    return True


def _initial(scan: Scan, token: str) -> None:
    """The stop behind an initial ("J. R. R. Tolkien", "George W. Bush") is no pause."""
    first = len(scan.out) == 1 or scan.out[-2] in ".!?," or scan.initial or scan.name_before
    scan.initial = bool(token.isupper() and first and _INITIAL_STOP.match(scan.text, scan.at))
    if scan.initial:
        scan.at += 1


def _unreadable_run(scan: Scan) -> bool:
    """Digits and letters that nothing explained: letters in pieces, digits one by one."""
    match = scan.take(_RUN)
    assert match is not None
    for part in re.finditer(r"[A-Za-z]+|[0-9]+", match[0]):
        if part[0].isdecimal():
            scan.say(*(numbers.pairs(part[0]) if len(part[0]) < 4 else numbers.spelled(part[0])))
        else:
            names.word_or_letters(scan, part[0], short=2)
    return True


def _sign(scan: Scan) -> bool:
    """Punctuation and symbols."""
    match = scan.look(_REPEATED_STOP) or scan.look(_SIGNS)
    if match is None:
        scan.at += 1
        return True
    c, behind = match[0][0], scan.text[match.end() : match.end() + 1]
    before = scan.before
    scan.at = match.end()
    if match[0] == "++":
        scan.say("plus", "plus")
    elif len(match[0]) > 1 and c not in ".!?&=<>":
        # Rules and rows of signs say nothing but part what is around them.
        scan.say(",")
    elif c == ".":
        goes_on = len(match[0]) > 1 and scan.text[scan.at : scan.at + 2].strip()[:1].islower()
        scan.say("," if goes_on else ".")
    elif c in "-–—":
        if (before.isspace() or not before) or (behind.isspace() or not behind) or c == "—":
            scan.say(",")
    elif c == "/":
        if before.isalnum() and behind.isalnum():
            scan.say("slash")
    elif c == "#":
        if behind.isdecimal():
            scan.say("number")
        elif behind.isalpha():
            scan.say("hashtag")
    elif c == "^":
        if behind in tables.POWERS and not scan.text[scan.at + 1 : scan.at + 2].isdecimal():
            scan.skip(scan.at + 1, [tables.POWERS[behind]])
    elif c == "'":
        _leading_apostrophe(scan)
    elif c in tables.MARKS:
        scan.say(*filter(None, [tables.MARKS[c]]))
    elif c in tables.SYMBOLS:
        scan.say(*tables.SYMBOLS[c].split())
    return True


def _leading_apostrophe(scan: Scan) -> None:
    """Words that begin with an apostrophe: 'em, 'til, 'tis."""
    match = scan.look(_WORD)
    if match and match[0].lower() in ("em", "n", "til", "tis", "twas", "cause", "bout", "round"):
        scan.skip(match.end(), ["'" + match[0].lower()])


_HANDLERS: dict[str, tuple[Handler, ...]] = {
    "space": (_space,),
    "digit": (addresses.address, addresses.identifier, *QUANTITIES, _unreadable_run),
    "letter": (
        _ordinary,
        names.signed_name,
        addresses.address,
        addresses.identifier,
        codes.mixed_code,
        dates.month_day,
        dates.weekday,
        ranges.calendar_range,
        ranges.letter_range,
        powers.letter_power,
        _numbered_name,
        _abbreviation,
        _roman_numeral,
        _word,
    ),
    "sign": (
        addresses.address,
        addresses.color,
        addresses.ending,
        addresses.identifier,
        *QUANTITIES,
        _sign,
    ),
}
