"""Whether LiteRT can be given a TFLite file: sound in itself, and of operators that a decoder may use.

LiteRT trusts its files, and a damaged one crashes it. Field numbers are those of the schema, version 3.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._flatbuffer import MOST, Bools, Buffer, DamagedError, Ints, Tables, Vectors

MAX_RANK = 8
# Of one tensor: the largest of the official decoder has 72 MB.
MAX_BYTES = 1 << 28
MAX_GRAPHS = 32
MANY = MOST

# Code: type of the options, least and most inputs, least and most outputs, and the options, a letter a field:
# b byte, i int32, s stride (int32, 1 and up, no default), d dilation or multiplier (int32, 1 and up, default
# 1), f float, v vector of int32, x must be absent.
RULES = {
    0: (11, 2, 2, 1, 1, "bb"),  # ADD
    2: (10, 1, MANY, 1, 1, "ib"),  # CONCATENATION
    3: (1, 2, 3, 1, 1, "bssbddb"),  # CONV_2D
    4: (2, 2, 3, 1, 1, "bssdbdd"),  # DEPTHWISE_CONV_2D
    6: (38, 1, 1, 1, 1, ""),  # DEQUANTIZE
    9: (8, 2, 3, 1, 1, "bbbbbx"),  # FULLY_CONNECTED
    14: (0, 1, 1, 1, 1, ""),  # LOGISTIC
    18: (21, 2, 2, 1, 1, "b"),  # MUL
    19: (0, 1, 1, 1, 1, ""),  # RELU
    20: (0, 1, 1, 1, 1, ""),  # RELU_N1_TO_1
    21: (0, 1, 1, 1, 1, ""),  # RELU6
    22: (17, 1, 2, 1, 1, "v"),  # RESHAPE
    25: (9, 1, 1, 1, 1, "f"),  # SOFTMAX
    28: (0, 1, 1, 1, 1, ""),  # TANH
    34: (22, 2, 2, 1, 1, ""),  # PAD
    36: (23, 2, 2, 1, 1, "ii"),  # GATHER
    39: (26, 2, 2, 1, 1, ""),  # TRANSPOSE
    40: (27, 2, 2, 1, 1, "b"),  # MEAN
    41: (28, 2, 2, 1, 1, "bb"),  # SUB
    42: (29, 2, 2, 1, 1, "b"),  # DIV
    43: (30, 1, 1, 1, 1, "v"),  # SQUEEZE
    45: (32, 4, 4, 1, 1, "iiiiib"),  # STRIDED_SLICE
    47: (33, 1, 1, 1, 1, ""),  # EXP
    49: (35, 2, 2, 1, MANY, "i"),  # SPLIT
    53: (37, 1, 1, 1, 1, "bb"),  # CAST
    55: (39, 2, 2, 1, 1, ""),  # MAXIMUM
    57: (39, 2, 2, 1, 1, ""),  # MINIMUM
    58: (41, 2, 2, 1, 1, ""),  # LESS
    59: (42, 1, 1, 1, 1, ""),  # NEG
    60: (43, 3, 3, 1, 1, ""),  # PADV2
    61: (44, 2, 2, 1, 1, ""),  # GREATER
    62: (45, 2, 2, 1, 1, ""),  # GREATER_EQUAL
    63: (46, 2, 2, 1, 1, ""),  # LESS_EQUAL
    64: (47, 3, 3, 1, 1, ""),  # SELECT
    65: (48, 3, 3, 1, 1, ""),  # SLICE
    66: (0, 1, 1, 1, 1, ""),  # SIN
    67: (49, 3, 4, 1, 1, "bssbb"),  # TRANSPOSE_CONV
    69: (51, 2, 2, 1, 1, ""),  # TILE
    70: (52, 2, 2, 1, 1, ""),  # EXPAND_DIMS
    73: (0, 1, 1, 1, 1, ""),  # LOG
    74: (27, 2, 2, 1, 1, "b"),  # SUM
    75: (0, 1, 1, 1, 1, ""),  # SQRT
    76: (0, 1, 1, 1, 1, ""),  # RSQRT
    78: (56, 2, 2, 1, 1, ""),  # POW
    83: (59, 1, MANY, 1, 1, "ii"),  # PACK
    88: (64, 1, 1, 1, MANY, "ii"),  # UNPACK
    92: (66, 1, 1, 1, 1, ""),  # SQUARE
    98: (75, 1, 1, 1, 1, "f"),  # LEAKY_RELU
    99: (76, 2, 2, 1, 1, ""),  # SQUARED_DIFFERENCE
    101: (78, 1, 1, 1, 1, ""),  # ABS
    108: (84, 1, 1, 1, 1, ""),  # COS
    111: (0, 1, 1, 1, 1, ""),  # ELU
    114: (89, 1, 1, 1, 1, ""),  # QUANTIZE
    117: (91, 1, 1, 1, 1, ""),  # HARD_SWISH
    123: (98, 3, 3, 1, 1, ""),  # SELECT_V2
    126: (101, 2, 2, 1, 1, "bbb"),  # BATCH_MATMUL
    130: (104, 2, 2, 1, 1, ""),  # BROADCAST_TO
    150: (116, 1, 1, 1, 1, "b"),  # GELU
}
# Bits of one element by type: float32, float16, int32, uint8, int64, bool, int16, int8, int4; 0: of no use.
_BITS = np.zeros(256, np.int64)
_BITS[[0, 1, 2, 3, 4, 6, 7, 9, 17]] = 32, 16, 32, 8, 64, 8, 16, 8, 4
# Every enumeration in use is smaller, and no stride or dilation is larger.
_MOST_BYTE, _MOST_STEP = 32, 65536
_UNKNOWN, _CONSTANT, _READY = 0, 1, 2


def check(path: str | os.PathLike[str]) -> None:
    """Raise ValueError with what is wrong with the file; OSError when it cannot be read."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size < 16:
            raise ValueError(f"not a TFLite file ({status.st_size} bytes)")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[4:8] != b"TFL3":
        raise ValueError("not a TFLite file (no TFL3 identifier)")
    try:
        _check_model(Buffer(data))
    except DamagedError as error:
        # Without its traceback, whose arrays keep the file mapped.
        raise ValueError(f"damaged TFLite file: {error}") from None


