"""Cut text into sentences of bounded length."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from edgettsd.text import abbreviations as abbr
from edgettsd.text.normalise import speakable

DEFAULT_MAX_CHARS = 300
"""About 20 s of speech: short enough to keep the model's context small."""

# No pattern here can backtrack: each is a run of one class after another.
_STOP = re.compile(r"""([.!?…‥؟।॥۔]+|[。！？｡．]+)([\"'”’»›)\]}」』）】〉》〕*_]*)""")
_NO_WORD = 32
_NEXT_WORD = re.compile(rf"[\W_]{{0,{_NO_WORD}}}+(\w{{1,24}}+)")
_FULL_STOPS = "。！？｡．"
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003134f"
_IS_CJK = re.compile(f"[{_CJK}]")
_DOTTED = re.compile(r"[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+")
_ROMAN = re.compile(r"[IVXLC]+")
_OPENING = "\"'“‘„«‹([{「『（【¿¡*_"
_BULLETS = "-*•–—·▪◦"
_QUOTATIVE = "とっての、，,"
_LOOK_BACK = 24

# Where a sentence that is too long may be cut: after one of these, the strongest first.
_CUTS = tuple(
    map(
        re.compile,
        (
            r"""[.!?…;:؛][\"'”’»)\]]*(?=\s)|[；：。！？]""",
            r"[,—–،][\"'”’»)\]]*(?=\s)|[，、]",
            r"\s",
        ),
    )
)


def split_sentences(text: str, max_chars: int = DEFAULT_MAX_CHARS) -> list[str]:
    """Return the sentences of `text`, in order, each of 1 to `max_chars` characters.

    `text` is best passed through `normalise` first: only newlines break lines. A blank line always ends
    a sentence, a single newline does unless it looks like the wrapping of a paragraph. Sentences longer
    than `max_chars` are cut after semicolons or colons, else after commas, else at spaces, else between
    graphemes. Pieces with nothing to say are dropped; every letter and digit of `text` is in exactly one
    sentence, in order. Time is linear in the length of `text`. Raises ValueError when `max_chars` < 1.
    """
    if max_chars < 1:
        raise ValueError(f"max_chars is {max_chars}; allowed: 1 or more")
    return [
        piece
        for _, paragraph in paragraphs(text)
        for sentence in sentences_of(paragraph)
        for piece in pieces_of(sentence, max_chars)
    ]


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts between hard line breaks, wrapped lines joined by a space, and where each begins."""
    held: list[str] = []
    first = at = 0
    for line in text.split("\n"):
        stripped = line.strip()
        if held and not _continues(held[-1], stripped):
            yield first, " ".join(held)
            held = []
        if stripped:
            first = first if held else at
            held.append(stripped)
        at += len(line) + 1
    if held:
        yield first, " ".join(held)


def pieces_of(sentence: str, max_chars: int) -> Iterator[str]:
    """Yield a sentence in pieces of at most `max_chars`; those with nothing to say are left out."""
    pieces = (sentence,) if len(sentence) <= max_chars else _bounded(sentence, max_chars)
    return filter(speakable, pieces)


def _continues(line: str, following: str) -> bool:
    """Tell whether `following` continues the paragraph that `line` is in."""
    if not following or following[0] in _BULLETS:
        return False
    return len(line) >= 60 or (len(line) >= 40 and following[0].islower())


def sentences_of(text: str, growing: bool = False) -> Iterator[str]:
    """Yield the sentences of a text without line breaks; of a growing one, those that stay as they are."""
    begin = 0
    for match in _STOP.finditer(text):
        if growing and not _decided(text, match):
            return
        if match.end() < len(text) and _is_end(text, begin, match):
            yield text[begin : match.end()].strip()
            begin = match.end()
    if begin < len(text) and not growing:
        yield text[begin:].strip()


def _decided(text: str, match: re.Match[str]) -> bool:
    """Tell whether more text behind `text` cannot change what `_is_end` says of the stop `match`."""
    end = match.end()
    if end == len(text):
        return False
    if match[1][0] in _FULL_STOPS or not text[end].isspace():
        return True
    following = _NEXT_WORD.match(text, end)
    if following is None:
        # Behind _NO_WORD characters without a word none is expected any more.
        return len(text) - end > _NO_WORD
    return following.end() < len(text)


def _is_end(text: str, begin: int, match: re.Match[str]) -> bool:
    """Tell whether the stop `match` ends the sentence that starts at `begin`; text follows it."""
    stop, closers = match.groups()
    end = match.end()
    after = text[end]
    if stop[0] in _FULL_STOPS:
        # Japanese goes on after a quoted sentence with a particle.
        return not (closers and after in _QUOTATIVE)
    if after != " " and not after.isspace():
        return (
            after > "\u3000" and stop[-1] in "!?…" and bool(_IS_CJK.match(after)) and not _in_url(text, end)
        )
    following = _NEXT_WORD.match(text, end)
    if following is None:
        return True
    word = following[1]
    if word[0].islower():
        return False
    if stop != ".":
        return True
    return not _stays_open(text, begin, match.start(), word, text[following.end() : following.end() + 1])


def _in_url(text: str, position: int) -> bool:
    """Tell whether `position` is inside or right behind something like https://example.org/?q."""
    scheme = text.rfind("://", max(0, position - 256), position)
    return scheme >= 0 and not any(c.isspace() for c in text[scheme:position])


