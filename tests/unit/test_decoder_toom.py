"""The Toom-Cook transforms compute the 7-tap convolution."""

from __future__ import annotations

from pathlib import Path

import decoder_reference as reference
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from edgettsd_tools.families.qwen3_tts.decoder import build_decoder
from edgettsd_tools.families.qwen3_tts.decoder.toom import OUTPUTS, POINTS, fold, matrices, padding


def test_matrices_are_exact() -> None:
    rng = np.random.default_rng(1)
    taps, frames = rng.standard_normal(7), rng.standard_normal(10)
    interpolation, filters, inputs = matrices()
    got = interpolation @ ((filters @ taps) * (inputs @ frames))
    wanted = [taps @ frames[i : i + 7] for i in range(OUTPUTS)]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_ends_share_their_factors() -> None:
    """Points 0 and infinity: the same every other frame, one frame apart, as the graph assumes."""
    inputs = matrices()[2]
    np.testing.assert_allclose(inputs[0, :-1:2], inputs[-1, 1::2], rtol=1e-12)
    np.testing.assert_allclose(inputs[0, 1::2], 0, atol=1e-12)
    np.testing.assert_allclose(inputs[-1, ::2], 0, atol=1e-12)
    assert not inputs[:-1, -1].any()


def test_bias_reaches_every_output_once() -> None:
    weight, bias = np.zeros((3, 1, 7, 2), np.float32), np.array([1.0, 2.0, 3.0], np.float32)
    interpolation = matrices()[0]
    biases = np.stack([b for _, b in fold((weight, bias))])
    np.testing.assert_array_equal(interpolation @ biases, np.tile(bias, (OUTPUTS, 1)))


def test_fold_between_channels() -> None:
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((3, 1, 7, 2)).astype(np.float32)
    frames = rng.standard_normal((10, 2))
    interpolation, _, inputs = matrices()
    evaluated = inputs @ frames
    products = [w @ v for (w, _), v in zip(fold((weight, np.zeros(3, np.float32))), evaluated, strict=True)]
    wanted = [np.einsum("oki,ki->o", weight[:, 0], frames[i : i + 7]) for i in range(OUTPUTS)]
    np.testing.assert_allclose(interpolation @ np.stack(products), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("time", "dilation", "wanted"), [(32, 1, 0), (32, 3, 4), (32, 9, 4), (1920, 9, 24)])
def test_padding_makes_whole_tiles(time: int, dilation: int, wanted: int) -> None:
    assert padding(time, dilation) == wanted
    assert (time + wanted) % (OUTPUTS * dilation) == 0


def test_it_is_the_default_of_f32_and_multiplies_less(tmp_path: Path) -> None:
    tensors = reference.random_tensors(reference.SMALL, 1)

    def products(name: str, **options: str) -> int:
        path = tmp_path / name
        build_decoder(reference.SMALL, tensors.__getitem__, path, chunks=(4,), **options)
        model = schema.ModelT.InitFromPackedBuf(bytearray(path.read_bytes()), 0)
        graph, total = model.subgraphs[0], 0
        for op in graph.operators:
            code = model.operatorCodes[op.opcodeIndex].builtinCode
            if code in (schema.BuiltinOperator.CONV_2D, schema.BuiltinOperator.FULLY_CONNECTED):
                out, weight = graph.tensors[op.outputs[0]].shape, graph.tensors[op.inputs[1]].shape
                total += int(np.prod(out)) * int(np.prod(weight[1:]))
        return total

    direct = products("direct", conv="direct")
    assert products("toom", conv="toom") < 0.7 * direct
    assert products("default") == products("toom", conv="toom")
    assert products("f16", precision="f16") == direct
    assert len(POINTS) + 1 == OUTPUTS + 7 - 1


@pytest.mark.parametrize("needed, form", [(0.0, "toom"), (1000.0, "direct")])
def test_the_default_is_toom_where_it_is_exact_enough(
    needed: float, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import edgettsd_tools.families.qwen3_tts.decoder as decoder

    monkeypatch.setattr(decoder, "EXACT_DB", needed)
    tensors = reference.random_tensors(reference.SMALL, 3)
    build_decoder(reference.SMALL, tensors.__getitem__, tmp_path / "auto", chunks=(4,))
    build_decoder(reference.SMALL, tensors.__getitem__, tmp_path / "form", chunks=(4,), conv=form)
    assert (tmp_path / "auto").read_bytes() == (tmp_path / "form").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["auto", "form"]
