"""The pronouncing dictionary: sorted, front-coded words in a memory-mapped file, found by binary search.

Tensors of the file: ``data`` (uint8), and ``blocks`` (int32 [blocks + 1]), where each block of BLOCK words
begins in it, and its size at the end. An entry is one byte, letters shared with the word before (high four
bits) and further letters (low four bits; 15 means that their number follows as a byte), the letters, and the
phone ids, the last one with bit 7 set. The first word of a block shares nothing. The phone SP alone stands
for a word that is said as the letter-to-sound model of the same voice says it: half of all words do.
"""

from __future__ import annotations

from functools import lru_cache
from os import PathLike
from pathlib import Path

import numpy as np

from edgettsd.errors import ModelInvalidError
from edgettsd.frontends.english.phones import PHONES
from edgettsd.models.safetensors import SafetensorsFile

BLOCK = 32
MAX_WORD = 60
LAST_PHONE = 0x80
LONG = 15


class Lexicon:
    """Words to phones. Nothing is loaded but the pages that a search touches."""

    def __init__(self, file: SafetensorsFile) -> None:
        self._path = file.path
        info, blocks = file.tensors.get("data"), file.tensors.get("blocks")
        if info is None or blocks is None or len(info.shape) != 1 or len(blocks.shape) != 1:
            raise ModelInvalidError(f"{file.path}: tensors data and blocks of one dimension are needed")
        file.expect("data", info.shape, ("U8",))
        file.expect("blocks", blocks.shape, ("I32",))
        starts = file["blocks"]
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != info.shape[0] or (np.diff(starts) <= 0).any():
            raise ModelInvalidError(
                f"{file.path}: blocks must ascend from 0 to {info.shape[0]}, the size of data"
            )
        self._data = memoryview(file["data"])  # type: ignore[arg-type]
        self._starts = starts
        self._find = lru_cache(4096)(self._search)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Lexicon:
        """Map a file written by the tools; raises ModelInvalidError that names it, and OSError."""
        # The views keep the mapping alive.
        return cls(SafetensorsFile(Path(path)))

    def phones(self, word: str) -> list[str] | None:
        """Phones of a lower-case word, [PAUSE] when its letters say them, None when it is not there.

        Raises ModelInvalidError for damaged data.
        """
        found = self._find(word)
        return None if found is None else [PHONES[p] for p in found]

    def __contains__(self, word: str) -> bool:
        return self._find(word) is not None

    def _search(self, word: str) -> bytes | None:
        if not word.isascii() or not 0 < len(word) <= MAX_WORD:
            return None
        key = word.encode()
        low, high = 0, len(self._starts) - 1
        # The last block whose first word is not behind the key.
        while high - low > 1:
            middle = (low + high) // 2
            if self._entry(int(self._starts[middle]), b"")[0] <= key:
                low = middle
            else:
                high = middle
        at, end, current = int(self._starts[low]), int(self._starts[low + 1]), b""
        while at < end:
            current, phones, at = self._entry(at, current)
            if current == key:
                return phones
            if current > key:
                break
        return None

    def _entry(self, at: int, previous: bytes) -> tuple[bytes, bytes, int]:
        """The word and phone ids of the entry at `at`, and where the next one is."""
        data = self._data
        try:
            shared, more = data[at] >> 4, data[at] & 15
            at += 1
            if more == LONG:
                more, at = data[at], at + 1
            word, at = previous[:shared] + bytes(data[at : at + more]), at + more
            begin = at
            while not data[at] & LAST_PHONE:
                at += 1
        except IndexError:
            raise ModelInvalidError(f"{self._path}: an entry runs beyond the end") from None
        phones = bytes(p & 0x7F for p in data[begin : at + 1])
        if max(phones) >= len(PHONES) or shared > len(previous):
            raise ModelInvalidError(f"{self._path}: the entry that ends at {at} is damaged")
        return word, phones, at + 1