def _stays_open(text: str, begin: int, stop: int, word: str, behind: str) -> bool:
    """Tell whether the single full stop at `stop` belongs to an abbreviation, an initial or a number.

    `word` is the next word, which does not start in lower case, and `behind` the character after it.
    """
    back = text[max(begin, stop - _LOOK_BACK) : stop]
    if not back or back[-1].isspace():
        return False
    before = back.split()
    token = before[-1].lstrip(_OPENING)
    low = token.lower()
    low_word = word.lower()
    if low.isdecimal():
        # "1. Open the lid." is a numbered step, "am 5. Mai" a date.
        numbered_step = stop - begin <= 5 and text[begin:stop].strip() == token
        return numbered_step or low_word in abbr.AFTER_ORDINAL
    if low in abbr.LEADING:
        return True
    if low in abbr.NUMBERED:
        return word[0].isdecimal() or _ROMAN.fullmatch(word) is not None
    if low in abbr.CLOCK:
        return low_word in abbr.AFTER_TIME
    opens = low_word in abbr.OPENERS and behind != "."
    if token == "I" and len(before) > 1 and before[-2].islower():
        return False
    if (len(low) == 1 and low.isalpha() and not _IS_CJK.match(low)) or low in abbr.TRAILING:
        return not opens
    return not opens and "." in low and _DOTTED.fullmatch(low) is not None


def _bounded(sentence: str, max_chars: int) -> Iterator[str]:
    """Yield `sentence` in pieces of about equal length, at most `max_chars`; no white space at its end."""
    begin = 0
    while len(sentence) - begin > max_chars:
        end = _cut(sentence, begin, max_chars)
        yield sentence[begin:end].strip()
        begin = end
        while sentence[begin].isspace():
            begin += 1
    yield sentence[begin:].strip()


def _cut(sentence: str, begin: int, max_chars: int) -> int:
    """Return where the piece that starts at `begin` ends, `begin` < end <= `begin` + `max_chars`."""
    left = len(sentence) - begin
    target = begin + left // -(-left // max_chars)
    limit = begin + max_chars
    lowest = begin + max(1, max_chars // 3)
    # The search goes one character beyond the limit, because a stop at the limit needs the space behind it.
    for pattern in _CUTS:
        ends = [m.end() for m in pattern.finditer(sentence, lowest, limit + 1) if m.end() <= limit]
        if ends:
            return min(ends, key=lambda end: abs(end - target))
    end = limit
    while end > begin + 1 and _extends(sentence[end - 1], sentence[end]):
        end -= 1
    return end if end > begin + 1 or max_chars == 1 else limit


def _extends(previous: str, c: str) -> bool:
    """Tell whether `c` belongs to the same grapheme as the character before it."""
    return (
        previous == "\u200d"
        or "\u1160" <= c <= "\u11ff"
        or unicodedata.category(c) in ("Mn", "Mc", "Me", "Cf")
    )