@dataclass(frozen=True, slots=True)
class _Model:
    """What operators and tensors refer to: operator numbers by code, and bytes of data by buffer."""

    operators: Ints
    stored: Ints


def _one(place: str) -> Callable[[int], str]:
    return lambda index: place


def _says(text: str, *values: Ints | int) -> Callable[[int], str]:
    """The text with the values of the table in question."""
    return lambda i: text.format(*(v[i] if isinstance(v, np.ndarray) else v for v in values))


def _check_model(buffer: Buffer) -> None:
    root = Tables(buffer, buffer.u32(np.zeros(1, np.int64)), _one(""))
    version = root.scalar(0, 4)
    codes, graphs, buffers = root.vector(1, 4), root.vector(2, 4), root.vector(4, 4)
    metadata_buffers, metadata, signatures = root.vector(5, 4), root.vector(6, 4), root.vector(7, 4)
    root.text(3)
    root.require(version == 3, lambda i: f"schema version {version[0]}, expected 3")
    n_graphs = int(graphs.n[0])
    good = 1 <= n_graphs <= MAX_GRAPHS and signatures.n[0] >= 1
    root.require(np.array([good]), lambda i: f"{n_graphs} graphs and {signatures.n[0]} signatures")
    for number in (8, 9):
        root.absent(number, "external data is")
    operators = _check_codes(root.tables(codes, 0, lambda i: f"operator code {i}"))
    stored = _check_buffers(root.tables(buffers, 0, lambda i: f"buffer {i}"))
    model = _Model(operators, stored)
    _check_metadata(root, metadata_buffers, metadata, len(stored))
    subgraphs = root.tables(graphs, 0, lambda i: f"graph {i}")
    n_tensors = [_check_graph(model, subgraphs, number) for number in range(n_graphs)]
    _check_signatures(root.tables(signatures, 0, lambda i: f"signature {i}"), n_tensors)


