"""TFLite operators as methods, channels last, with the weight precision applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from .flatbuffer import Constant, Graph, Tensor
from .weights import F32, Affine

# A weight is sparse when fewer of its values are used; see too_uneven.
SPARSE, UNEVEN = 0.01, 0.05
PRECISIONS = ("f32", "f16", "int8", "w8")
_VALID = schema.Padding.VALID
_ACTIVATIONS: dict[str, int] = {
    "": schema.ActivationFunctionType.NONE,
    "relu_n1_to_1": schema.ActivationFunctionType.RELU_N1_TO_1,
}


def quantize_rows(weight: F32) -> Constant:
    """Symmetric int8 with one scale an output channel (axis 0), as TFLite's hybrid kernels expect."""
    flat = weight.reshape(len(weight), -1)
    peak = np.abs(flat).max(axis=1)
    scales = np.where(peak > 0, peak / 127.0, 1.0).astype(np.float32)
    steps = np.rint(flat / scales[:, None]).clip(-127, 127).astype(np.int8)
    return Constant(steps.reshape(weight.shape), scales, 0)


def too_uneven(weight: F32, rounded: Constant) -> bool:
    """Whether a weight has few values, and 8 bits move half of them by more than 5 %.

    That is so in matrices that were computed, not trained, and their small values count as much.
    """
    flat = weight.reshape(len(weight), -1)
    used = flat != 0
    if rounded.scales is None or not 0 < used.sum() < SPARSE * flat.size:
        return False
    moved = np.abs(rounded.data.reshape(flat.shape) * rounded.scales[:, None] - flat)[used] / np.abs(
        flat[used]
    )
    return bool(np.median(moved) > UNEVEN)


def half_precision(weight: F32, name: str) -> NDArray[np.float16]:
    """Round to float16. Raises ValueError that names the constant if a value does not fit."""
    peak = float(np.abs(weight).max(initial=0.0))
    if peak > float(np.finfo(np.float16).max):
        raise ValueError(f"decoder weight {name} reaches {peak:g}; f16 holds at most 65504: use f32")
    return weight.astype(np.float16)


