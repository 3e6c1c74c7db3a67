"""Conversion: checkpoints as people's tools leave them give the bundle of the published layout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import pytest
from edgettsd_tools import convert as tool
from edgettsd_tools.convert import Options, convert

from edgettsd.errors import ModelInvalidError

pytestmark = pytest.mark.usefixtures("remembered_tokenizers")

OPTIONS = {"talker": "q8_0", "predictor": "q8_0"}
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _copy(folder: Path) -> Path:
    return model_files.copy(model_files.checkpoint(), folder / "in")


def _assert_the_plain_bundle(source: Path, out: Path, **options: Any) -> None:
    """Convert `source`: every file is that of the published layout, but for the manifest's source."""
    plain = model_files.bundle()
    convert(source, out, Options(**OPTIONS, name=plain.name, **options))
    assert sorted(os.listdir(out)) == sorted(os.listdir(plain))
    for file in plain.iterdir():
        if file.name != "manifest.json":
            assert (out / file.name).read_bytes() == file.read_bytes(), file.name
    manifests = [json.loads((folder / "manifest.json").read_text()) for folder in (out, plain)]
    for manifest in manifests:
        del manifest["source"]
    # As texts: the order of voices and languages counts.
    assert json.dumps(manifests[0], indent=1) == json.dumps(manifests[1], indent=1)


def _rope_parameters(table: dict[str, Any], keep: bool) -> None:
    """transformers 5 writes one table; code that names rope_theta itself keeps that beside it."""
    parameters = (table.pop("rope_scaling", None) or {"rope_type": "default"}) | {
        "rope_theta": table["rope_theta"]
    }
    table |= {"rope_parameters": parameters, "dtype": None, "return_dict": True, "tie_word_embeddings": False}
    if not keep:
        del table["rope_theta"]


def _sort(value: dict[str, Any]) -> None:
    """As save_pretrained writes it; the order of voices must not follow, for the first one is the default."""
    ordered = json.loads(json.dumps(value, sort_keys=True))
    value.clear()
    value.update(ordered)