def _check_codes(codes: Tables) -> Ints:
    codes.absent(1, "a custom operator is")
    codes.field(2, 4)
    old = codes.scalar(0, 1).astype(np.uint8).view(np.int8).astype(np.int64)
    return np.maximum(old, codes.scalar(3, 4))


def _check_buffers(buffers: Tables) -> Ints:
    """Bytes of data of each."""
    data, offset, size = buffers.vector(0, 1), buffers.scalar(1, 8), buffers.scalar(2, 8)
    # Behind the flatbuffer, in files above 2 GB.
    behind = (offset > 1) | (offset < 0)
    good = ~behind | ((size >= 0) & buffers.buffer.inside(offset, size))
    buffers.require(good, "data lies outside the file")
    return np.where(behind, size, data.n)


def _check_metadata(root: Tables, numbers: Vectors, entries: Vectors, n_buffers: int) -> None:
    n = int(numbers.n[0])
    if n > MOST:
        raise DamagedError(f"metadata: {n} buffers, at most {MOST} are allowed")
    found = root.buffer.u32(int(numbers.pos[0]) + 4 * np.arange(n, dtype=np.int64))
    if (found >= n_buffers).any():
        raise DamagedError("metadata: a buffer does not exist")
    tables = root.tables(entries, 0, _one("metadata"))
    tables.text(0)
    buffer = tables.scalar(1, 4)
    good = (buffer >= 0) & (buffer < n_buffers) & (tables.target(0) > 0)
    tables.require(good, lambda i: f"entry {i} has no name or buffer")


def _check_graph(model: _Model, graphs: Tables, number: int) -> int:
    """Check one graph; returns how many tensors it has."""
    graph = graphs.subset(np.arange(graphs.n) == number, graphs.pos)
    tensors, inputs, outputs = graph.vector(0, 4), graph.vector(1, 4), graph.vector(2, 4)
    operators = graph.vector(3, 4)
    graph.field(5, 4)  # debug_metadata_index
    graph.text(4)
    place = f"graph {number}"
    constant = _check_tensors(model, graph.tables(tensors, 0, lambda i: f"{place}, tensor {i}"))
    status = np.where(constant, _CONSTANT, _UNKNOWN).tolist()
    for i, k in enumerate(_numbers(graph, inputs, 0, place)):
        if not 0 <= k < len(status) or status[k] != _UNKNOWN:
            raise DamagedError(f"{place}: input {i} is tensor {k}, which is constant or an input already")
        status[k] = _READY
    _check_operators(model, graph.tables(operators, 0, lambda i: f"{place}, operator {i}"), status)
    for i, k in enumerate(_numbers(graph, outputs, 0, place)):
        if not 0 <= k < len(status) or status[k] != _READY:
            raise DamagedError(f"{place}: output {i} is tensor {k}, which is never computed")
    return len(status)


def _numbers(tables: Tables, vectors: Vectors, index: int, place: str) -> tuple[int, ...]:
    """The int32 of one table's vector."""
    n, first = int(vectors.n[index]), int(vectors.pos[index])
    if n > MOST:
        raise DamagedError(f"{place}: {n} numbers, at most {MOST} are allowed")
    return struct.unpack_from(f"<{n}i", tables.buffer.raw, first)


