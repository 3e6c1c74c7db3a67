"""A strict, memory-mapped reader of safetensors files.

Nothing in a header is believed: every size is checked against the file before it is used, so that a damaged
or hostile file costs an error message and never an allocation. Tensors are views of the mapping; only the
rows that are touched become resident.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ModelInvalidError

Array = npt.NDArray[Any]

MAX_HEADER = 32 << 20
MAX_DIMENSIONS = 8
# Stored dtype -> numpy dtype of the view; bfloat16 has none and is given as its bit patterns.
DTYPES: Mapping[str, str] = MappingProxyType(
    {
        "F64": "<f8",
        "F32": "<f4",
        "F16": "<f2",
        "BF16": "<u2",
        "I64": "<i8",
        "I32": "<i4",
        "I16": "<i2",
        "I8": "i1",
        "U8": "u1",
        "BOOL": "?",
    }
)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies: `offset` is in bytes from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class SafetensorsFile(Mapping[str, Array]):
    """A safetensors file as a mapping of names to views; use as a context manager or call `close`.

    Raises ModelInvalidError, naming the file and what is wrong, and OSError when it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._map: mmap.mmap | None = None
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            header, start = _read_header(path, file.read(8), file, size)
            self.tensors: Mapping[str, TensorInfo] = MappingProxyType(_parse(path, header, start, size))
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __getitem__(self, name: str) -> Array:
        """The tensor as a read-only view [shape]; bfloat16 as uint16. Raises KeyError."""
        info = self.tensors[name]
        if self._map is None:
            raise ValueError(f"{self.path} is closed")
        dtype = np.dtype(DTYPES[info.dtype])
        flat = np.frombuffer(self._map, dtype, info.nbytes // dtype.itemsize, info.offset)
        return flat.reshape(info.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def release(self) -> None:
        """Give the pages that were touched back to the system; views stay valid and are read again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def expect(self, name: str, shape: tuple[int, ...], dtypes: tuple[str, ...]) -> None:
        """Raise ModelInvalidError unless the tensor exists with this shape and one of these dtypes."""
        info = self.tensors.get(name)
        if info is None:
            raise ModelInvalidError(f"{self.path}: tensor {name} is missing")
        if info.shape != shape:
            raise ModelInvalidError(
                f"{self.path}: tensor {name} has shape {list(info.shape)}, {list(shape)} is needed"
            )
        if info.dtype not in dtypes:
            raise ModelInvalidError(
                f"{self.path}: tensor {name} has dtype {info.dtype}, allowed are {', '.join(dtypes)}"
            )

    def close(self) -> None:
        """Drop the mapping once no view of it is left; idempotent."""
        if self._map is not None:
            mapping, self._map = self._map, None
            # While views are alive the mapping cannot close; it goes with the last of them.
            with contextlib.suppress(BufferError):
                mapping.close()

    def __enter__(self) -> SafetensorsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_header(path: Path, prefix: bytes, file: Any, size: int) -> tuple[bytes, int]:
    """The JSON header and the offset of the data."""
    if len(prefix) < 8:
        raise ModelInvalidError(f"{path}: {size} bytes are too few for a safetensors file")
    length = int.from_bytes(prefix, "little")
    if length > size - 8:
        raise ModelInvalidError(f"{path}: header of {length} bytes in a file of {size} bytes")
    if length > MAX_HEADER:
        raise ModelInvalidError(f"{path}: header of {length} bytes, at most {MAX_HEADER} are allowed")
    header: bytes = file.read(length)
    if len(header) != length:
        raise ModelInvalidError(f"{path}: the header is cut off")
    return header, 8 + length


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key!r} appears twice")
        result[key] = value
    return result


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _parse(path: Path, header: bytes, start: int, size: int) -> dict[str, TensorInfo]:
    try:
        if not header.startswith(b"{"):
            raise ValueError("it does not start with {")
        parsed = json.loads(header.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ModelInvalidError(f"{path}: the header is not valid: {error}") from None
    metadata = parsed.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ModelInvalidError(f"{path}: __metadata__ is not a table of strings")
    tensors = {name: _tensor(path, name, value, start) for name, value in parsed.items()}
    end = start
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if info.offset != end:
            what = "overlaps the one before" if info.offset < end else "leaves a hole before it"
            raise ModelInvalidError(f"{path}: tensor {name} {what}")
        end = info.offset + info.nbytes
        if end > size:
            raise ModelInvalidError(
                f"{path}: tensor {name} ends at byte {end}, the file has only {size} (is it cut off?)"
            )
    if end != size:
        raise ModelInvalidError(f"{path}: {size - end} bytes after the last tensor")
    return tensors


def _tensor(path: Path, name: str, value: Any, start: int) -> TensorInfo:
    where = f"{path}: tensor {name}"
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ModelInvalidError(f"{where} needs exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ModelInvalidError(f"{where} has dtype {dtype!r}, allowed are {', '.join(DTYPES)}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_count, shape)):
        raise ModelInvalidError(f"{where} has shape {shape!r}, a list of sizes is needed")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise ModelInvalidError(f"{where} has data_offsets {offsets!r}, two offsets are needed")
    nbytes = np.dtype(DTYPES[dtype]).itemsize
    for extent in shape:
        nbytes *= extent
    if offsets[1] - offsets[0] != nbytes:
        raise ModelInvalidError(
            f"{where} has {offsets[1] - offsets[0]} bytes, {nbytes} are needed for {dtype} {shape}"
        )
    return TensorInfo(dtype, tuple(shape), start + offsets[0], nbytes)
