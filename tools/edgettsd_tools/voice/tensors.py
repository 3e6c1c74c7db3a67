"""Small data files of the English front end: named arrays in a safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"<f4": "F32", "<f2": "F16", "<i4": "I32", "<i2": "I16", "|i1": "I8", "|u1": "U8"}
ALIGNMENT = 64


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray[Any, Any]]) -> int:
    """Write the arrays in the given order, all or nothing; returns the size of the file in bytes.

    Allowed dtypes: float32, float16, int32, int16, int8, uint8. Raises ValueError for others.
    """
    header: dict[str, Any] = {}
    blocks: list[bytes] = []
    offset = 0
    # The largest items first, so that every array is aligned to its own item size.
    for name in sorted(tensors, key=lambda n: -tensors[n].dtype.itemsize):
        array = tensors[name]
        if array.dtype.str not in DTYPES:
            raise ValueError(f"{name} has dtype {array.dtype}; allowed are {', '.join(DTYPES)}")
        block = np.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": DTYPES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(block)],
        }
        blocks.append(block)
        offset += len(block)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % ALIGNMENT)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blocks))
    os.replace(partial, path)
    return path.stat().st_size