@pytest.mark.parametrize("keep", [True, False])
def test_configurations_saved_by_transformers_5(keep: bool, tmp_path: Path) -> None:
    source = _copy(tmp_path)

    def change(value: dict[str, Any]) -> None:
        talker = value["talker_config"]
        _rope_parameters(talker, keep)
        _rope_parameters(talker["code_predictor_config"], keep)
        value |= {"dtype": "bfloat16", "transformers_version": "5.24.0"}
        _sort(value)

    model_files.edit_json(source / "config.json", change)
    model_files.edit_json(
        source / "speech_tokenizer" / "config.json",
        lambda value: _rope_parameters(value["decoder_config"], keep),
    )
    _assert_the_plain_bundle(source, tmp_path / "out")


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"rope_theta": 5}, "rope_parameters.rope_theta is 5; rope_theta beside it is 1000000"),
        ({"rope_type": "yarn", "factor": 4.0}, "rope_parameters is .*only rope_type default is supported"),
        ({"rope_theta": "10"}, "rope_parameters.rope_theta is '10'; a number from 1 to 1e"),
        ({"full_attention": {"rope_theta": 1e6}}, "full_attention is .*one table for all layers"),
        ("default", "rope_parameters is 'default'; a table is needed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("part", ["talker_config", "code_predictor_config", "decoder_config"])
def test_wrong_rope_parameters_are_named(part: str, parameters: Any, message: str, tmp_path: Path) -> None:
    source = _copy(tmp_path)
    file = source / ("speech_tokenizer/config.json" if part == "decoder_config" else "config.json")
    if part == "decoder_config":
        message = message.replace("1000000", "10000")

    def change(value: dict[str, Any]) -> None:
        table = value if part in value else value["talker_config"]
        table[part]["rope_parameters"] = parameters

    model_files.edit_json(file, change)
    with pytest.raises(ModelInvalidError, match=rf"{part}\..*{message}") as caught:
        convert(source, tmp_path / "out", Options())
    assert str(file) in str(caught.value)


def test_without_a_generation_config_the_published_sampling_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _copy(tmp_path)
    (source / "generation_config.json").unlink()
    _assert_the_plain_bundle(source, tmp_path / "out")
    assert capsys.readouterr().err == ""
    assert tool.main([str(source), str(tmp_path / "told")]) == 0
    said = "note: generation_config.json is missing: do_sample True, temperature 0.9, "
    assert said in capsys.readouterr().err
    (source / "generation_config.json").symlink_to("gone.json")
    with pytest.raises(ModelInvalidError, match=r"generation_config\.json is a link to nothing"):
        convert(source, tmp_path / "no", Options())


def _tokenizer_json(folder: Path, pairs: bool) -> dict[str, Any]:
    """What the tokenizers library writes for the checkpoint's vocabulary."""
    added = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [{"id": int(number), **entry} for number, entry in added.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "model": {
            "type": "BPE",
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": json.loads((folder / "vocab.json").read_text(encoding="utf-8")),
            "merges": [line.split(" ") for line in lines] if pairs else lines,
        },
    }


def _with_tokenizer_json(folder: Path, change: Callable[[dict[str, Any]], None] = lambda value: None) -> Path:
    """A copy as transformers 5 saves it: tokenizer.json alone holds the vocabulary and the added tokens."""
    source = _copy(folder)
    value = _tokenizer_json(source, pairs=True)
    change(value)
    (source / "tokenizer.json").write_text(json.dumps(value))
    (source / "vocab.json").unlink()
    (source / "merges.txt").unlink()
    model_files.edit_json(source / "tokenizer_config.json", lambda table: table.pop("added_tokens_decoder"))
    return source


def test_a_tokenizer_json_alone(tmp_path: Path) -> None:
    _assert_the_plain_bundle(_with_tokenizer_json(tmp_path), tmp_path / "out")


def test_a_tokenizer_json_of_older_tokenizers(tmp_path: Path) -> None:
    """Merges as lines, the added tokens in tokenizer_config.json as well."""
    source = _copy(tmp_path)
    (source / "tokenizer.json").write_text(json.dumps(_tokenizer_json(source, pairs=False)))
    (source / "vocab.json").unlink()
    (source / "merges.txt").unlink()
    _assert_the_plain_bundle(source, tmp_path / "out")


def _model(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value["model"].update(changes)


@pytest.mark.parametrize(
    "change, message",
    [
        (_model(type="Unigram"), "model.type is 'Unigram'; allowed are BPE"),
        (_model(byte_fallback=True), "model.byte_fallback is True; only false is supported"),
        (_model(vocab=[1]), r"model.vocab is \[1\]; a table is needed"),
        (_model(vocab={"a": "0"}), "ids are not 0 to 0"),
        (_model(merges="ab"), "model.merges is 'ab'; a list of pairs is needed"),
        (_model(merges=[["a", "b", "c"]]), "merge .*two tokens"),
        (_model(merges=[["a b", "c"]]), "merge .*two tokens"),
        (_model(merges=["a"]), "merge .*two tokens"),
        (lambda v: v["model"]["merges"].pop(), "no merge makes"),
        (lambda v: v.update(added_tokens=3), "added_tokens is 3; a list is needed"),
        (lambda v: v["added_tokens"].append({"id": "x"}), "added token id 'x'"),
        (lambda v: v["added_tokens"].append({"id": 151700}), "added token 151700 has no content"),
        (lambda v: v.update(pre_tokenizer=None), "pre_tokenizer is None; that of Qwen2 is needed"),
        (
            lambda v: v["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=" "),
            "pre_tokenizer is .*; that of Qwen2 is needed",
        ),
        (lambda v: v.pop("model"), "model is missing"),
    ],
)
def test_a_wrong_tokenizer_json_is_named(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    source = _with_tokenizer_json(tmp_path, change)
    with pytest.raises(ModelInvalidError, match=message) as caught:
        convert(source, tmp_path / "out", Options())
    assert str(source / "tokenizer.json") in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_speech_tokenizer_in_a_folder_of_its_own(tmp_path: Path) -> None:
    source, speech = _copy(tmp_path), tmp_path / "codec"
    shutil.move(source / "speech_tokenizer", speech)
    with pytest.raises(ModelInvalidError, match="--speech-tokenizer DIR"):
        convert(source, tmp_path / "out", Options(**OPTIONS))
    _assert_the_plain_bundle(source, tmp_path / "out", speech_tokenizer=speech)
    with pytest.raises(ModelInvalidError, match=r"--speech-tokenizer .*nowhere is not a folder"):
        convert(source, tmp_path / "no", Options(speech_tokenizer=tmp_path / "nowhere"))
    (speech / "model.safetensors").unlink()
    with pytest.raises(ModelInvalidError, match=f"{speech} has neither model.safetensors nor"):
        convert(source, tmp_path / "no", Options(speech_tokenizer=speech))


def test_the_command_takes_a_speech_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, speech = _copy(tmp_path), tmp_path / "codec"
    shutil.move(source / "speech_tokenizer", speech)
    arguments = [str(source), str(tmp_path / "out"), "--quiet", "--speech-tokenizer"]
    with pytest.raises(SystemExit) as caught:
        tool.main([*arguments, str(tmp_path / "nowhere")])
    assert caught.value.code == 2
    assert tool.main([*arguments, str(speech)]) == 0


def _renamed(rename: Callable[[str], str]) -> Callable[[model_files.Tensors], None]:
    def change(tensors: model_files.Tensors) -> None:
        for name in list(tensors):
            tensors[rename(name)] = tensors.pop(name)

    return change


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: "_orig_mod." + name,
        lambda name: "module." + name,
        lambda name: "module._orig_mod." + name,
        lambda name: name.replace("talker.model.", "talker._orig_mod.model.").replace("mlp.", "mlp.module."),
        lambda name: "_fsdp_wrapped_module." + name.replace(".mlp.", "._checkpoint_wrapped_module.mlp."),
    ],
)
def test_prefixes_of_compiled_and_wrapped_training(rename: Callable[[str], str], tmp_path: Path) -> None:
    source = _copy(tmp_path)
    model_files.edit_safetensors(source / "model.safetensors", _renamed(rename))
    _assert_the_plain_bundle(source, tmp_path / "out")


def test_prefixes_in_shards(tmp_path: Path) -> None:
    source = _copy(tmp_path)
    model = source / "model.safetensors"
    model_files.edit_safetensors(model, _renamed(lambda name: "module." + name))
    shard = source / "model-00001-of-00001.safetensors"
    model.rename(shard)
    with model_files.SafetensorsFile(shard) as tensors:
        places = dict.fromkeys(tensors, shard.name)
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    _assert_the_plain_bundle(source, tmp_path / "out")


NORM = "talker.model.norm.weight"


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.update({"module." + NORM: t[NORM]}), f"module.{NORM} is also there as {NORM}"),
        (lambda t: t.update({"module." + NORM: t.pop(NORM)[:-1]}), rf"module.{NORM} has shape \[63\]"),
        (lambda t: t.update({"module.spare": np.ones(3)}), "module.spare .*does not belong there"),
    ],
)
def test_wrong_tensors_with_prefixes_are_named_as_stored(
    change: Callable[[model_files.Tensors], None], message: str, tmp_path: Path
) -> None:
    source = _copy(tmp_path)
    model_files.edit_safetensors(source / "model.safetensors", change)
    with pytest.raises(ModelInvalidError, match=message):
        convert(source, tmp_path / "out", Options())


