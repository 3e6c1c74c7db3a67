"""Conversion: what a bundle holds, what is refused, and what is left behind when it is interrupted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
from edgettsd_tools import boards, kquants, parity_parts
from edgettsd_tools import convert as tool
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.embeddings import project
from edgettsd_tools.tokenizer_gguf import write_tokenizer
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

from edgettsd.errors import ModelInvalidError
from edgettsd.models.gguf import read_gguf_header
from edgettsd.models.manifest import DECODER_PRECISIONS, LM_PRECISIONS
from edgettsd.models.safetensors import SafetensorsFile
from edgettsd.models.store import open_bundle


def _identity(file: Path) -> tuple[int, ...]:
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns


_TOKENIZERS: dict[tuple[Any, ...], bytes] = {}


@pytest.fixture(autouse=True)
def _remembered_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the tokenizer of unchanged files once: it is most of a tiny conversion's time."""

    def remember(path: Path, folder: Path, size: int, wanted: dict[str, int]) -> None:
        files = ("vocab.json", "merges.txt", "tokenizer_config.json")
        if not all((folder / file).exists() for file in files):
            write_tokenizer(path, folder, size, wanted)
            return
        key = (*(_identity(folder / file) for file in files), size, *sorted(wanted.items()))
        if key not in _TOKENIZERS:
            write_tokenizer(path, folder, size, wanted)
            _TOKENIZERS[key] = path.read_bytes()
        path.write_bytes(_TOKENIZERS[key])

    monkeypatch.setattr("edgettsd_tools.tokenizer_gguf.write_tokenizer", remember)


TOOLS = Path(tool.__file__).parent.parent
DOWN = "blk.0.ffn_down.weight"


def _tensor(path: Path, name: str) -> np.ndarray[Any, Any]:
    """A GGUF tensor as float32."""
    import gguf

    found = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)
    return gguf.dequantize(found.data, found.tensor_type)


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


@pytest.mark.parametrize(
    "file",
    [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "vocab.json",
        "merges.txt",
        "tokenizer_config.json",
        "speech_tokenizer/config.json",
        "speech_tokenizer/model.safetensors",
    ],
)
def test_a_missing_file_is_named(file: str, tmp_path: Path) -> None:
    source = model_files.copy(model_files.checkpoint(), tmp_path / "in")
    (source / file).unlink()
    with pytest.raises(ModelInvalidError, match=file.rsplit("/", 1)[-1]):
        convert(source, tmp_path / "out", Options())
    assert os.listdir(tmp_path) == ["in"]


