"""How long every phone lasts: a small network over what the phone is and where it stands.

Each of the tables of TEMPLATES gives a phone a vector; their sum passes two layers of rectified units and
becomes the logarithm of a length. The tools fit it to the durations of the teacher voice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgettsd.errors import ModelInvalidError
from edgettsd.frontends.english.phones import FUNCTION_WORDS, PAUSE, PHONE_IDS, PHONES, VOWELS
from edgettsd.models.safetensors import SafetensorsFile

MIN_SECONDS, MAX_SECONDS = 0.01, 0.6
MIN_RATE, MAX_RATE = 0.5, 2.0
# Least pause at a mark, in seconds; needed because the teacher, whose lengths were learned, hardly pauses.
PAUSES = {",": 0.12, ":": 0.2, ";": 0.24, ".": 0.28, "!": 0.28, "?": 0.28}

_KINDS = ("SP", "stop", "voiced stop", "fricative", "voiced fricative", "nasal", "liquid", "vowel")
_KIND_OF = dict.fromkeys("P T K CH".split(), 1) | dict.fromkeys("B D G JH".split(), 2)
_KIND_OF |= dict.fromkeys("F TH S SH HH".split(), 3) | dict.fromkeys("V DH Z ZH".split(), 4)
_KIND_OF |= dict.fromkeys("M N NG".split(), 5) | dict.fromkeys("L R W Y".split(), 6) | {PAUSE: 0}
_BASES = (PAUSE, *dict.fromkeys(p.rstrip("012") for p in PHONES[1:]))
_N, _B = len(PHONES), len(_BASES)
_BASE_ID = np.array([_BASES.index(p.rstrip("012") if p != PAUSE else p) for p in PHONES])
_KIND_ID = np.array([_KIND_OF.get(p, 7) for p in PHONES])
_IS_VOWEL = np.array([p[:-1] in VOWELS for p in PHONES])
_STRESS = np.array([{"1": 1, "2": 2}.get(p[-1], 0) for p in PHONES])
_MARK_ID = {" ": 0, ",": 1, ";": 1, ":": 1, ".": 2, "!": 3, "?": 4}
_MARKS = 5

AROUND = 4
"""Phones before and after a phone that bear on its length."""
TEMPLATES = {f"phone {at:+d}": _N for at in range(-AROUND, AROUND + 1)} | {
    "base and place in word": _B * 4,
    "base and words to the end": _B * 4,
    "base and mark after word": _B * _MARKS,
    "rest of word and kind": 8 * len(_KINDS),
    "stress around": 27,
    "length of word": 12,
    "words in text": 12,
    "words before": 6,
    "function word": 4,
}
"""Feature tables with their sizes; the order and the sizes are the format of the data file."""
MAX_UNITS = 1024

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
    edge = np.zeros(AROUND, np.intp)
    padded = np.concatenate([edge, ids, edge])
    base, kind, stress = _BASE_ID[ids], _KIND_ID[ids], _STRESS[padded[AROUND - 1 : count + AROUND + 1]]
    return np.stack(
        [
            *(padded[at : at + count] for at in range(2 * AROUND + 1)),
            base * 4 + place,
            base * 4 + np.minimum(total - 1 - owner, 3),
            base * _MARKS + mark,
            kind * 8 + np.minimum(rest, 7),
            (stress[:-2] * 3 + stress[1:-1]) * 3 + stress[2:],
            np.minimum(length, 11),
            np.full(count, min(total, 11)),
            np.minimum(owner, 5),
            light[owner] * 2 + light[np.minimum(owner + 1, total - 1)],
        ],
        axis=1,
    )


def offsets() -> npt.NDArray[np.intp]:
    """Where each table begins when they lie end to end."""
    return np.concatenate([[0], np.cumsum([*TEMPLATES.values()])[:-1]])


@dataclass(frozen=True, slots=True)
class Network:
    """The numbers of the model, float32."""

    table: Floats  # [all tables, units]
    inner: Floats  # [units, inner units]
    inner_bias: Floats
    outer: Floats  # [inner units]
    outer_bias: Floats  # [1]


class Durations:
    """The fitted model; see `Network`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._offsets = offsets()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Durations:
        """Read a file written by the tools; raises ModelInvalidError that names it, and OSError."""
        with SafetensorsFile(Path(path)) as file:
            info = file.tensors.get("inner")
            units, inner = info.shape if info is not None and len(info.shape) == 2 else (0, 0)
            if not 1 <= units <= MAX_UNITS or not 1 <= inner <= MAX_UNITS:
                raise ModelInvalidError(
                    f"{path}: tensor inner is of {units} and {inner} units; allowed are 1 to {MAX_UNITS}"
                )
            shapes = {
                "table": (sum(TEMPLATES.values()), units),
                "inner": (units, inner),
                "inner_bias": (inner,),
                "outer": (inner,),
                "outer_bias": (1,),
            }
            arrays = {}
            for name, shape in shapes.items():
                # Sums cannot overflow, because the largest half float is 65,504.
                file.expect(name, shape, ("F16",))
                arrays[name] = np.array(file[name], np.float32)
                if not np.isfinite(arrays[name]).all():
                    raise ModelInvalidError(f"{path}: tensor {name} holds values that are not finite")
        return cls(Network(**arrays))

    def predict(
        self, words: Sequence[Sequence[str]], marks: Sequence[str], spelling: Sequence[str]
    ) -> npt.NDArray[np.float64]:
        """Seconds of every phone of `sequence(words)`, as the teacher would say it.

        The arguments are those of `features`.
        """
        if not words:
            return np.full(1, MIN_SECONDS)
        net = self._network
        units = net.table[features(words, marks, spelling) + self._offsets].sum(1)
        units = np.maximum(np.maximum(units, 0) @ net.inner + net.inner_bias, 0)
        logs = (units @ net.outer + net.outer_bias).astype(np.float64)
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
