"""Letter to sound: the phones of words that are in no dictionary, by a small convolution network."""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd.errors import ModelInvalidError
from edgettsd.frontends.english.phones import PHONES
from edgettsd.models.safetensors import SafetensorsFile

ALPHABET = "abcdefghijklmnopqrstuvwxyz'"
MAX_LETTERS = 40
"""Longer words are read in pieces of this length."""
MAX_LAYERS = 32
MAX_CHANNELS = 1024
TAPS = 3
SLOTS = 2

Floats = npt.NDArray[np.float32]
_CODES = {letter: index + 1 for index, letter in enumerate(ALPHABET)}
_VOWEL = re.compile(r"[A-Z]+([012])")


class LetterToSound:
    """The network: embedding, residual convolutions of 3 taps, two slots a letter with a phone or nothing.

    Weights are kept as float32 [taps, in, out]; about 1.3 MB.
    """

    def __init__(self, embed: Floats, layers: list[tuple[Floats, Floats, int]], out: tuple[Floats, Floats]):
        self._embed, self._layers, self._out = embed, layers, out

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LetterToSound:
        """Read a file written by the tools; raises ModelInvalidError that names it, and OSError."""
        with SafetensorsFile(Path(path)) as file:
            info = file.tensors.get("embed.weight")
            channels = info.shape[1] if info is not None and len(info.shape) == 2 else 0
            steps = file.tensors.get("dilations")
            layers = steps.shape[0] if steps is not None and len(steps.shape) == 1 else 0
            if not 1 <= channels <= MAX_CHANNELS or not 1 <= layers <= MAX_LAYERS:
                raise ModelInvalidError(
                    f"{path}: {layers} layers of {channels} channels; allowed are 1 to {MAX_LAYERS} of "
                    f"1 to {MAX_CHANNELS}"
                )
            file.expect("dilations", (layers,), ("I32",))
            dilations = [int(d) for d in file["dilations"]]
            if not all(1 <= d <= MAX_LETTERS for d in dilations):
                raise ModelInvalidError(f"{path}: dilations are {dilations}; allowed: 1 to {MAX_LETTERS}")
            embed = _weight(file, "embed", (len(ALPHABET) + 1, channels))
            convs = [
                (
                    _weight(file, f"conv.{i}", (TAPS, channels, channels)),
                    _bias(file, f"conv.{i}", channels),
                    dilation,
                )
                for i, dilation in enumerate(dilations)
            ]
            outputs = SLOTS * len(PHONES)
            return cls(embed, convs, (_weight(file, "out", (channels, outputs)), _bias(file, "out", outputs)))

    def phones(self, word: str) -> list[str]:
        """Phones of a word, with exactly one primary stress if it has a vowel.

        Characters other than a-z and the apostrophe are passed over; a word without any gives no phones.
        """
        codes = [_CODES[c] for c in word.lower() if c in _CODES]
        out: list[str] = []
        for begin in range(0, len(codes), MAX_LETTERS):
            out += self._read(codes[begin : begin + MAX_LETTERS])
        return one_stress(out)

    def _read(self, codes: list[int]) -> list[str]:
        x = self._embed[[0, *codes, 0]]
        length = len(x)
        for weight, bias, dilation in self._layers:
            padded = np.zeros((length + 2 * dilation, x.shape[1]), np.float32)
            padded[dilation : dilation + length] = x
            y = bias + sum(
                padded[tap * dilation : tap * dilation + length] @ weight[tap] for tap in range(TAPS)
            )
            x = x + np.maximum(y, 0)
        logits = x[1:-1] @ self._out[0] + self._out[1]
        best = logits.reshape(-1, len(PHONES)).argmax(1)
        # Phone 0 is silence and stands for an empty slot; the same phone twice in a row is one.
        return [PHONES[b] for i, b in enumerate(best) if b and (i == 0 or b != best[i - 1])]


def one_stress(phones: list[str]) -> list[str]:
    """The phones with exactly one primary stress: the first, else on the first stressed or first vowel."""
    vowels = [(index, match[1]) for index, p in enumerate(phones) if (match := _VOWEL.fullmatch(p))]
    if not vowels:
        return phones
    chosen = min(vowels, key=lambda v: ("120".index(v[1]), v[0]))[0]
    out = list(phones)
    for index, stress in vowels:
        if index == chosen:
            out[index] = out[index][:-1] + "1"
        elif stress == "1":
            out[index] = out[index][:-1] + "2"
    return out


def _weight(file: SafetensorsFile, name: str, shape: tuple[int, ...]) -> Floats:
    file.expect(f"{name}.weight", shape, ("I8",))
    file.expect(f"{name}.scale", shape[-1:], ("F32",))
    values: Any = file[f"{name}.weight"].astype(np.float32) * file[f"{name}.scale"]
    return _finite(file, f"{name}.scale", values)


def _bias(file: SafetensorsFile, name: str, size: int) -> Floats:
    file.expect(f"{name}.bias", (size,), ("F32",))
    return _finite(file, f"{name}.bias", np.array(file[f"{name}.bias"], np.float32))


def _finite(file: SafetensorsFile, name: str, values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise ModelInvalidError(f"{file.path}: tensor {name} holds values that are not finite")
    return values
