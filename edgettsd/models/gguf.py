"""A strict reader of GGUF headers: which keys and tensors a file has, and that they lie inside it.

libllama trusts much of a file that it loads; this runs first, so that a missing, misplaced or misshapen
tensor is refused by name. Only the header is read; arrays are walked over, not kept.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..errors import ModelInvalidError

Value = int | float | bool | str

MAX_KEYS = 1 << 12
MAX_TENSORS = 1 << 16
MAX_NAME = 256
MAX_DIMENSIONS = 4
MAX_STRING = 1 << 20

_STRING, _ARRAY = 8, 9
_SCALARS = dict(enumerate(("<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?"))) | {10: "<Q", 11: "<q", 12: "<d"}
# ggml type number -> name, values a block, bytes a block.
_TYPES = {
    0: ("f32", 1, 4),
    1: ("f16", 1, 2),
    2: ("q4_0", 32, 18),
    8: ("q8_0", 32, 34),
    12: ("q4_K", 256, 144),
    13: ("q5_K", 256, 176),
    14: ("q6_K", 256, 210),
    30: ("bf16", 1, 2),
}


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor: `shape` in numpy's order (rows first), `offset` in bytes from the start of the file."""

    type: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Scalar and string keys, the length of every array, and the tensors of a file."""

    path: Path
    values: Mapping[str, Value]
    arrays: Mapping[str, int]
    tensors: Mapping[str, GgufTensor]

    def expect_value(self, key: str, value: Value) -> None:
        """Raise ModelInvalidError unless key `key` has this value (floats to 6 digits)."""
        found = self.values.get(key)
        if found is None:
            raise ModelInvalidError(f"{self.path}: key {key} is missing")
        if isinstance(value, float) and isinstance(found, float) and abs(found - value) <= 1e-6 * abs(value):
            return
        if found != value or isinstance(found, bool) != isinstance(value, bool):
            raise ModelInvalidError(f"{self.path}: key {key} is {found!r}, {value!r} is needed")

    def expect_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise ModelInvalidError unless the tensors are exactly these, with these shapes."""
        for name, shape in expected.items():
            tensor = self.tensors.get(name)
            if tensor is None:
                raise ModelInvalidError(f"{self.path}: tensor {name} is missing")
            if tensor.shape != shape:
                raise ModelInvalidError(
                    f"{self.path}: tensor {name} has shape {list(tensor.shape)}, {list(shape)} is needed"
                )
        for name in self.tensors:
            if name not in expected:
                raise ModelInvalidError(f"{self.path}: tensor {name} does not belong there")


