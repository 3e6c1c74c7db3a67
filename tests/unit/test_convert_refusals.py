"""Conversion: checkpoints and voices that are refused, each with the name of what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
from edgettsd_tools.convert import Options, convert

from edgettsd.errors import ModelInvalidError

pytestmark = pytest.mark.usefixtures("remembered_tokenizers")


@pytest.mark.parametrize(
    "row, message",
    [
        (np.zeros(63, np.float32), r"has shape \[63\].*floats of shape \[64\]"),
        (np.zeros((1, 64), np.float32), r"has shape \[1, 64\]"),
        (np.zeros(64, np.int32), "type int32"),
        (np.full(64, np.nan, np.float32), "NaN or infinity"),
        (np.array([{}] * 64), "not a .npy file"),
    ],
)
def test_wrong_voice_files_are_named(row: np.ndarray[Any, Any], message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", row)
    with pytest.raises(ModelInvalidError, match=message) as caught:
        convert(
            model_files.checkpoint(task="base"),
            tmp_path / "out",
            Options(voices={"x": tmp_path / "x.npy"}),
        )
    assert "--voice-embedding x=" in str(caught.value)


MODEL, SPEECH = "model.safetensors", "speech_tokenizer/model.safetensors"
NORM = "talker.model.layers.1.post_attention_layernorm.weight"
ALPHA = "decoder.decoder.2.block.0.alpha"
UNUSED = "decoder.quantizer.rvq_rest.input_proj.weight"


def _put(name: str, index: int, value: float) -> Callable[[model_files.Tensors], None]:
    return lambda tensors: np.put(tensors[name], index, value)


@pytest.mark.parametrize(
    "file, change, message",
    [
        (MODEL, lambda t: t.pop(NORM), rf"tensor {NORM} \[64\] is missing"),
        (
            MODEL, lambda t: t.update({NORM: np.ones(63)}),
            rf"tensor {NORM} has shape \[63\], \[64\] is needed",
        ),
        (MODEL, lambda t: t.update(spare=np.ones((2, 3))), r"tensor spare \[2, 3\] does not belong there"),
        (
            MODEL,
            lambda t: t.update({"speaker_encoder.fc.bias": np.ones(3)}),
            "tensor speaker_encoder.fc.bias .* does not belong there",
        ),
        (MODEL, _put(NORM, 7, np.nan), rf"tensor {NORM} has nan at \[7\]"),
        (
            MODEL,
            _put("talker.model.text_embedding.weight", 32 * 150000 + 3, np.inf),
            r"tensor talker.model.text_embedding.weight has inf at \[150000, 3\]",
        ),
        (SPEECH, lambda t: t.pop(ALPHA), rf"tensor {ALPHA} \[32\] is missing"),
        (SPEECH, lambda t: t.update({ALPHA: np.ones(31)}), rf"tensor {ALPHA} has shape \[31\]"),
        (
            SPEECH, lambda t: t.update({"decoder.spare": np.ones(3)}),
            "tensor decoder.spare .* does not belong",
        ),
        (SPEECH, _put(ALPHA, 1, -np.inf), rf"tensor {ALPHA} has -inf at \[1\]"),
        (SPEECH, _put(UNUSED, 0, np.nan), rf"tensor {UNUSED} has nan at \[0, 0, 0\]"),
    ],
)  # fmt: skip
def test_wrong_tensors_are_named(
    file: str, change: Callable[[model_files.Tensors], None], message: str, tmp_path: Path
) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")
    model_files.edit_safetensors(source / file, change)
    with pytest.raises(ModelInvalidError, match=message) as caught:
        convert(source, tmp_path / "out", Options())
    assert str(source / file) in str(caught.value)
    assert os.listdir(tmp_path) == ["in"]


def test_a_wrong_dtype_is_named(tmp_path: Path) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")
    data = (source / MODEL).read_bytes()
    name = b'"talker.model.norm.weight":{"dtype":"F32"'
    model_files.replace(source / MODEL, data.replace(name, name.replace(b"F32", b"I32"), 1))
    with pytest.raises(ModelInvalidError, match=r"talker\.model\.norm\.weight has dtype I32, allowed"):
        convert(source, tmp_path / "out", Options())


def _talker(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value["talker_config"].update(changes)


@pytest.mark.parametrize(
    "file, change, message",
    [
        ("config.json", lambda v: v.update(model_type="bert"), "model_type is 'bert'; allowed are qwen3_tts"),
        (
            "config.json", lambda v: v.update(tts_model_type="sing"),
            "tts_model_type is 'sing'; allowed are custom",
        ),
        (
            "config.json", lambda v: v.update(tts_model_size="9b"),
            "tts_model_size is '9b'; allowed are 0b6, 1b7",
        ),
        ("config.json", lambda v: v.update(tokenizer_type="qwen3_tts_tokenizer_25hz"), "tokenizer_type is"),
        ("config.json", lambda v: v.pop("talker_config"), "talker_config is missing"),
        ("config.json", lambda v: v.update(talker_config=3), "talker_config is 3; a table is needed"),
        ("config.json", _talker(hidden_size="64"), "talker_config.hidden_size is '64'; a whole number"),
        ("config.json", _talker(num_key_value_heads=3), "num_key_value_heads is 3; a divisor of 4"),
        (
            "config.json", _talker(num_code_groups=8),
            "code_predictor_config.num_code_groups is 16; the talker has 8",
        ),
        ("config.json", _talker(hidden_act="gelu"), "talker_config.hidden_act is 'gelu'; allowed are silu"),
        ("config.json", _talker(attention_bias=True), "attention_bias is True; only false"),
        ("config.json", _talker(rope_scaling={"type": "yarn"}), "rope_scaling is .*only rope_type default"),
        (
            "config.json", _talker(codec_eos_token_id=3072),
            "codec_tokens.eos is 3072; a whole number from 0 to 3071",
        ),
        (
            "config.json", _talker(spk_is_dialect={"eric": "none"}),
            "spk_is_dialect.eric is 'none'; allowed are false",
        ),
        ("config.json", lambda v: v.update(tts_eos_token_id=99999999), "tts_eos_token_id is 99999999"),
        (
            "config.json", lambda v: v.update(tts_eos_token_id=151680),
            "tts_eos_token_id is 151680, which is no added",
        ),
        ("generation_config.json", lambda v: v.update(top_p=2), "sampling.talker.top_p is 2; a number"),
        (
            "speech_tokenizer/config.json", lambda v: v.update(decode_upsample_rate=1),
            "makes 1920 samples a frame",
        ),
        (
            "speech_tokenizer/config.json", lambda v: v["decoder_config"].update(num_quantizers=8),
            "the talker has 16",
        ),
        ("tokenizer_config.json", lambda v: v.update(tokenizer_class="T5"), "tokenizer_class is 'T5'"),
        ("vocab.json", lambda v: v.pop("Ġthe"), "vocab.json: ids are not 0 to 151641"),
    ],
)  # fmt: skip
def test_wrong_configurations_are_named(
    file: str, change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")
    model_files.edit_json(source / file, change)
    with pytest.raises(ModelInvalidError, match=message):
        convert(source, tmp_path / "out", Options())
    assert os.listdir(tmp_path) == ["in"]


NEEDED = [file for file in model_files.CHECKPOINT_FILES if file != "generation_config.json"]


@pytest.mark.parametrize("file", NEEDED)
def test_a_missing_file_is_named(file: str, tmp_path: Path) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")
    (source / file).unlink()
    with pytest.raises(ModelInvalidError, match=file.rsplit("/", 1)[-1]):
        convert(source, tmp_path / "out", Options())
    assert os.listdir(tmp_path) == ["in"]
