"""What build_decoder refuses, and what the message names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import decoder_reference as reference
import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts.decoder import build_decoder, parse_config

TENSORS = reference.random_tensors(reference.SMALL, 1)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"precision": "bf16"}, ["precision", "bf16", "f32", "f16", "int8"]),
        ({"conv": "winograd"}, ["conv", "winograd", "direct", "toom"]),
        ({"conv": "toom", "precision": "f16"}, ["conv", "toom", "direct", "f16"]),
        ({"chunks": ()}, ["chunks"]),
        ({"chunks": (4, 1)}, ["chunks", "(4, 1)", "increasing"]),
        ({"chunks": (0, 4)}, ["chunks", "(0, 4)", "1 to"]),
        ({"chunks": (1, 4000)}, ["chunks", "4000", "1 to"]),
        ({"chunks": (1, 2.5)}, ["chunks", "2.5"]),
    ],
)
def test_bad_arguments(options: dict[str, Any], named: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{named[0]} is ") as caught:
        build_decoder(reference.SMALL, TENSORS.__getitem__, tmp_path / "d.tflite", **options)
    assert all(word in str(caught.value) for word in named)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 0),
        ("hidden_size", "512"),
        ("num_hidden_layers", True),
        ("num_key_value_heads", 3),
        ("head_dim", 7),
        ("codebook_dim", 15),
        ("sliding_window", 1),
        ("num_quantizers", 1),
        ("decoder_dim", 40),
        ("upsample_rates", []),
        ("upsample_rates", [8, -5]),
        ("upsampling_ratios", 2),
        ("hidden_act", "gelu"),
        ("rope_scaling", {"rope_type": "yarn"}),
        ("rope_theta", 0),
        ("rms_norm_eps", None),
        ("attention_bias", "no"),
    ],
)
def test_bad_config(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"decoder_config.{key} is") as caught:
        parse_config(reference.SMALL | {key: value})
    message = str(caught.value)
    assert repr(value) in message or str(value) in message
    assert any(word in message for word in ("needed", "only"))


def test_head_count_that_does_not_divide() -> None:
    with pytest.raises(ValueError, match="num_attention_heads is 5"):
        parse_config(
            {**reference.SMALL, "head_dim": None, "num_attention_heads": 5, "num_key_value_heads": 5}
        )


def test_missing_keys_take_the_official_defaults() -> None:
    got = parse_config({"codebook_dim": 512, "head_dim": 64})
    assert (got.samples_per_frame, got.window, got.layers, got.decoder_dim) == (1920, 72, 8, 1536)


@pytest.mark.parametrize("name", reference.shapes(reference.SMALL))
def test_every_tensor_is_read_and_checked(name: str, tmp_path: Path) -> None:
    wrong = TENSORS | {name: np.concatenate([TENSORS[name], TENSORS[name]])}
    with pytest.raises(ValueError, match=f"tensor {re.escape(name)} has shape") as caught:
        build_decoder(reference.SMALL, wrong.__getitem__, tmp_path / "d.tflite", chunks=(1,))
    assert str(list(TENSORS[name].shape)) in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_must_be_finite(bad: float, tmp_path: Path) -> None:
    name = "decoder.0.conv.weight"
    value = TENSORS[name].copy()
    value[0, 0, 0] = bad
    with pytest.raises(ValueError, match=f"{name}.*finite"):
        build_decoder(
            reference.SMALL, (TENSORS | {name: value}).__getitem__, tmp_path / "d.tflite", chunks=(1,)
        )


def test_f16_refuses_what_does_not_fit(tmp_path: Path) -> None:
    name = "decoder.0.conv.weight"
    value = TENSORS[name] * 1e7
    with pytest.raises(ValueError, match=r"decoder\.0\.weight.*f16"):
        build_decoder(
            reference.SMALL, (TENSORS | {name: value}).__getitem__, tmp_path / "d.tflite", precision="f16"
        )


def test_a_tensor_that_cannot_be_read_passes_through(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="gamma"):
        build_decoder(
            reference.SMALL,
            {n: v for n, v in TENSORS.items() if n != "upsample.1.1.gamma"}.__getitem__,
            tmp_path / "d.tflite",
        )


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    taken = tmp_path / "d.tflite"
    taken.mkdir()
    with pytest.raises(OSError, match=r"d\.tflite"):
        build_decoder(reference.SMALL, TENSORS.__getitem__, taken, chunks=(1,))
    assert list(tmp_path.iterdir()) == [taken]
