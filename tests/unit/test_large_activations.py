"""Activations of the feed-forward layers beyond float16's range, as official checkpoints have them."""

from __future__ import annotations

from pathlib import Path

import model_files
import numpy as np
import pytest
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.families.qwen3_tts import gguf_lm
from edgettsd_tools.families.qwen3_tts.gguf_lm import Kind
from edgettsd_tools.families.qwen3_tts.make_checkpoint import make_checkpoint

from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor

ROWS = np.random.default_rng(3).standard_normal((24, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large") / "checkpoint"
    make_checkpoint(folder, "tiny", "custom_voice", 1, large_activations=True)
    return folder


def bundle(checkpoint: Path, out: Path, precision: str) -> Path:
    convert(checkpoint, out, Options(talker=precision, predictor=precision))
    return out


def talker_says(folder: Path) -> np.ndarray:
    talker = LlamaTalker(folder / "talker.gguf", max_context=64, threads=1)
    talker.feed(ROWS)
    return np.concatenate([talker.hidden(), talker.logits()])


def predictor_says(folder: Path) -> np.ndarray:
    predictor = GgmlPredictor(folder / "predictor.gguf", threads=1)
    logits = [predictor.begin(ROWS[0], ROWS[1])]
    logits += [predictor.next(group, ROWS[1 + group]) for group in range(1, 15)]
    return np.concatenate([np.array(row) for row in logits])


@pytest.mark.parametrize("says", [talker_says, predictor_says])
def test_in_f32_nothing_changes(large: Path, tmp_path: Path, says) -> None:  # type: ignore[no-untyped-def]
    expected = says(bundle(model_files.checkpoint(), tmp_path / "plain", "f32"))
    assert np.allclose(says(bundle(large, tmp_path / "large", "f32")), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("says", [talker_says, predictor_says])
@pytest.mark.parametrize("precision, floor", [("f16", 0.9999), ("q8_0", 0.85), ("q4_0", 0.7)])
def test_every_precision_stays_right(  # type: ignore[no-untyped-def]
    large: Path, tmp_path: Path, says, precision: str, floor: float
) -> None:
    """The quantised kinds scale 32 channels together: beside the large one the others fade.

    That is a quarter of the tiny model's 128, and one in a hundred of the true 3072.
    """
    expected = says(bundle(large, tmp_path / "f32", "f32"))
    got = says(bundle(large, tmp_path / precision, precision))
    assert np.isfinite(got).all()
    assert np.corrcoef(got, expected)[0, 1] > floor


def test_with_f16_weights_there_the_talker_would_overflow(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the checkpoint does what it is for."""
    monkeypatch.setattr(
        gguf_lm, "_kind", lambda name, dimensions, precision, wide: Kind.F32 if dimensions == 1 else Kind.F16
    )
    folder = bundle(large, tmp_path / "narrow", "f16")
    with pytest.raises((RuntimeError, ValueError), match=r"finite|backend"):
        talker_says(folder)
