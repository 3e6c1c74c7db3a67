"""Random checkpoints: the official layout, the same bytes every time, sane activations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import model_files
import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts import layout, make_checkpoint, sizes, vocab, weights

from edgettsd.models.safetensors import SafetensorsFile


def test_vocabulary_is_the_bytes_and_then_the_merges() -> None:
    table = vocab.vocabulary()
    assert len(vocab.merges()) == 151387
    assert sorted(table.values()) == list(range(151643))
    assert list(table)[:3] == ["!", '"', "#"]
    assert {"Ġthe": 279, "Hello": 9707, "Ċ": 198}.items() <= table.items()


def test_special_tokens_have_the_official_ids() -> None:
    added = vocab.tokenizer_config()["added_tokens_decoder"]
    wanted = {
        "151643": "<|endoftext|>",
        "151644": "<|im_start|>",
        "151645": "<|im_end|>",
        "151671": "<tts_pad>",
        "151672": "<tts_text_bos>",
        "151673": "<tts_text_eod>",
    }
    assert {key: added[key]["content"] for key in wanted} == wanted
    assert all(added[key]["special"] for key in wanted)


@pytest.mark.parametrize("task", sizes.TASKS)
@pytest.mark.parametrize("size", ["tiny", "tiny17"])
def test_files_hold_the_tensors_of_the_configuration(size: str, task: str) -> None:
    folder = model_files.checkpoint(size, task)
    config = json.loads((folder / "config.json").read_text())
    speech = json.loads((folder / "speech_tokenizer" / "config.json").read_text())
    for file, shapes in (
        (folder / "model.safetensors", layout.model_shapes(config)),
        (folder / "speech_tokenizer" / "model.safetensors", layout.speech_tokenizer_shapes(speech)),
    ):
        with SafetensorsFile(file) as tensors:
            assert {name: info.shape for name, info in tensors.tensors.items()} == shapes
            assert {info.dtype for info in tensors.tensors.values()} == {"F32"}
            assert all(np.isfinite(tensors[name]).all() for name in tensors)
    names = layout.model_shapes(config)
    assert any(name.startswith("speaker_encoder.") for name in names) == (task == "base")
    assert any("small_to_mtp_projection" in name for name in names) == (size == "tiny17")


@pytest.mark.parametrize("size, parameters", [("0.6b", (905.7e6, 170.5e6)), ("1.7b", (1917e6, 170.5e6))])
def test_number_of_parameters_of_the_true_sizes(size: str, parameters: tuple[float, float]) -> None:
    config, speech = sizes.model_config(size, "custom_voice"), sizes.speech_tokenizer_config(size)
    for shapes, expected in zip(
        (layout.model_shapes(config), layout.speech_tokenizer_shapes(speech)), parameters, strict=True
    ):
        assert sum(int(np.prod(shape)) for shape in shapes.values()) == pytest.approx(expected, rel=1e-3)


def test_rope_sections_fill_half_a_head() -> None:
    for size in sizes.SIZES:
        talker = sizes.model_config(size, "base")["talker_config"]
        assert sum(talker["rope_scaling"]["mrope_section"]) == talker["head_dim"] // 2


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path: Path) -> None:
    one = model_files.checkpoint()
    make_checkpoint.make_checkpoint(tmp_path / "again", "tiny", "custom_voice", 1)
    make_checkpoint.make_checkpoint(tmp_path / "other", "tiny", "custom_voice", 2)
    for file in sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file()):
        assert (tmp_path / "again" / file).read_bytes() == (one / file).read_bytes(), file
    different = (tmp_path / "other" / "model.safetensors").read_bytes()
    assert different != (one / "model.safetensors").read_bytes()


def test_values_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    config, speech = sizes.model_config("tiny", "base"), sizes.speech_tokenizer_config("tiny")
    shapes = layout.model_shapes(config) | layout.speech_tokenizer_shapes(speech)
    source = weights.Weights(1, config, speech)
    chosen = [name for name in shapes if "embedding" not in name or "vq.layers.0" in name or "codec" in name]
    whole = {name: np.concatenate(list(source.blocks(name, shapes[name]))) for name in chosen}
    monkeypatch.setattr(weights, "BLOCK", 100)
    for name, expected in whole.items():
        parts = np.concatenate(list(source.blocks(name, shapes[name])))
        assert np.array_equal(parts, expected), name


PINNED = [0.8534168601036072, 1.0310752391815186, 0.9123561382293701, 0.8590911626815796]


def test_pinned_values() -> None:
    # Stored reference results rest on these: another numpy or machine must give the same.
    config, speech = sizes.model_config("tiny", "custom_voice"), sizes.speech_tokenizer_config("tiny")
    source = weights.Weights(1, config, speech)
    row = next(source.blocks("talker.model.layers.0.input_layernorm.weight", (64,)))[:4]
    with SafetensorsFile(model_files.checkpoint() / "model.safetensors") as tensors:
        stored = tensors["talker.model.layers.0.input_layernorm.weight"][:4].tolist()
    assert stored == row.tolist() == PINNED


def test_deviates_are_standard_normal_in_mean_and_spread() -> None:
    source = weights.Weights(5, sizes.model_config("tiny", "base"), sizes.speech_tokenizer_config("tiny"))
    values = source._deviates("x")(400_000)
    assert abs(float(values.mean())) < 0.01
    assert abs(float(values.std()) - 1.0) < 0.01
    assert abs(float((values > 1).mean()) - 0.159) < 0.01


def test_only_the_end_row_reads_the_constant_channel() -> None:
    with SafetensorsFile(model_files.checkpoint() / "model.safetensors") as tensors:
        head = tensors["talker.codec_head.weight"]
        assert np.flatnonzero(head[:, 0]).tolist() == [2150]
        assert np.count_nonzero(head[2150]) == 1
        assert (tensors["talker.model.codec_embedding.weight"][:, 0] == 1).all()
        for index in range(2):
            for part in ("self_attn.o_proj", "mlp.down_proj"):
                assert not tensors[f"talker.model.layers.{index}.{part}.weight"][0].any()


def test_codebook_usage_is_positive_and_pcm_weights_have_no_offset() -> None:
    with SafetensorsFile(model_files.checkpoint() / "speech_tokenizer" / "model.safetensors") as tensors:
        usages = [name for name in tensors if name.endswith("cluster_usage")]
        assert len(usages) == 16 + 32
        assert all((tensors[name] >= 0.5).all() for name in usages)
        assert np.abs(tensors["decoder.decoder.6.conv.weight"].sum(axis=-1)).max() < 1e-6


def test_true_sizes_are_bfloat16_with_a_float32_speech_tokenizer() -> None:
    from edgettsd_tools.safetensors_writer import to_bfloat16

    values = np.array([1.0, 1.00390625, 1.01171875, -2.5, 0.0], np.float32)
    # Ties go to the even neighbour: 1 + 2^-8 down to 1, 1 + 3 * 2^-8 up.
    rounded = (to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    assert rounded.tolist() == [1.0, 1.0, 1.015625, -2.5, 0.0]


def test_nothing_is_left_of_a_failed_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(make_checkpoint.vocab, "write_tokenizer", fail)
    with pytest.raises(SystemExit, match="1"):
        make_checkpoint.main(["--size", "tiny", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["--size", "huge", "out"], 2, "invalid choice: 'huge'"),
        (["--size", "tiny", "--task", "sing", "out"], 2, "invalid choice: 'sing'"),
        (["--size", "tiny", "--seed", "-1", "out"], 2, "--seed -1: must not be negative"),
        (["--size", "tiny", "."], 2, "exists"),
        (["out"], 2, "--size"),
    ],
)
def test_wrong_usage_is_named(
    arguments: list[str],
    status: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        make_checkpoint.main(arguments)
    assert caught.value.code == status
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_launcher_finds_its_package_from_anywhere(tmp_path: Path) -> None:
    tool = Path(__file__).parents[2] / "tools" / "make_checkpoint"
    code = "import sys; sys.exit(__import__('subprocess').call([sys.argv[1], '--help']))"
    done = subprocess.run([sys.executable, "-c", code, tool], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--task" in done.stdout
