"""Conversion: what a bundle holds."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
from edgettsd_tools import boards, kquants
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.families.qwen3_tts import parity_parts
from edgettsd_tools.families.qwen3_tts.embeddings import project
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader
from gguf.quants import dequantize, quantize

from edgettsd.errors import ModelInvalidError
from edgettsd.models.gguf import read_gguf_header
from edgettsd.models.manifest import DECODER_PRECISIONS, LM_PRECISIONS
from edgettsd.models.safetensors import SafetensorsFile
from edgettsd.models.store import open_bundle

pytestmark = pytest.mark.usefixtures("remembered_tokenizers")

DOWN = "blk.0.ffn_down.weight"


def _tensor(path: Path, name: str) -> np.ndarray[Any, Any]:
    """A GGUF tensor as float32."""
    found = next(tensor for tensor in GGUFReader(path).tensors if tensor.name == name)
    return dequantize(found.data, found.tensor_type)


def test_a_bundle_is_complete_and_opens() -> None:
    bundle = open_bundle(model_files.bundle(), "full")
    assert sorted(path.name for path in bundle.path.iterdir()) == sorted([*bundle.files, "manifest.json"])
    manifest = bundle.manifest
    assert (manifest.task, manifest.size, manifest.code_groups) == ("custom_voice", "tiny", 16)
    assert manifest.sample_rate == 24000 and manifest.samples_per_frame == 1920
    assert manifest.voices["eric"].dialect == "sichuan_dialect" and manifest.voices["ryan"].dialect is None
    assert manifest.voices["ryan"].codec_id == 3061 and manifest.languages["english"] == 2050
    assert manifest.tokens["tts_pad"] == 151671 and manifest.codec_tokens["eos"] == 2150
    assert manifest.suppress == ((2048, 3072),) and manifest.max_frames == 8192
    assert manifest.talker_sampling.repetition_penalty == 1.05 and manifest.min_new_tokens == 2
    assert manifest.license == "apache-2.0"
    assert manifest.decoder.chunks == (1, 4, 8)
    assert (manifest.schedule_kind, manifest.schedule_chunks) == ("adaptive", (1, 4, 8))


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    first = model_files.bundle()
    again = tmp_path / "again"
    convert(model_files.checkpoint(), again, Options("q8_0", "q8_0", name=first.name))
    for file in sorted(first.iterdir()):
        assert (again / file.name).read_bytes() == file.read_bytes(), file.name


def test_shards_give_the_same_bytes_as_one_file(tmp_path: Path) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "sharded")
    model = source / "model.safetensors"
    with SafetensorsFile(model) as tensors:
        names = list(tensors)
    half = set(names[::2])
    places = {}
    for number, wanted in ((1, half), (2, set(names) - half)):
        shard = source / f"model-0000{number}-of-00002.safetensors"
        shutil.copy(model, shard)
        model_files.edit_safetensors(
            shard, lambda t, keep=wanted: [t.pop(name) for name in list(t) if name not in keep]
        )
        places |= dict.fromkeys(wanted, shard.name)
    model.unlink()
    index = source / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    first = model_files.bundle()
    convert(source, tmp_path / "out", Options("q8_0", "q8_0", name=first.name))
    for name in open_bundle(first).files:
        assert (tmp_path / "out" / name).read_bytes() == (first / name).read_bytes(), name

    model_files.edit_json(index, lambda value: value["weight_map"].popitem())
    with pytest.raises(ModelInvalidError, match=r"is not in model\.safetensors\.index\.json"):
        convert(source, tmp_path / "no", Options())
    model_files.edit_json(index, lambda value: value["weight_map"].update(x="../../etc/passwd"))
    with pytest.raises(ModelInvalidError, match=r"weight_map names '\.\./\.\./etc/passwd'"):
        convert(source, tmp_path / "no", Options())


def test_text_rows_are_the_text_projection(tmp_path: Path) -> None:
    with SafetensorsFile(model_files.checkpoint() / "model.safetensors") as source:
        take = [0, 1, 4095, 4096, 100000, 151671, 151935]
        fc = [source[f"talker.text_projection.linear_fc{i}.{p}"].astype(np.float64)
              for i in (1, 2) for p in ("weight", "bias")]  # fmt: skip
        x = source["talker.model.text_embedding.weight"][take].astype(np.float64)
        inner = x @ fc[0].T + fc[1]
        expected = (inner / (1 + np.exp(-inner))) @ fc[2].T + fc[3]
        codec = np.array(source["talker.code_predictor.model.codec_embedding.14.weight"])
    for precision, tolerance in (("f32", 2e-6), ("q8_0", 2e-3)):
        with open_bundle(model_files.bundle(precision=precision)).open_embeddings() as tables:
            assert tables.tensors["text"].dtype == ("F32" if precision == "f32" else "F16")
            assert np.abs(tables["text"][take] - expected).max() < tolerance
            assert np.abs(tables["codec.15"] - codec).max() < tolerance


def test_very_negative_projections_do_not_overflow() -> None:
    one = np.ones((1, 1), np.float32)
    with np.errstate(all="raise", over="ignore"):
        assert project(np.float32(-1e4) * one, one, np.zeros(1, np.float32), one, one[0])[0, 0] == 1


@pytest.mark.parametrize("size", ["tiny", "tiny17"])
def test_f32_tensors_are_the_checkpoints_own(size: str) -> None:
    folder = model_files.bundle(size, precision="f32")
    pairs = {
        ("talker.gguf", "output.weight"): "talker.codec_head.weight",
        ("talker.gguf", "blk.1.attn_k_norm.weight"): "talker.model.layers.1.self_attn.k_norm.weight",
        ("predictor.gguf", "head.15.weight"): "talker.code_predictor.lm_head.14.weight",
        ("predictor.gguf", DOWN): "talker.code_predictor.model.layers.0.mlp.down_proj.weight",
    }
    if size == "tiny17":
        prefix = "talker.code_predictor.small_to_mtp_projection."
        pairs["predictor.gguf", "input_proj.weight"] = prefix + "weight"
        pairs["predictor.gguf", "input_proj.bias"] = prefix + "bias"
    with SafetensorsFile(model_files.checkpoint(size) / "model.safetensors") as source:
        for (file, ours), theirs in pairs.items():
            assert np.array_equal(_tensor(folder / file, ours), source[theirs]), ours


@pytest.mark.parametrize(
    "precision, matrix, down, head, error",
    [
        ("f16", "f16", "f32", "f16", 1e-3),
        ("q8_0", "q8_0", "q8_0", "q8_0", 8e-3),
        ("q4_0", "q4_0", "q4_0", "q8_0", 0.12),
    ],
)
def test_precisions(precision: str, matrix: str, down: str, head: str, error: float, tmp_path: Path) -> None:
    convert(model_files.checkpoint(), tmp_path / "out", Options(precision, precision))
    header = read_gguf_header(tmp_path / "out" / "talker.gguf")
    types = {name: tensor.type for name, tensor in header.tensors.items()}
    assert types["blk.0.attn_q.weight"] == matrix and types["output.weight"] == head
    # Activations of ffn_down leave float16's range in real checkpoints, so f16 must not be used there.
    assert types[DOWN] == down
    assert {types[name] for name in types if "norm" in name} == {"f32"}
    with SafetensorsFile(model_files.checkpoint() / "model.safetensors") as source:
        exact = source["talker.model.layers.0.self_attn.q_proj.weight"]
        found = _tensor(tmp_path / "out" / "talker.gguf", "blk.0.attn_q.weight")
        assert 0 < np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)) < error


def test_q4_k_by_ggml_is_what_gguf_reads() -> None:
    values = np.random.default_rng(2).standard_normal((6, 512)).astype(np.float32)
    errors = {}
    for kind, data in (
        (Kind.Q4_K, kquants.quantize(values, Kind.Q4_K)),
        (Kind.Q4_0, quantize(values, Kind.Q4_0)),
    ):
        assert data.dtype == np.uint8 and data.shape == (6, 288)
        errors[kind] = np.sqrt(np.mean((dequantize(data, kind) - values) ** 2))
    assert errors[Kind.Q4_K] < 0.9 * errors[Kind.Q4_0] < 0.12
    with pytest.raises(ValueError, match="rows of 128 values: Q4_K needs a multiple of 256"):
        kquants.quantize(values[:, :128], Kind.Q4_K)


def test_every_precision_has_its_floors() -> None:
    assert set(parity_parts.HIDDEN_LIMIT) == set(parity_parts.TOP1_FLOOR) == set(LM_PRECISIONS)
    assert set(parity_parts.DECODER_DB) == set(DECODER_PRECISIONS)
    assert set(boards.BYTES) == set(LM_PRECISIONS)


def test_rows_too_short_for_q4_k_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalidError, match="has rows of 64, q4_K needs a multiple of 256"):
        convert(model_files.checkpoint(), tmp_path / "out", Options("q4_0", "q4_K"))


def test_values_beyond_f16_are_refused_at_f16(tmp_path: Path) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")
    name = "talker.model.layers.1.self_attn.q_proj.weight"
    model_files.edit_safetensors(source / "model.safetensors", lambda t: np.put(t[name], 5, 7e4))
    with pytest.raises(ModelInvalidError, match=f"tensor {name} has values of 70000, too large for f16"):
        convert(source, tmp_path / "out", Options("f16"))
    convert(source, tmp_path / "out", Options("f32"))


@pytest.mark.parametrize(
    "task, model_size, expected",
    [
        ("custom_voice", "0b6", False),
        ("custom_voice", "1b7", True),
        ("voice_design", "0b6", True),
        ("base", "1b7", False),
    ],
)
def test_instructions_are_supported_where_the_official_code_takes_them(
    task: str, model_size: str, expected: bool, tmp_path: Path
) -> None:
    source = model_files.copy(model_files.checkpoint(task=task), tmp_path / "in")
    model_files.edit_json(source / "config.json", lambda value: value.update(tts_model_size=model_size))
    convert(source, tmp_path / "out", Options())
    manifest = open_bundle(tmp_path / "out").manifest
    assert manifest.supports_instruct is expected
    assert manifest.size == {"0b6": "0.6b", "1b7": "1.7b"}[model_size]
    assert bool(manifest.voices) == (task == "custom_voice")


def test_everything_comes_from_the_configuration(tmp_path: Path) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")

    def change(value: dict[str, Any]) -> None:
        talker = value["talker_config"]
        talker |= {"spk_id": {"Zoe": 2900}, "spk_is_dialect": {"Zoe": "klingon_dialect"}}
        talker["codec_pad_id"] = 2147
        talker["codec_language_id"] = {"klingon": 2051, "klingon_dialect": 2052}
        value["tts_pad_token_id"] = 151670

    model_files.edit_json(source / "config.json", change)
    model_files.edit_json(
        source / "generation_config.json", lambda value: value.update(temperature=0.5, max_new_tokens=77)
    )
    model_files.replace(
        source / "README.md", b'---\nlicense: "apache-2.0"\ntags:\n- tts\n---\nlicense: none\n'
    )
    convert(source, tmp_path / "out", Options(name="Zoe"))
    manifest = open_bundle(tmp_path / "out").manifest
    assert dict(manifest.languages) == {"klingon": 2051, "klingon_dialect": 2052}
    assert list(manifest.voices) == ["zoe"] and manifest.voices["zoe"].dialect == "klingon_dialect"
    assert manifest.codec_tokens["pad"] == 2147 and manifest.tokens["tts_pad"] == 151670
    assert manifest.talker_sampling.temperature == 0.5 and manifest.max_frames == 77
    assert manifest.predictor_sampling.temperature == 0.9
    assert manifest.name == "Zoe" and manifest.license == "apache-2.0"


def test_voices_of_a_base_checkpoint(tmp_path: Path) -> None:
    row = np.linspace(-1, 1, 64, dtype=np.float32)
    np.save(tmp_path / "anna.npy", row)
    voices = {"anna": tmp_path / "anna.npy"}
    convert(model_files.checkpoint(task="base"), tmp_path / "out", Options("f32", voices=voices))
    bundle = open_bundle(tmp_path / "out")
    assert bundle.manifest.voices["anna"].row == "speaker.anna"
    with bundle.open_embeddings() as tables:
        assert np.array_equal(tables["speaker.anna"], row)
    with pytest.raises(ModelInvalidError, match="needs a base checkpoint, this one is custom_voice"):
        convert(model_files.checkpoint(), tmp_path / "no", Options(voices=voices))


def test_digests_in_the_manifest_are_those_of_the_files() -> None:
    folder = model_files.bundle()
    files = json.loads((folder / "manifest.json").read_text())["files"]
    for name, entry in files.items():
        data = (folder / name).read_bytes()
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
