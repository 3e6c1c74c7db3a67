"""Small data files of the English front end, with made-up weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from edgettsd_tools.voice import lexicon
from edgettsd_tools.voice.tensors import write_tensors

from edgettsd.text.english.durations import TEMPLATES
from edgettsd.text.english.letters import ALPHABET
from edgettsd.text.english.phones import PHONE_IDS, PHONES

WORDS = {
    "hello": "HH AH0 L OW1", "world": "W ER1 L D", "the": "DH AH0", "door": "D AO1 R", "is": "IH1 Z",
    "open": "OW1 P AH0 N", "good": "G UH1 D", "morning": "M AO1 R N IH0 NG", "it": "IH1 T", "five": "F AY1 V",
    "thirty": "TH ER1 T IY2", "yes": "Y EH1 S", "no": "N OW1",
}  # fmt: skip


def small_letters(path: Path, channels: int = 8, layers: int = 2) -> None:
    """A letter-to-sound file with random weights."""
    rng = np.random.default_rng(3)
    shapes = {"embed": (len(ALPHABET) + 1, channels), "out": (channels, 2 * len(PHONES))}
    shapes |= {f"conv.{i}": (3, channels, channels) for i in range(layers)}
    tensors: dict[str, np.ndarray] = {"dilations": np.ones(layers, np.int32)}
    for name, shape in shapes.items():
        tensors[f"{name}.weight"] = rng.integers(-127, 128, shape).astype(np.int8)
        tensors[f"{name}.scale"] = np.full(shape[-1], 0.01, np.float32)
        if name != "embed":
            tensors[f"{name}.bias"] = rng.normal(size=shape[-1]).astype(np.float32)
    write_tensors(path, tensors)


def small_durations(path: Path) -> None:
    """Consonants of 60 ms, vowels of 120 ms, pauses of 40 ms, whatever is around them."""
    table = np.zeros(sum(TEMPLATES.values()), np.float32)
    for phone, index in PHONE_IDS.items():
        table[index] = np.log(0.04 if phone == "SP" else 0.12 if phone[-1].isdigit() else 0.06)
    write_tensors(path, {"durations": table})


def small_files(folder: Path) -> dict[str, Path]:
    """All data files, of a dictionary of a dozen words."""
    files = {name: folder / name for name in ("lexicon.bin", "letters.bin", "durations.bin")}
    lexicon.build({word: [phones.split()] for word, phones in WORDS.items()}, files["lexicon.bin"])
    small_letters(files["letters.bin"])
    small_durations(files["durations.bin"])
    return files