def _start(source: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": f"{TOOLS}:{TOOLS.parent}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "edgettsd_tools.convert", str(source), str(out), "--quiet", *options]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def _wait_for_partial(folder: Path, file: str) -> Path:
    """Wait until the conversion under way has begun to write `file`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = list(folder.glob(f"out.partial-*/{file}"))
        if found:
            return found[0].parent
        time.sleep(0.001)
    raise AssertionError(f"{file} was not begun")


@pytest.mark.parametrize(
    "file", ["tokenizer.gguf", "talker.gguf", "embeddings.safetensors", "decoder.tflite"]
)
def test_a_killed_conversion_leaves_nothing_that_loads(file: str, tmp_path: Path) -> None:
    process = _start(model_files.checkpoint(), tmp_path / "out")
    partial = _wait_for_partial(tmp_path, file)
    process.kill()
    process.communicate()
    assert not (tmp_path / "out").exists()
    with pytest.raises(ModelInvalidError, match="is an unfinished conversion"):
        open_bundle(partial)
    # The next conversion clears it away.
    convert(model_files.checkpoint(), tmp_path / "out", Options())
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_conversion_cleans_up(number: signal.Signals, tmp_path: Path) -> None:
    for _ in range(10):
        process = _start(model_files.checkpoint(), tmp_path / "out", "--force")
        _wait_for_partial(tmp_path, "talker.gguf")
        process.send_signal(number)
        _, errors = process.communicate()
        if process.returncode != 0:
            break
        # It was faster than the signal.
        shutil.rmtree(tmp_path / "out")
    assert process.returncode == 130
    assert errors == "interrupted, nothing was written\n"
    assert os.listdir(tmp_path) == []


def test_a_running_conversion_is_not_cleared_away(tmp_path: Path) -> None:
    running = tmp_path / f"out.partial-{os.getppid()}"
    running.mkdir()
    convert(model_files.checkpoint(), tmp_path / "out", Options())
    assert running.is_dir()


def test_force_replaces_a_bundle_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(model_files.checkpoint(), out, Options(name="one"))
    with pytest.raises(FileExistsError, match="exists"):
        convert(model_files.checkpoint(), out, Options(name="two"))
    assert open_bundle(out).manifest.name == "one"
    convert(model_files.checkpoint(), out, Options(name="two"), force=True)
    assert open_bundle(out, "full").manifest.name == "two"
    assert os.listdir(tmp_path) == ["out"]

    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "link").symlink_to(out)
    for name in ("home", "link"):
        with pytest.raises(FileExistsError, match="is not a bundle, it will not be replaced"):
            convert(model_files.checkpoint(), tmp_path / name, Options(), force=True)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


def test_a_replacement_killed_between_its_renames_is_undone(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    old = model_files.copy(model_files.bundle(), tmp_path / f"out.partial-old-{gone.pid}")
    with pytest.raises(FileExistsError):
        convert(model_files.checkpoint(), tmp_path / "out", Options())
    assert not old.exists()
    open_bundle(tmp_path / "out", "full")


def test_digests_in_the_manifest_are_those_of_the_files() -> None:
    folder = model_files.bundle()
    files = json.loads((folder / "manifest.json").read_text())["files"]
    for name, entry in files.items():
        data = (folder / name).read_bytes()
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize(
    "arguments, status, messages",
    [
        (["no-such-folder", "out"], 1, ["error: no-such-folder is not a folder", "hint: "]),
        (["in", "in"], 2, ["in exists", "--force"]),
        (["in", "out", "--talker", "q3"], 2, ["invalid choice: 'q3'"]),
        (["in", "out", "--voice-embedding", "A=x.npy"], 2, ["'A=x.npy': NAME=FILE.npy is needed"]),
        (["in", "out", "--voice-embedding", "a"], 2, ["NAME=FILE.npy is needed"]),
        (["in", "out"] + ["--voice-embedding", "a=x.npy"] * 2, 2, ["the same NAME twice"]),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str],
    status: int,
    messages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").symlink_to(model_files.checkpoint())
    with pytest.raises(SystemExit) as caught:
        tool.main(arguments)
    assert caught.value.code == status
    errors = capsys.readouterr().err
    for message in messages:
        assert message in errors
    assert os.listdir(tmp_path) == ["in"]


def test_a_full_disk_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device", "talker.gguf")

    monkeypatch.setattr("edgettsd_tools.gguf_lm.write_talker", fail)
    with pytest.raises(SystemExit) as caught:
        tool.main([str(model_files.checkpoint()), str(tmp_path / "out"), "--quiet"])
    assert caught.value.code == 1
    assert "error: talker.gguf: No space left on device\nhint: free some space" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_the_launcher_converts_with_a_progress_bar(tmp_path: Path) -> None:
    done = subprocess.run(
        [TOOLS / "convert", model_files.checkpoint(), "out", "--talker", "f16"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "100%" in done.stderr and done.stderr.endswith("out is ready\n")
    assert open_bundle(tmp_path / "out").manifest.talker.precision == "f16"


def test_memory_stays_at_one_tensor(tmp_path: Path) -> None:
    """The peak of a conversion grows with its largest tensor, not with the checkpoint."""
    code = (
        "import resource, sys; from pathlib import Path; from edgettsd_tools.convert import Options, convert;"
        "import edgettsd_tools.gguf_lm, edgettsd_tools.decoder;"
        "start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "convert(Path(sys.argv[1]), Path(sys.argv[2]), Options());"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)"
    )
    environment = os.environ | {"PYTHONPATH": f"{TOOLS}:{TOOLS.parent}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, "-c", code, model_files.checkpoint(), tmp_path / "out"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    # 45 MB of tensors; the tokenizer's tables alone take about 90 MB of Python objects.
    assert int(done.stdout) < 250_000