def _check_tensors(model: _Model, tensors: Tables) -> Bools:
    """Which ones are constant."""
    shape, signature = tensors.vector(0, 4), tensors.vector(7, 4)
    kind, buffer = tensors.scalar(1, 1), tensors.scalar(2, 4)
    variable, external = tensors.scalar(5, 1), tensors.scalar(10, 4)
    tensors.field(8, 1)  # has_rank
    tensors.text(3)
    bits = _BITS[kind]
    tensors.require(
        (bits > 0) & (shape.n <= MAX_RANK), lambda i: f"type {kind[i]} of rank {shape.n[i]} is not allowed"
    )
    good = (signature.n == 0) | (signature.n == shape.n)
    tensors.require(good, "two shapes of different rank")
    dims = np.ones((tensors.n, MAX_RANK), np.int64)
    count = np.ones(tensors.n, np.int64)
    for axis in range(MAX_RANK):
        has = shape.n > axis
        dim = np.where(has, tensors.buffer.i32(np.where(has, shape.pos + 4 * axis, 0)), 1)
        also = has & (signature.n > 0)
        other = np.where(also, tensors.buffer.i32(np.where(also, signature.pos + 4 * axis, 0)), dim)
        good = (dim > 0) & (other == dim) & (count <= MAX_BYTES // np.maximum(dim, 1))
        tensors.require(good, _says("dimension {} is {}, allowed is a fixed size", axis, dim))
        dims[:, axis] = dim
        count *= dim
    size = (count * bits + 7) // 8
    tensors.require(size <= MAX_BYTES, lambda i: f"{size[i]} bytes are too many")
    tensors.require((variable == 0) & (external == 0), "variable and external tensors are not allowed")
    tensors.absent(6, "sparsity is")
    tensors.absent(9, "a variant type is")
    good = (buffer >= 0) & (buffer < len(model.stored))
    tensors.require(good, lambda i: f"buffer {buffer[i]} does not exist")
    stored = model.stored[buffer] if tensors.n else buffer
    good = (stored == 0) | (stored == size)
    tensors.require(good, lambda i: f"{stored[i]} bytes of data, expected {size[i]}")
    _check_quantization(tensors, shape, dims)
    constant: Bools = stored != 0
    return constant


def _check_quantization(tensors: Tables, shape: Vectors, dims: Ints) -> None:
    at = tensors.target(4)
    has = at > 0
    found, rank, dims = tensors.subset(has, at), shape.n[has], dims[has]
    found.vector(0, 4)
    found.vector(1, 4)
    scale, zero = found.vector(2, 4), found.vector(3, 8)
    details, axis = found.scalar(4, 1), found.scalar(6, 4)
    good = (details == 0) & (found.target(5) == 0)
    found.require(good, "this kind of quantization is not allowed")
    fits = (axis >= 0) & (axis < rank)
    channels = np.where(fits, dims[np.arange(found.n), np.where(fits, axis, 0)], 1)
    good = (axis >= 0) & ((axis == 0) | fits) & ((scale.n <= 1) | (scale.n == channels))
    good &= (zero.n == 0) | (zero.n == scale.n)
    found.require(good, lambda i: f"{scale.n[i]} scales and {zero.n[i]} zero points do not fit its shape")


def _check_operators(model: _Model, operators: Tables, status: list[int]) -> None:
    """Check each, and that it computes from what is there what is not; `status` is of the tensors."""
    index, inputs, outputs = operators.scalar(0, 4), operators.vector(1, 4), operators.vector(2, 4)
    mutated, temporaries = operators.vector(7, 1), operators.vector(8, 4)
    options2 = operators.scalar(11, 1)
    operators.field(6, 1)  # custom_options_format
    operators.field(13, 4)  # debug_metadata_index
    good = (index >= 0) & (index < len(model.operators))
    operators.require(good, lambda i: f"operator code {index[i]} does not exist")
    codes = model.operators[index] if operators.n else index
    good = np.isin(codes, list(RULES))
    operators.require(good, lambda i: f"operator {codes[i]} is not one that a decoder may use")
    rules = [RULES[code] for code in codes.tolist()]
    bounds = np.array([rule[1:5] for rule in rules], np.int64).reshape(-1, 4)
    good = (inputs.n >= bounds[:, 0]) & (inputs.n <= bounds[:, 1])
    good &= (outputs.n >= bounds[:, 2]) & (outputs.n <= bounds[:, 3])
    operators.require(
        good, lambda i: f"operator {codes[i]} has {inputs.n[i]} inputs and {outputs.n[i]} outputs"
    )
    unchanged = np.ones(operators.n, bool)
    for i in np.flatnonzero(mutated.n).tolist():
        first = int(mutated.pos[i])
        unchanged[i] = not any(operators.buffer.raw[first : first + int(mutated.n[i])])
    operators.require(unchanged, "changed inputs are not allowed")
    operators.require((temporaries.n == 0) & (options2 == 0), "further options are not allowed")
    for number, what in ((5, "custom options are"), (9, "custom options are"), (12, "further options are")):
        operators.absent(number, what)
    for i in range(operators.n):
        place = operators.where(i)
        given = _numbers(operators, inputs, i, place)
        for j, k in enumerate(given):
            if k == -1 and j + 1 == len(given) and j >= 2:
                continue  # no bias
            if not 0 <= k < len(status) or status[k] == _UNKNOWN:
                raise DamagedError(f"{place}: input {j} is tensor {k}, which has no value yet")
        for j, k in enumerate(_numbers(operators, outputs, i, place)):
            if not 0 <= k < len(status) or status[k] != _UNKNOWN:
                raise DamagedError(f"{place}: output {j} is tensor {k}, which has a value already")
            status[k] = _READY
    _check_options(operators, codes)


def _check_options(operators: Tables, codes: Ints) -> None:
    kind, at = operators.scalar(3, 1), operators.target(4)
    for code in np.unique(codes).tolist():
        wanted, fields = RULES[code][0], RULES[code][5]
        of_it = codes == code
        good = ~of_it | (((kind == 0) | (kind == wanted)) & ((kind == 0) == (at == 0)))
        operators.require(good, _says("options of type {}, expected {}", kind, wanted))
        if "s" in fields:
            operators.require(~of_it | (at > 0), "options are missing")
        _check_fields(operators.subset(of_it & (at > 0), at), fields)


def _check_fields(options: Tables, fields: str) -> None:
    for number, kind in enumerate(fields):
        if kind == "x":
            options.absent(number, "this option is")
        elif kind == "v":
            options.vector(number, 4)
        elif kind in "sd":
            value = options.scalar(number, 4, 1 if kind == "d" else 0)
            good = (value >= 1) & (value <= _MOST_STEP)
            options.require(good, _says("option {} is {}, allowed 1 to {}", number, value, _MOST_STEP))
        else:
            value = options.scalar(number, 1 if kind == "b" else 4)
            if kind == "b":
                options.require(value <= _MOST_BYTE, _says("option {} is {}", number, value))
    for number in range(len(fields), (int(options.vsize.max(initial=0)) - 4) // 2):
        options.absent(number, "an unknown option is")


def _check_signatures(signatures: Tables, n_tensors: list[int]) -> None:
    signatures.text(2)
    ins, outs, graph = signatures.vector(0, 4), signatures.vector(1, 4), signatures.scalar(4, 4)
    good = (signatures.target(2) > 0) & (graph >= 0) & (graph < len(n_tensors))
    signatures.require(good, "it has no name or graph")
    for i in range(signatures.n):
        for vectors in (ins, outs):
            names = signatures.tables(vectors, i, _one(f"signature {i}"))
            names.text(0)
            tensor = names.scalar(1, 4)
            good = (names.target(0) > 0) & (tensor >= 0) & (tensor < n_tensors[int(graph[i])])
            names.require(good, lambda j: f"name {j} has no tensor")