class Ops:
    """Operators of one subgraph. Activations are f32 [1, 1, time, channels] unless a method says else."""

    def __init__(self, graph: Graph, precision: str) -> None:
        self.graph = graph
        self.precision = precision
        self._wide: dict[str, Tensor] = {}

    # -- constants ------------------------------------------------------------------------------

    def f32(self, name: str, make: Callable[[], Any]) -> Tensor:
        """An f32 constant."""
        return self.graph.constant(name, lambda: Constant(np.asarray(make(), np.float32)))

    def i32(self, *values: int) -> Tensor:
        """A 1-D int32 constant, shared by value."""
        name = "i32_" + "_".join(str(v) for v in values)
        return self.graph.constant(name, lambda: Constant(np.array(values, np.int32)))

    def weight(self, name: str, make: Callable[[], F32], precision: str) -> Tensor:
        """A weight stored in ``precision``; a DEQUANTIZE that runs once, at load, widens f16 and w8."""
        if precision == "int8":
            return self.graph.constant(name, lambda: quantize_rows(make()))
        if precision == "f32":
            return self.f32(name, make)
        if name not in self._wide:

            def few_bits() -> Constant:
                weight = make()
                rounded = quantize_rows(weight)
                return Constant(half_precision(weight, name)) if too_uneven(weight, rounded) else rounded

            if precision == "w8":
                narrow = self.graph.constant(name, few_bits)
            else:
                narrow = self.graph.constant(name, lambda: Constant(half_precision(make(), name)))
            self._wide[name] = self.graph.op(
                "DEQUANTIZE",
                [narrow],
                narrow.shape,
                "DequantizeOptions",
                version=2 if narrow.dtype == "int8" else 3,
            )
        return self._wide[name]

    def affine(self, name: str, make: Callable[[], Affine], precision: str = "") -> tuple[Tensor, Tensor]:
        """Weight and f32 bias of a linear or convolution; ``make`` runs once for both."""
        made: list[Affine] = []

        def once() -> Affine:
            if not made:
                made.append(make())
            return made[0]

        weight = self.weight(f"{name}.weight", lambda: once()[0], precision or self.precision)
        return weight, self.f32(f"{name}.bias", lambda: once()[1])

    # -- linear algebra -------------------------------------------------------------------------

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """x @ weight.T + bias over the last axis; weight [outputs, inputs]."""
        hybrid = weight.dtype == "int8"
        return self.graph.op(
            "FULLY_CONNECTED",
            [x, weight, bias],
            (*x.shape[:-1], weight.shape[0]),
            "FullyConnectedOptions",
            {"keepNumDims": True, "asymmetricQuantizeInputs": hybrid},
            version=9 if hybrid else 5,
        )

    def conv(
        self, x: Tensor, weight: Tensor, bias: Tensor, dilation: int = 1, activation: str = ""
    ) -> Tensor:
        """Valid convolution over time; weight [outputs, 1, taps, inputs]."""
        time = x.shape[2] - (weight.shape[2] - 1) * dilation
        return self.graph.op(
            "CONV_2D",
            [x, weight, bias],
            (1, 1, time, weight.shape[0]),
            "Conv2DOptions",
            {
                "padding": _VALID,
                "strideW": 1,
                "strideH": 1,
                "dilationWFactor": dilation,
                "dilationHFactor": 1,
                "fusedActivationFunction": _ACTIVATIONS[activation],
            },
            version=5 if weight.dtype == "int8" else 1,
        )

    def depthwise(self, x: Tensor, weight: Tensor, bias: Tensor, stride: int = 1) -> Tensor:
        """Valid depthwise convolution, stride along axis 1; weight [1, taps, 1 or 1, taps, channels]."""
        _, high, wide, channels = weight.shape
        shape = (1, (x.shape[1] - high) // stride + 1, x.shape[2] - wide + 1, channels)
        return self.graph.op(
            "DEPTHWISE_CONV_2D",
            [x, weight, bias],
            shape,
            "DepthwiseConv2DOptions",
            {
                "padding": _VALID,
                "strideW": 1,
                "strideH": stride,
                "depthMultiplier": 1,
                "dilationWFactor": 1,
                "dilationHFactor": 1,
            },
        )

    def matmul(self, a: Tensor, b: Tensor, transpose_b: bool = False) -> Tensor:
        """Batched product over the last two axes."""
        columns = b.shape[-2] if transpose_b else b.shape[-1]
        return self.graph.op(
            "BATCH_MATMUL", [a, b], (*a.shape[:-1], columns), "BatchMatMulOptions", {"adjY": transpose_b}
        )

    # -- element-wise ---------------------------------------------------------------------------

    def _binary(self, builtin: str, options: str, a: Tensor, b: Tensor) -> Tensor:
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self.graph.op(builtin, [a, b], shape, options, dtype=a.dtype)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """a + b, broadcast."""
        return self._binary("ADD", "AddOptions", a, b)

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        """a - b, broadcast."""
        return self._binary("SUB", "SubOptions", a, b)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """a * b, broadcast."""
        return self._binary("MUL", "MulOptions", a, b)

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        """The smaller of a and b, broadcast."""
        return self._binary("MINIMUM", "MaximumMinimumOptions", a, b)

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        """The larger of a and b, broadcast."""
        return self._binary("MAXIMUM", "MaximumMinimumOptions", a, b)

    def unary(self, builtin: str, x: Tensor, options: str = "", **values: Any) -> Tensor:
        """SIN, RSQRT, LOGISTIC, GELU, SOFTMAX, ...: the same shape out as in."""
        return self.graph.op(builtin, [x], x.shape, options, values)

    def reduce(self, builtin: str, x: Tensor, axis: int) -> Tensor:
        """MEAN or SUM over one axis, which stays with length 1."""
        shape = list(x.shape)
        shape[axis] = 1
        axis %= len(shape)
        return self.graph.op(builtin, [x, self.i32(axis)], shape, "ReducerOptions", {"keepDims": True})

    # -- layout ---------------------------------------------------------------------------------

    def reshape(self, x: Tensor, *shape: int) -> Tensor:
        """The same elements in row-major order under another shape; nothing when equal."""
        if shape == x.shape:
            return x
        values = {"newShape": np.array(shape, np.int32)}
        return self.graph.op("RESHAPE", [x, self.i32(*shape)], shape, "ReshapeOptions", values, dtype=x.dtype)

    def transpose(self, x: Tensor, *order: int) -> Tensor:
        """Axes in another order."""
        shape = [x.shape[i] for i in order]
        return self.graph.op("TRANSPOSE", [x, self.i32(*order)], shape, "TransposeOptions", dtype=x.dtype)

    def slice(self, x: Tensor, axis: int, start: int, count: int) -> Tensor:
        """``count`` entries of one axis from ``start`` on."""
        axis %= len(x.shape)
        begin = [0] * len(x.shape)
        begin[axis] = start
        size = list(x.shape)
        size[axis] = count
        return self.graph.op(
            "SLICE", [x, self.i32(*begin), self.i32(*size)], size, "SliceOptions", dtype=x.dtype
        )

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Parts one after the other along an axis."""
        axis %= len(parts[0].shape)
        shape = list(parts[0].shape)
        shape[axis] = sum(p.shape[axis] for p in parts)
        return self.graph.op("CONCATENATION", list(parts), shape, "ConcatenationOptions", {"axis": axis})

    def gather(self, table: Tensor, indices: Tensor) -> Tensor:
        """Rows of a 2-D table by a 1-D int32 index."""
        shape = (indices.shape[0], table.shape[1])
        return self.graph.op("GATHER", [table, indices], shape, "GatherOptions", {}, dtype=table.dtype)

    def cast_f32(self, x: Tensor) -> Tensor:
        """The same values as f32."""
        values = {"inDataType": schema.TensorType.FLOAT16, "outDataType": schema.TensorType.FLOAT32}
        return self.graph.op("CAST", [x], x.shape, "CastOptions", values)
