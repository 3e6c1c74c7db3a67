"""Write safetensors files tensor by tensor, so that no more than one tensor is ever in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ITEM_SIZE = {"F32": 4, "F16": 2, "BF16": 2}
ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file to be written: dtype is a safetensors name (F32, F16 or BF16)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        count = ITEM_SIZE[self.dtype]
        for extent in self.shape:
            count *= extent
        return count


def to_bfloat16(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Round finite float32 values to the nearest bfloat16 (ties to even); returned as uint16 bit patterns."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return np.asarray((rounded >> 16).astype("<u2"))


def encode(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """float32 `values` as the stored form of `dtype`."""
    if dtype == "BF16":
        return to_bfloat16(values)
    return np.ascontiguousarray(values, dtype={"F32": "<f4", "F16": "<f2"}[dtype])


def write_safetensors(
    path: Path,
    entries: Sequence[Entry],
    produce: Callable[[Entry], Iterable[np.ndarray[Any, Any]]],
    *,
    metadata: Mapping[str, str] | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> None:
    """Write `entries` in the given order; `produce(entry)` yields float32 blocks that make it up in C order.

    The header is padded with blanks so that the data starts on a 64-byte boundary; entries are not padded
    one by one (the format forbids holes). Raises ValueError when the blocks do not fill an entry exactly.
    """
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    offset = 0
    for entry in entries:
        end = offset + entry.nbytes
        header[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for entry in entries:
            written = 0
            for block in produce(entry):
                data = encode(block, entry.dtype)
                file.write(data.data)
                written += data.nbytes
                advance(data.nbytes)
            if written != entry.nbytes:
                raise ValueError(f"{entry.name}: {written} bytes produced, {entry.nbytes} expected")
        file.flush()
        os.fsync(file.fileno())
