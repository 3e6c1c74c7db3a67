"""Causal 7-tap convolution by Toom-Cook F(4, 7): 10 products for 4 outputs instead of 28.

Four outputs of a 7-tap filter need 10 inputs. Evaluated at nine points and infinity, filter and
input multiply point by point; interpolation gives the outputs. Between channels every product is
a matrix product, so 64 % of the multiplications go away. The transforms are depthwise convolutions.

A dilated convolution is the same on every d-th frame: time is viewed as [time / d, d] and the
transforms work along the first of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from .config import CONV_TAPS
from .flatbuffer import Tensor
from .ops import Ops
from .weights import F32, F64, Affine

OUTPUTS = 4
# Found by search: the symmetric set with the least f32 error; 1 must be among them (see bias).
_HALF = (1.0, 0.75, 0.4, 2.5)
POINTS: tuple[float, ...] = (0.0, *(sign * p for p in _HALF for sign in (1.0, -1.0)))
_PRODUCTS = len(POINTS) + 1
_UNIT = POINTS.index(1.0)


def matrices() -> tuple[F64, F64, F64]:
    """(interpolation [4, 10], filter [10, 7], input [10, 10]); the last product is infinity's.

    outputs = interpolation @ ((filter @ taps) * (input @ frames)). Rows of the input transform are
    scaled by powers of two to about unit norm, the filter's rows inversely.
    """
    count = len(POINTS)
    interpolation = np.zeros((OUTPUTS, _PRODUCTS))
    filters = np.zeros((_PRODUCTS, CONV_TAPS))
    inputs = np.zeros((_PRODUCTS, _PRODUCTS))
    for i, point in enumerate(POINTS):
        others = [p for p in POINTS if p != point]
        interpolation[:, i] = point ** np.arange(OUTPUTS)
        filters[i] = point ** np.arange(CONV_TAPS) / np.prod([point - p for p in others])
        inputs[i, :count] = polynomial.polyfromroots(others)
    interpolation[-1, -1] = filters[-1, -1] = 1.0
    inputs[-1] = polynomial.polyfromroots(POINTS)
    scale = np.exp2(np.rint(np.log2(np.linalg.norm(inputs, axis=1))))[:, None]
    return interpolation, filters * scale, inputs / scale


def padding(time: int, dilation: int) -> int:
    """Frames to append so that ``time`` outputs are whole tiles."""
    return -time % (OUTPUTS * dilation)


def fold(affine: Affine) -> list[Affine]:
    """A convolution [outputs, 1, 7, inputs] and its bias as the 10 products' linears.

    The bias goes into the product at point 1, which every output contains once.
    """
    weight, bias = affine
    _, filters, _ = matrices()
    taps = weight[:, 0].astype(np.float64)
    nothing = np.zeros_like(bias)
    return [
        (np.einsum("k,oki->oi", row, taps).astype(np.float32), bias if i == _UNIT else nothing)
        for i, row in enumerate(filters)
    ]


def _filter(row: NDArray[np.float64], channels: int) -> F32:
    """One transform row for every channel: a depthwise filter [1, taps, 1, channels]."""
    return np.repeat(row.astype(np.float32)[None, :, None, None], channels, axis=3)


class ToomConv:
    """Adds the operators of one or more such convolutions to a subgraph."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        self._interpolation, _, self._inputs = matrices()

    def _transform(self, x: Tensor, name: str, row: NDArray[np.float64], stride: int) -> Tensor:
        channels = x.shape[3]
        weight = self._ops.f32(f"toom_{name}_{channels}", lambda: _filter(row, channels))
        bias = self._ops.f32(f"no_bias_{channels}", lambda: np.zeros(channels))
        return self._ops.depthwise(x, weight, bias, stride)

    def _evaluate(self, x: Tensor, dilation: int) -> list[Tensor]:
        """[1, 1, 6 d + 4 d m, C] -> the 10 evaluated inputs [1, m, d, C]."""
        ops = self._ops
        channels = x.shape[3]
        rows = x.shape[2] // dilation
        view = ops.reshape(x, 1, rows, dilation, channels)
        finite = [
            self._transform(view, f"input_{i}", self._inputs[i, : len(POINTS)], OUTPUTS)
            for i in range(1, len(POINTS))
        ]
        # Points 0 and infinity read every other frame, one frame apart, with the same factors:
        # one transform of frame pairs gives both, side by side.
        pairs = ops.reshape(x, 1, rows // 2, 2 * dilation, channels)
        both = self._transform(pairs, "input_ends", self._inputs[0, : len(POINTS) : 2], OUTPUTS // 2)
        zero, infinity = (ops.slice(both, 2, start, dilation) for start in (0, dilation))
        return [zero, *finite, infinity]

    def _interpolate(self, products: list[Tensor], dilation: int) -> Tensor:
        """10 products [1, m, d, C] -> outputs in time order [1, 1, 4 d m, C]."""
        ops = self._ops
        _, tiles, _, channels = products[0].shape
        flat = [ops.reshape(p, 1, 1, tiles * dilation, channels) for p in products]
        # Two steps: XNNPACK joins at most 5 tensors at once.
        stacked = ops.concat([ops.concat(flat[:5], 1), *flat[5:-1]], 1)
        outputs = [
            self._transform(stacked, f"output_{r}", self._interpolation[r, :-1], 1) for r in range(OUTPUTS)
        ]
        outputs[-1] = ops.add(outputs[-1], flat[-1])
        rows = [ops.reshape(y, 1, tiles, 1, dilation * channels) for y in outputs]
        return ops.reshape(ops.concat(rows, 2), 1, 1, tiles * OUTPUTS * dilation, channels)

    def __call__(self, x: Tensor, linears: list[tuple[Tensor, Tensor]], dilation: int, time: int) -> Tensor:
        """Convolve x, [1, 1, 6 d + time + padding, C], by the folded linears: [1, 1, time, outputs]."""
        evaluated = self._evaluate(x, dilation)
        products = [self._ops.linear(v, *linear) for v, linear in zip(evaluated, linears, strict=True)]
        y = self._interpolate(products, dilation)
        return y if y.shape[2] == time else self._ops.slice(y, 2, 0, time)
