"""Capitals that are spelled, inner capitals, and names with signs in them: USB, GitHub, C#, Node.js, A+."""

from __future__ import annotations

import re

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.scan import Scan, letters, words_of

_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{3}|[aeiou]{3}")
_HARD_START = re.compile(r"[bcdfghjklmnpqrstvwxz]{2}")
_EASY_STARTS = frozenset(
    "bl br ch cl cr dr fl fr gl gr kl kn kr ph pl pr qu sc sh sk sl sm sn sp st sw th tr tw wh wr".split()
)
# A sharp stands behind a note or a language; behind it may stand a version or the kind of a chord.
_SHARP = re.compile(r"(?P<letter>[A-GJQRX]|[cf])#(?=(?:\d{1,2}|m|maj|min)?(?![\w#]))")
_PLUS = re.compile(r"(?P<letter>[A-FS])\+(?![\w+(])")
_DOT_NET = re.compile(r"(?P<name>ASP|VB|ADO|ML)\.(?:NET|Net)(?![A-Za-z0-9])")
_SCRIPT = re.compile(r"(?P<name>[A-Z][A-Za-z]{0,24}|D3)\.(?:js|JS)(?![A-Za-z0-9])")


def signed_name(scan: Scan) -> bool:
    """Languages, notes and grades."""
    if scan.before.isalnum():
        return False
    if match := scan.look(_SHARP):
        return scan.skip(match.end(), [*letters(match["letter"]), "sharp"])
    if match := scan.look(_PLUS):
        return scan.skip(match.end(), [*letters(match["letter"]), "plus"])
    if match := scan.look(_DOT_NET):
        return scan.skip(match.end(), [*letters(match["name"]), "dot", "net"])
    if match := scan.look(_SCRIPT):
        name = match["name"]
        words = [*letters("D"), *numbers.cardinal("3")] if name == "D3" else [name.lower()]
        return scan.skip(match.end(), [*words, "j.", "s."])
    return False


def is_camel(token: str) -> bool:
    """Whether a word has capitals inside and is not all capitals."""
    inner = token[1:]
    return "'" not in token and not token.islower() and not inner.islower() and not token.isupper()


def camel_parts(token: str) -> list[str]:
    """The pieces of a word with inner capitals: "GitHub" -> Git, Hub."""
    return _CAMEL.findall(token)


def word_or_letters(scan: Scan, part: str, short: int) -> None:
    """Say a piece of a name, by letters if it has at most `short` of them or is no word."""
    unknown = part.isupper() and part not in tables.SAID and not scan.known(part.lower())
    if len(part) <= short or unknown or part in tables.SPELLED:
        scan.say(*letters(part))
    else:
        scan.say(part.lower())


def acronym(scan: Scan, stem: str, tail: str) -> None:
    """Say capitals as a word or by letters; `tail` is what follows from an apostrophe on, or nothing."""
    low, tail = stem.lower(), tail.lower()
    said = stem in tables.SAID or (scan.shouting and stem in tables.WORDS_IN_CAPITALS)
    if not said and stem not in tables.SPELLED:
        said = scan.known(low) and (_vowel(low) or scan.shouting)
        said = said or ((len(stem) >= 4 or scan.shouting) and pronounceable(low))
    if said:
        scan.say(low + tail)
        return
    scan.say(*letters(low))
    if tail in ("'s", "s"):
        scan.out[-1] += "'s"
    elif tail:
        scan.say(*words_of(tail))


def _vowel(word: str) -> bool:
    return any(c in "aeiouy" for c in word)


def pronounceable(word: str) -> bool:
    """Whether an unknown word looks like one that can be said."""
    hard = _HARD_START.match(word)
    return (
        _vowel(word)
        and not _CONSONANTS.search(word)
        and (hard is None or hard[0] in _EASY_STARTS)
        and sum(c in "aeiouy" for c in word) * 4 >= len(word)
    )
