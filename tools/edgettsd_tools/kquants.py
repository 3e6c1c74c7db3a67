"""ggml's own quantiser, for the types that gguf's Python code cannot write."""

from __future__ import annotations

import ctypes
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from cython_kernels import LIBRARIES

Kind = gguf.GGMLQuantizationType
_LIBRARY = "libggml-base.so.0"


def quantize(values: npt.NDArray[Any], kind: Kind) -> npt.NDArray[np.uint8]:
    """Rows of float32 as blocks of `kind`: [rows, columns] to [rows, bytes of a row].

    Raises ValueError where the rows are no whole number of blocks, OSError without ggml.
    """
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = values.shape
    if columns % block:
        raise ValueError(f"rows of {columns} values: {kind.name} needs a multiple of {block}")
    source = np.ascontiguousarray(values, np.float32)
    out = np.empty((rows, columns // block * size), np.uint8)
    # The copy that the kernels use; without a wheel the distribution's, by its name.
    function = ctypes.CDLL(LIBRARIES.get(_LIBRARY, _LIBRARY)).ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    written = function(int(kind), source.ctypes.data, out.ctypes.data, 0, rows, columns, None)
    if written != out.nbytes:
        raise OSError(f"ggml wrote {written} bytes of {kind.name}, {out.nbytes} are expected")
    return out
