"""Which weights of a w8 decoder keep 16 bits, and which constants share their bytes."""

from __future__ import annotations

import numpy as np
from edgettsd_tools.families.qwen3_tts.decoder.flatbuffer import Constant, Model
from edgettsd_tools.families.qwen3_tts.decoder.ops import quantize_rows, too_uneven


def sparse(values: list[float]) -> np.ndarray:
    """A weight [1, 1000] with a few values."""
    out = np.zeros((1, 1000), np.float32)
    out[0, : len(values)] = values
    return out


def test_few_values_of_very_different_size_keep_16_bits() -> None:
    for values, expected in (
        ([0.7, 0.001, 0.0004, 0.002], True),  # the step is 0.0055: three are lost
        ([0.7, 0.5, 0.3, 0.0004], False),  # only one is
        ([1.0, 1.0, -1.0], False),
        ([], False),
    ):
        weight = sparse(values)
        assert too_uneven(weight, quantize_rows(weight)) is expected, values
    dense = np.random.default_rng(1).normal(size=(10, 1000)).astype(np.float32) ** 5
    assert not too_uneven(dense, quantize_rows(dense)), "a trained weight is not sparse"


def test_equal_constants_share_a_buffer() -> None:
    model = Model("test")
    zeros, ones = np.zeros((4, 8), np.int8), np.ones((4, 8), np.int8)
    first = model.constant("a", lambda: Constant(zeros))
    again = model.constant("b", lambda: Constant(zeros.copy().reshape(8, 4)))
    other = model.constant("c", lambda: Constant(ones))
    wider = model.constant("d", lambda: Constant(zeros.view(np.float32)))
    assert first[1] == again[1]
    assert len({first[1], other[1], wider[1]}) == 3
    assert again[0].data.shape == (8, 4)