QUERY = "talker.model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: "base_model.model." + name,
        lambda name: name.replace(QUERY, QUERY + ".base_layer"),
        lambda name: name.replace(NORM, "talker.model.norm.modules_to_save.default.weight"),
        lambda name: name.replace(QUERY + ".weight", QUERY + ".lora_A.default.weight"),
    ],
)
def test_unmerged_adapters_are_refused_with_a_hint(
    rename: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _copy(tmp_path)
    model_files.edit_safetensors(source / "model.safetensors", _renamed(rename))
    with pytest.raises(SystemExit) as caught:
        tool.main([str(source), str(tmp_path / "out")])
    assert caught.value.code == 1
    errors = capsys.readouterr().err
    assert "is of an adapter (LoRA) that is not merged" in errors and "hint: merge it" in errors


def test_an_adapter_alone_is_refused_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _copy(tmp_path)
    (source / "model.safetensors").rename(source / "adapter_model.safetensors")
    (source / "adapter_config.json").write_text("{}")
    with pytest.raises(SystemExit):
        tool.main([str(source), str(tmp_path / "out")])
    errors = capsys.readouterr().err
    assert "holds an adapter (LoRA) alone" in errors and "hint: merge it" in errors


def test_quiet_is_quiet(tmp_path: Path) -> None:
    """Also where the libraries below write to the file descriptors themselves, and without notes."""
    source = _copy(tmp_path)
    (source / "generation_config.json").unlink()
    command = [Path(tool.__file__).parents[1] / "convert", source, tmp_path / "out"]
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    loud = subprocess.run([*command, "--force"], capture_output=True, text=True)
    assert loud.returncode == 0 and "note: " in loud.stderr and "INFO" not in loud.stderr
    refused = subprocess.run([*command, "--quiet"], capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.startswith("error: ")