class _Cursor:
    """Reads forward through a mapping and refuses to leave it."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at, self.size = path, data, 0, len(data)

    def fail(self, what: str) -> ModelInvalidError:
        return ModelInvalidError(f"{self.path}: {what}")

    def skip(self, count: int) -> int:
        start = self.at
        if count > self.size - start:
            raise self.fail(f"cut off at byte {self.size}, the header goes on")
        self.at = start + count
        return start

    def number(self, layout: str) -> int | float | bool:
        value: int | float | bool
        (value,) = struct.unpack_from(layout, self.data, self.skip(struct.calcsize(layout)))
        return value

    def count(self, layout: str = "<Q") -> int:
        return int(self.number(layout))

    def text(self, limit: int, what: str) -> str:
        length = self.count()
        if length > limit:
            raise self.fail(f"{what} of {length} bytes, at most {limit} are allowed")
        start = self.skip(length)
        try:
            return self.data[start : start + length].decode("utf-8")
        except UnicodeDecodeError:
            raise self.fail(f"{what} at byte {start} is not UTF-8") from None

    def array(self, key: str) -> int:
        """Walk over an array and return its length."""
        kind, length = self.count("<I"), self.count()
        if kind in _SCALARS:
            self.skip(length * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            if length > (self.size - self.at) // 8:
                raise self.fail(f"key {key}: array of {length} strings does not fit into the file")
            unpack, data, at, size = struct.Struct("<Q").unpack_from, self.data, self.at, self.size
            for _ in range(length):
                if at + 8 > size:
                    raise self.fail(f"key {key}: cut off at byte {size}")
                at += 8 + unpack(data, at)[0]
            self.at = at
            self.skip(0)
        else:
            raise self.fail(f"key {key}: array of unknown type {kind}")
        return length


def read_gguf_header(path: Path) -> GgufHeader:
    """Read and check the header of `path`.

    Raises ModelInvalidError, naming the file and what is wrong, and OSError when it cannot be opened.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 24:
            raise ModelInvalidError(f"{path}: {size} bytes are too few for a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(_Cursor(path, data))


def _parse(cursor: _Cursor) -> GgufHeader:
    start = cursor.skip(4)
    if cursor.data[start : start + 4] != b"GGUF":
        raise cursor.fail("not a GGUF file")
    version = cursor.count("<I")
    if version != 3:
        raise cursor.fail(f"GGUF version {version}, 3 is needed")
    tensor_count, key_count = cursor.count(), cursor.count()
    if tensor_count > MAX_TENSORS:
        raise cursor.fail(f"{tensor_count} tensors, at most {MAX_TENSORS} are allowed")
    if key_count > MAX_KEYS:
        raise cursor.fail(f"{key_count} keys, at most {MAX_KEYS} are allowed")
    values: dict[str, Value] = {}
    arrays: dict[str, int] = {}
    for _ in range(key_count):
        key = cursor.text(MAX_NAME, "key name")
        if key in values or key in arrays:
            raise cursor.fail(f"key {key} appears twice")
        kind = cursor.count("<I")
        if kind == _STRING:
            values[key] = cursor.text(MAX_STRING, f"key {key}")
        elif kind == _ARRAY:
            arrays[key] = cursor.array(key)
        elif kind in _SCALARS:
            values[key] = cursor.number(_SCALARS[kind])
        else:
            raise cursor.fail(f"key {key} has unknown type {kind}")
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment > 1 << 16 or alignment & (alignment - 1):
        raise cursor.fail(f"key general.alignment is {alignment!r}, a power of two is needed")
    tensors = _tensors(cursor, tensor_count, alignment)
    return GgufHeader(
        cursor.path, MappingProxyType(values), MappingProxyType(arrays), MappingProxyType(tensors)
    )


def _tensors(cursor: _Cursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    found: list[tuple[str, str, tuple[int, ...], int, int]] = []
    names: set[str] = set()
    for _ in range(count):
        name = cursor.text(MAX_NAME, "tensor name")
        if name in names:
            raise cursor.fail(f"tensor {name} appears twice")
        names.add(name)
        dimensions = cursor.count("<I")
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise cursor.fail(f"tensor {name} has {dimensions} dimensions, 1 to {MAX_DIMENSIONS} are allowed")
        extents = [cursor.count() for _ in range(dimensions)]
        kind, offset = cursor.count("<I"), cursor.count()
        if kind not in _TYPES:
            known = ", ".join(entry[0] for entry in _TYPES.values())
            raise cursor.fail(f"tensor {name} has type number {kind}, known are {known}")
        type_name, block, block_bytes = _TYPES[kind]
        if extents[0] % block:
            raise cursor.fail(
                f"tensor {name} has rows of {extents[0]}, not a multiple of {block} ({type_name})"
            )
        nbytes = extents[0] // block * block_bytes
        for extent in extents[1:]:
            nbytes *= extent
        if not nbytes:
            raise cursor.fail(f"tensor {name} is empty")
        if offset % alignment:
            raise cursor.fail(f"tensor {name} is at offset {offset}, not a multiple of {alignment}")
        found.append((name, type_name, tuple(reversed(extents)), offset, nbytes))
    start = -(-cursor.at // alignment) * alignment
    end = start
    tensors: dict[str, GgufTensor] = {}
    for name, type_name, shape, offset, nbytes in sorted(found, key=lambda entry: entry[3]):
        if start + offset < end:
            raise cursor.fail(f"tensor {name} overlaps the one before")
        end = start + offset + nbytes
        if end > cursor.size:
            raise cursor.fail(
                f"tensor {name} ends at byte {end}, the file has only {cursor.size} (is it cut off?)"
            )
        tensors[name] = GgufTensor(type_name, shape, start + offset, nbytes)
    return tensors
