"""Unicode clean-up of the text of an utterance."""

from __future__ import annotations

import re
import unicodedata

# Invisible characters that Unicode files under letters, marks or symbols rather than under Cf.
INVISIBLE = frozenset(
    map(
        chr,
        [
            0x034F,  # combining grapheme joiner
            *(0x115F, 0x1160, 0x3164, 0xFFA0),  # Hangul fillers
            *(0x17B4, 0x17B5),  # Khmer inherent vowels
            *range(0x180B, 0x1810),  # Mongolian selectors
            *range(0xFE00, 0xFE10),  # variation selectors
            *range(0xFFF9, 0xFFFC),  # interlinear annotation
            *range(0xE0100, 0xE01F0),  # variation selectors, supplement
        ],
    )
)
_NEWLINES = frozenset("\n\v\f\x1c\x1d\x1e\x85\u2028\u2029")
# Unicode's stream-safe format allows 30 non-starters in a row; sorting longer runs costs quadratic time.
_MAX_MARKS = 30
_SPEAKABLE = re.compile(f"[^\\W_{''.join(sorted(INVISIBLE))}]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SPACES = re.compile(r"[ \n]+")


def normalise(text: str) -> str:
    """Return `text` in Unicode NFC with nothing in it that is invisible or not text.

    Line and paragraph separators become newlines, other white space, control characters, unpaired
    surrogates, private-use and unassigned code points become spaces; zero-width characters, bidi
    controls and variation selectors are removed. A run of white space becomes one space, or one newline
    when it holds one line break, or two newlines (a paragraph break) when it holds more. Marks beyond 30
    on one letter are dropped. The result has no white space at its ends; normalising it again changes
    nothing. Time is linear in the length.
    """
    if text.isascii() and text.isprintable():
        return _collapse(text)
    text = _SURROGATE_PAIR.sub(_join_pair, text).replace("\r\n", "\n").replace("\r", "\n")
    characters = set(text)
    text = text.translate({ord(c): r for c in characters if (r := _replacement(c)) is not None})
    if any(map(unicodedata.combining, characters)):
        text = _limit_marks(text)
    return _collapse(unicodedata.normalize("NFC", text))


def speakable(text: str) -> bool:
    """Tell whether `text` holds a letter or a digit, that is, anything to say.

    Empty text, white space, punctuation, symbols and emoji alone are not speakable.
    """
    return _SPEAKABLE.search(text) is not None


def _replacement(c: str) -> str | None:
    """What to put in place of the character `c`; None to keep it."""
    if c in _NEWLINES:
        return "\n"
    if c in INVISIBLE:
        return ""
    category = unicodedata.category(c)
    if category == "Cf":
        return ""
    if category[0] in "CZ":
        return " "
    return None


def _join_pair(match: re.Match[str]) -> str:
    """The character that two surrogates stand for."""
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _limit_marks(text: str) -> str:
    """Drop every combining mark after the 30th in a row."""
    kept: list[str] = []
    run = 0
    for c in text:
        # A precomposed letter may decompose into a base and marks of its own: it starts a run at most 3 long.
        run = run + 1 if unicodedata.combining(c) else 0
        if run <= _MAX_MARKS:
            kept.append(c)
    return "".join(kept)


def _collapse(text: str) -> str:
    """Collapse runs of spaces and newlines and strip both ends."""
    return _SPACES.sub(lambda m: ("\n" * min(m[0].count("\n"), 2)) or " ", text).strip(" \n")
