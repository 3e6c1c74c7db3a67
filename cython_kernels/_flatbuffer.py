"""Reading a flatbuffer that nobody has checked, many tables at a time; nothing outside the file is read.

Tables have fields, found through a vtable of 16-bit offsets; vectors and texts lie behind 32-bit ones.
Places and values are int64 arrays with an entry for each table; place 0 stands for an absent field.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
# More tables of a kind than any model has: what is read of a damaged file stays small.
MOST = 1 << 16


class DamagedError(ValueError):
    """The file is not a sound one; the message says where and why."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """A vector of each table: place of its first element, and how many it has."""

    pos: Ints
    n: Ints


class Buffer:
    """The bytes of a file of at least 16 bytes; longer numbers are read at multiples of their size."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.raw = data
        self.size = len(data)
        self._u8 = np.frombuffer(data, np.uint8)
        self._u16: npt.NDArray[np.uint16] = np.frombuffer(data, "<u2", self.size // 2)
        self._u32: npt.NDArray[np.uint32] = np.frombuffer(data, "<u4", self.size // 4)
        self._i32: npt.NDArray[np.int32] = np.frombuffer(data, "<i4", self.size // 4)
        self._i64: npt.NDArray[np.int64] = np.frombuffer(data, "<i8", self.size // 8)

    def u8(self, pos: Ints) -> Ints:
        """The bytes at these places."""
        return self._u8[pos].astype(np.int64)

    def u16(self, pos: Ints) -> Ints:
        """Unsigned numbers of 16 bits, little-endian."""
        return self._u16[pos >> 1].astype(np.int64)

    def u32(self, pos: Ints) -> Ints:
        """Unsigned numbers of 32 bits."""
        return self._u32[pos >> 2].astype(np.int64)

    def i32(self, pos: Ints) -> Ints:
        """Signed numbers of 32 bits."""
        return self._i32[pos >> 2].astype(np.int64)

    def i64(self, pos: Ints) -> Ints:
        """Signed numbers of 64 bits."""
        return self._i64[pos >> 3].astype(np.int64)

    def inside(self, pos: Ints, n: Ints | int) -> Bools:
        """Whether n bytes from these places lie in the file."""
        found: Bools = (pos >= 0) & (pos <= self.size) & (n <= self.size - pos)
        return found


class Tables:
    """Tables at these places; `where(i)` says which one is meant, for messages. Raises DamagedError."""

    def __init__(self, buffer: Buffer, pos: Ints, where: Callable[[int], str]) -> None:
        self.buffer, self.pos, self.where = buffer, pos, where
        self.n = len(pos)
        self.require((pos % 4 == 0) & buffer.inside(pos, 4), "a table lies outside the file")
        self.vtable = pos - buffer.i32(pos)
        good = (self.vtable >= 0) & (self.vtable % 2 == 0) & buffer.inside(self.vtable, 4)
        self.require(good, "a vtable lies outside the file")
        self.vsize, self.size = buffer.u16(self.vtable), buffer.u16(self.vtable + 2)
        good = (self.vsize >= 4) & (self.vsize % 2 == 0) & buffer.inside(self.vtable, self.vsize)
        good &= (self.size >= 4) & buffer.inside(pos, self.size)
        self.require(good, "a table reaches outside the file")
        for slot in range(4, int(self.vsize.max(initial=0)), 2):
            offset = self._offsets(slot)
            good = (offset == 0) | ((offset >= 4) & (offset < self.size))
            self.require(good, "a field reaches outside its table")

    def require(self, good: Bools, message: str | Callable[[int], str]) -> None:
        """Refuse the first table that is not good."""
        if not good.all():
            index = int(np.argmin(good))
            text = message if isinstance(message, str) else message(index)
            where = self.where(index)
            raise DamagedError(f"{where}: {text}" if where else text)

    def subset(self, chosen: Bools, pos: Ints) -> Tables:
        """Tables at `pos`, an entry for each chosen table, which they belong to."""
        indices = np.flatnonzero(chosen)
        return Tables(self.buffer, pos[chosen], lambda i: self.where(int(indices[i])))

    def field(self, number: int, size: int) -> Ints:
        """Places of a field of `size` bytes."""
        offset = self._offsets(4 + 2 * number)
        good = (offset == 0) | ((offset + size <= self.size) & ((self.pos + offset) % size == 0))
        self.require(good, f"field {number} reaches outside its table")
        return np.where(offset > 0, self.pos + offset, 0)

    def scalar(self, number: int, size: int, absent: int = 0) -> Ints:
        """Values of a field: unsigned of 1 byte, signed of 4 or 8."""
        pos = self.field(number, size)
        read: dict[int, Any] = {1: self.buffer.u8, 4: self.buffer.i32, 8: self.buffer.i64}
        return np.where(pos > 0, read[size](pos), absent)

    def target(self, number: int) -> Ints:
        """Places that a field points to."""
        pos = self.field(number, 4)
        offset = self.buffer.u32(pos)
        to = pos + offset
        good = (pos == 0) | ((offset > 0) & self.buffer.inside(to, 4))
        self.require(good, f"field {number} points outside the file")
        return np.where(pos > 0, to, 0)

    def vector(self, number: int, size: int) -> Vectors:
        """Vectors of elements of `size` bytes."""
        at = self.target(number)
        message = f"the vector in field {number} reaches outside the file"
        self.require(at % 4 == 0, message)
        n = np.where(at > 0, self.buffer.u32(at), 0)
        pos = np.where(at > 0, at + 4, 0)
        # Readers take elements of 4 and 8 bytes as aligned.
        self.require(self.buffer.inside(pos, n * size) & ((n == 0) | (pos % size == 0)), message)
        return Vectors(pos, n)

    def text(self, number: int) -> None:
        """Refuse texts without an end."""
        found = self.vector(number, 1)
        raw = self.buffer.raw
        ended = [
            not pos or (pos + n < len(raw) and raw[pos + n] == 0 and raw.find(b"\0", pos, pos + n) < 0)
            for pos, n in zip(found.pos.tolist(), found.n.tolist(), strict=True)
        ]
        self.require(np.array(ended, bool), f"the text in field {number} has no end")

    def absent(self, number: int, what: str) -> None:
        """Refuse tables that have a field."""
        self.require(self.field(number, 1) == 0, f"{what} not allowed")

    def tables(self, vectors: Vectors, index: int, where: Callable[[int], str]) -> Tables:
        """The tables of the vector of one table."""
        n, first = int(vectors.n[index]), int(vectors.pos[index])
        if n > MOST:
            raise DamagedError(f"{where(0)}: {n} tables, at most {MOST} are allowed")
        pos = first + 4 * np.arange(n, dtype=np.int64)
        return Tables(self.buffer, pos + self.buffer.u32(pos), where)

    def _offsets(self, slot: int) -> Ints:
        has = slot + 2 <= self.vsize
        return np.where(has, self.buffer.u16(np.where(has, self.vtable + slot, 0)), 0)
