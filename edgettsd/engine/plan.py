"""From a text to the sentences to speak, with an estimate and a bound of each one's length.

The estimate decides how much is buffered on a slow machine; the bound ends a generation that found no end of
its own. The bound is generous: very slow speech (12 frames a word) stays far below it.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from edgettsd.text import normalise, split_sentences

# Seconds of ordinary speech, by kind of character.
SECONDS_LETTER = 0.068
SECONDS_IDEOGRAPH = 0.23
SECONDS_DIGIT = 0.32
SECONDS_EDGE = 0.3

# Longer pieces (20 s) are cut, because a piece with its prompt, spoken half as slowly again, must fit into
# the default `[engine] context`.
MOST_FRAMES = 250

# Exact lengths are asked for until this many frames are known; not further, because nothing is heard while
# they are computed.
EXACT_FRAMES = 250
# Behind those an exact length is asked for only where a piece could be too long: letter by letter a text
# takes up to this many times its estimate.
UNDERESTIMATE = 6

# Most frames, by kind of character, and for the silence around them.
CAP_LETTER = 5
CAP_IDEOGRAPH = 16
CAP_DIGIT = 20
CAP_WORD = 16
CAP_EDGE = 50


@dataclass(frozen=True, slots=True)
class Sentence:
    """A piece of text that is spoken in one generation; lengths in frames."""

    text: str
    expected_frames: int
    max_frames: int


# The exact length of a piece of text in frames; 0 where the length is not known before the text is spoken.
Length = Callable[[str], int]


def sentences(
    text: str, frame_seconds: float, length: Length | None = None, rate: float = 1.0
) -> Iterator[Sentence]:
    """The sentences of a text, in order; none when there is nothing to say.

    The expected length is that of `length` where it tells one, at the beginning of a text, else an estimate
    for speech `rate` times as fast as usual.
    """
    planner = Planner(frame_seconds, length, rate)
    for part in split_sentences(normalise(text)):
        yield from planner.pieces(part)


class Planner:
    """Measures the sentences of one text, one after the other, and cuts those that are too long."""

    def __init__(self, frame_seconds: float, length: Length | None = None, rate: float = 1.0) -> None:
        self._frame_seconds, self._length, self._rate = frame_seconds, length, rate
        # Frames of all pieces whose exact length was asked for so far.
        self._known = 0

    def pieces(self, part: str) -> Iterator[Sentence]:
        """The next sentence, in pieces that are not too long."""
        for piece in _pieces(self._measured(part), self._measured):
            self._known += piece.expected_frames
            yield piece

    def _measured(self, part: str) -> Sentence:
        sentence = measure(part, self._frame_seconds)
        guess = math.ceil(sentence.expected_frames / self._rate)
        exact = self._known < EXACT_FRAMES or guess * UNDERESTIMATE > MOST_FRAMES
        frames = self._length(part) if self._length is not None and exact else 0
        return replace(sentence, expected_frames=frames or guess)


def _pieces(sentence: Sentence, measured: Callable[[str], Sentence]) -> Iterator[Sentence]:
    """A sentence, cut where it takes longer than MOST_FRAMES."""
    if sentence.expected_frames <= MOST_FRAMES or len(sentence.text) < 2:
        yield sentence
        return
    # Each part is at most half of the whole, so that the recursion ends.
    share = min(0.5, 0.9 * MOST_FRAMES / sentence.expected_frames)
    for part in split_sentences(sentence.text, max(1, int(len(sentence.text) * share))):
        yield from _pieces(measured(part), measured)


def measure(text: str, frame_seconds: float) -> Sentence:
    """One sentence with its expected and greatest length."""
    letters = digits = ideographs = 0
    for char in text:
        if char.isdigit():
            digits += 1
        elif char.isalpha():
            if _is_wide(char):
                ideographs += 1
            else:
                letters += 1
    seconds = (
        SECONDS_EDGE + SECONDS_LETTER * letters + SECONDS_IDEOGRAPH * ideographs + SECONDS_DIGIT * digits
    )
    most = (
        CAP_EDGE
        + max(CAP_WORD * len(text.split()), CAP_LETTER * letters)
        + CAP_IDEOGRAPH * ideographs
        + CAP_DIGIT * digits
    )
    return Sentence(text, math.ceil(seconds / frame_seconds), math.ceil(most * 0.08 / frame_seconds))


def _is_wide(char: str) -> bool:
    """True for scripts that write a syllable or a word with one character."""
    return ord(char) >= 0x1100 and unicodedata.east_asian_width(char) in "WF"
