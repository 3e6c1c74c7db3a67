"""The pronouncing dictionary as the tools read it, and as the device's compact lexicon file."""

from __future__ import annotations

import argparse
import lzma
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.frontends.english.letters import LetterToSound
from edgettsd.frontends.english.lexicon import BLOCK, LAST_PHONE, LONG
from edgettsd.frontends.english.phones import PAUSE, PHONE_IDS
from edgettsd_tools.voice.tensors import write_tensors

DICTIONARY = Path(__file__).resolve().parents[2] / "data" / "cmudict.dict.xz"
_WORD = re.compile(r"'?[a-z]+(?:'[a-z]+)*'?")


def read_cmudict(path: Path = DICTIONARY) -> dict[str, list[list[str]]]:
    """The words of CMUdict, each with its pronunciations, the first one first.

    Words with other characters than letters and apostrophes ("a.", "x-ray" in parts) are left out.
    """
    entries: dict[str, list[list[str]]] = {}
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            name, *phones = line.split("#")[0].split()
            word = name.split("(")[0]
            if _WORD.fullmatch(word):
                entries.setdefault(word, []).append(phones)
    return entries


def build(
    entries: Mapping[str, Sequence[Sequence[str]]], out: Path, letters: LetterToSound | None = None
) -> int:
    """Write the lexicon of the first pronunciations; returns the size of the file in bytes.

    What `letters` says right by itself is listed without its phones.
    """
    data = bytearray()
    blocks: list[int] = []
    previous = b""
    for index, (word, phones) in enumerate(sorted((w.encode(), v[0]) for w, v in entries.items() if v[0])):
        if index % BLOCK == 0:
            blocks.append(len(data))
            previous = b""
        shared = min(15, _common(previous, word))
        suffix = word[shared:]
        data.append(shared << 4 | min(len(suffix), LONG))
        if len(suffix) >= LONG:
            data.append(len(suffix))
        data += suffix
        if letters is not None and letters.phones(word.decode()) == list(phones):
            phones = [PAUSE]
        ids = [PHONE_IDS[p] for p in phones]
        data += bytes([*ids[:-1], ids[-1] | LAST_PHONE])
        previous = word
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "data": np.frombuffer(bytes(data), np.uint8),
        "blocks": np.array([*blocks, len(data)], np.int32),
    }
    return write_tensors(out, tensors)


def _common(a: bytes, b: bytes) -> int:
    """How many bytes two words share at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: write the lexicon file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the lexicon file, lexicon.bin")
    parser.add_argument("--letters", type=Path, help="letters.bin: words that it says right need no phones")
    options = parser.parse_args(argv)
    entries = read_cmudict()
    letters = LetterToSound.load(options.letters) if options.letters else None
    print(f"{len(entries)} words, {build(entries, options.out, letters)} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
