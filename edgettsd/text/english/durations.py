"""How long every phone lasts: a linear model over what the phone is and where it stands.

A length is exp(sum of one coefficient from each of the tables of TEMPLATES); the tools fit them to the
durations of the teacher voice.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgettsd.errors import ModelInvalidError
from edgettsd.models.safetensors import SafetensorsFile
from edgettsd.text.english.phones import FUNCTION_WORDS, PAUSE, PHONE_IDS, PHONES, VOWELS

MIN_SECONDS, MAX_SECONDS = 0.01, 0.6
MIN_RATE, MAX_RATE = 0.5, 2.0
# The least pause at a mark inside the text, and at its end: the teacher hardly pauses.
PAUSES = {",": 0.12, ":": 0.2, ";": 0.24, ".": 0.28, "!": 0.28, "?": 0.28}

_KINDS = ("SP", "stop", "voiced stop", "fricative", "voiced fricative", "nasal", "liquid", "vowel")
_KIND_OF = dict.fromkeys("P T K CH".split(), 1) | dict.fromkeys("B D G JH".split(), 2)
_KIND_OF |= dict.fromkeys("F TH S SH HH".split(), 3) | dict.fromkeys("V DH Z ZH".split(), 4)
_KIND_OF |= dict.fromkeys("M N NG".split(), 5) | dict.fromkeys("L R W Y".split(), 6) | {PAUSE: 0}
_BASES = (PAUSE, *dict.fromkeys(p.rstrip("012") for p in PHONES[1:]))
_N, _K, _B = len(PHONES), len(_KINDS), len(_BASES)
_BASE_ID = np.array([_BASES.index(p.rstrip("012") if p != PAUSE else p) for p in PHONES])
_KIND_ID = np.array([_KIND_OF.get(p, 7) for p in PHONES])
_IS_VOWEL = np.array([p[:-1] in VOWELS for p in PHONES])
_STRESS = np.array([{"1": 1, "2": 2}.get(p[-1], 0) for p in PHONES])
_MARK_ID = {" ": 0, ",": 1, ";": 1, ":": 1, ".": 2, "!": 3, "?": 4}
_MARKS = 5

TEMPLATES = {
    "phone": _N,
    "before": _N,
    "after": _N,
    "kind and kinds around": _K**3,
    "base and kind before": _B * _K,
    "base and kind after": _B * _K,
    "base and base before": _B**2,
    "base and base after": _B**2,
    "kinds two off": _K**2,
    "base and place in word": _B * 4,
    "base and words to the end": _B * 4,
    "base and mark after word": _B * _MARKS,
    "rest of word and kind": 8 * _K,
    "stress around": 27,
    "length of word": 12,
    "words in text": 12,
    "words before": 6,
    "function word": 4,
}
"""Feature tables with their sizes; the order and the sizes are the format of the data file."""

Floats = npt.NDArray[np.float32]


def sequence(words: Sequence[Sequence[str]]) -> list[str]:
    """Phones of a text as the teacher says it: SP at both ends and between words."""
    out = [PAUSE]
    for word in words:
        out += [*word, PAUSE]
    return out


def features(
    words: Sequence[Sequence[str]], marks: Sequence[str], spelling: Sequence[str]
) -> npt.NDArray[np.intp]:
    """Indices [phones, templates] into each table, for the phones of `sequence(words)`.

    `marks` holds what follows each word, a blank or one of , ; : . ! ? and `spelling` the words as written.
    """
    ids = np.array([PHONE_IDS[p] for p in sequence(words)])
    count, total = len(ids), len(words)
    owner = np.zeros(count, np.intp)  # word of a phone; a pause belongs to the word before it
    place, rest, length = np.zeros(count, np.intp), np.zeros(count, np.intp), np.zeros(count, np.intp)
    at = 1
    for index, word in enumerate(words):
        size = len(word)
        owner[at : at + size + 1] = index
        length[at : at + size + 1] = size
        inside = np.arange(size)
        rest[at : at + size] = size - 1 - inside
        place[at : at + size] = (
            3 if size == 1 else np.where(inside == 0, 1, np.where(inside == size - 1, 2, 0))
        )
        at += size + 1
    mark = np.array([_MARK_ID[m] for m in marks], np.intp)[owner]
    light = np.array([w in FUNCTION_WORDS for w in spelling], np.intp)
    padded = np.concatenate([[0, 0], ids, [0, 0]])
    kinds = _KIND_ID[padded]
    base, kind, stress = _BASE_ID[ids], _KIND_ID[ids], _STRESS[padded]
    before, after = kinds[1:-3], kinds[3:-1]
    return np.stack(
        [
            ids,
            padded[1:-3],
            padded[3:-1],
            (kind * _K + before) * _K + after,
            base * _K + before,
            base * _K + after,
            base * _B + _BASE_ID[padded[1:-3]],
            base * _B + _BASE_ID[padded[3:-1]],
            kinds[:-4] * _K + kinds[4:],
            base * 4 + place,
            base * 4 + np.minimum(total - 1 - owner, 3),
            base * _MARKS + mark,
            kind * 8 + np.minimum(rest, 7),
            (stress[1:-3] * 3 + stress[2:-2]) * 3 + stress[3:-1],
            np.minimum(length, 11),
            np.full(count, min(total, 11)),
            np.minimum(owner, 5),
            light[owner] * 2 + light[np.minimum(owner + 1, total - 1)],
        ],
        axis=1,
    )


class Durations:
    """The fitted model: one float32 table a template, laid end to end."""

    def __init__(self, table: Floats) -> None:
        self._table = table
        self._offsets = np.concatenate([[0], np.cumsum([*TEMPLATES.values()])])[:-1]

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Durations:
        """Read a file written by the tools; raises ModelInvalidError that names it, and OSError."""
        with SafetensorsFile(Path(path)) as file:
            file.expect("durations", (sum(TEMPLATES.values()),), ("F16", "F32"))
            table = np.array(file["durations"], np.float32)
        if not np.isfinite(table).all():
            raise ModelInvalidError(f"{path}: tensor durations holds values that are not finite")
        return cls(table)

    def predict(
        self, words: Sequence[Sequence[str]], marks: Sequence[str], spelling: Sequence[str]
    ) -> npt.NDArray[np.float64]:
        """Seconds of every phone of `sequence(words)`, as the teacher would say it; arguments as "
        "`features`."""
        if not words:
            return np.full(1, MIN_SECONDS)
        logs = self._table[features(words, marks, spelling) + self._offsets].sum(1, dtype=np.float64)
        seconds: npt.NDArray[np.float64] = np.exp(np.clip(logs, np.log(MIN_SECONDS), np.log(MAX_SECONDS)))
        return seconds

    def seconds(
        self,
        words: Sequence[Sequence[str]],
        marks: Sequence[str],
        spelling: Sequence[str],
        rate: float = 1.0,
    ) -> npt.NDArray[np.float64]:
        """As `predict`, with audible pauses at marks, `rate` times as fast.

        Raises ValueError for a rate outside 0.5 to 2.
        """
        if not MIN_RATE <= rate <= MAX_RATE:
            raise ValueError(f"rate is {rate}; allowed: {MIN_RATE} to {MAX_RATE}")
        out = self.predict(words, marks, spelling)
        at = 0
        for word, mark in zip(words[:-1], marks[:-1], strict=True):
            at += len(word) + 1
            out[at] = max(out[at], PAUSES.get(mark, 0.0))
        return out / rate
