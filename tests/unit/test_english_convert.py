"""A checkpoint with the English front end becomes a bundle with it."""

from __future__ import annotations

import json
from pathlib import Path

import model_files
import numpy as np
import pytest
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.frontend import FILE, FOLDER, write_frontend
from edgettsd_tools.safetensors_writer import Entry, write_safetensors
from english_files import small_files

from edgettsd.errors import ModelInvalidError
from edgettsd.models.manifest import FRAMES, bundle_files
from edgettsd.models.safetensors import SafetensorsFile
from edgettsd.models.store import open_bundle
from edgettsd.text.english.frames import SPECIAL_IDS, VOCAB

TEXT = "talker.model.text_embedding.weight"
TOKENS = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The tiny random checkpoint with the ids of the English front end."""
    folder = model_files.copy(model_files.checkpoint(), tmp_path / "checkpoint")
    with SafetensorsFile(folder / "model.safetensors") as file:
        kept = {name: np.array(file[name]) for name in file}
        types = {name: info.dtype for name, info in file.tensors.items()}
    kept[TEXT] = kept[TEXT][:VOCAB]
    values = {
        name: (array.astype(np.uint32) << 16).view(np.float32) if types[name] == "BF16" else array
        for name, array in kept.items()
    }
    (folder / "model.safetensors").unlink()
    entries = [Entry(name, types[name], array.shape) for name, array in kept.items()]
    write_safetensors(folder / "model.safetensors", entries, lambda entry: [values[entry.name]])

    def change(config: dict) -> None:
        config["talker_config"]["text_vocab_size"] = VOCAB
        for name in TOKENS:
            config[f"{name}_token_id"] = SPECIAL_IDS[name]

    model_files.edit_json(folder / "config.json", change)
    (tmp_path / "data").mkdir()
    write_frontend(folder, small_files(tmp_path / "data"), 4)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    return folder


def test_the_bundle_has_the_front_end(checkpoint: Path, tmp_path: Path) -> None:
    convert(checkpoint, tmp_path / "bundle", Options(talker="q8_0", predictor="q8_0"))
    bundle = open_bundle(tmp_path / "bundle", "full")
    assert set(bundle.files) == set(bundle_files(FRAMES))
    assert (bundle.manifest.text_frontend, bundle.manifest.lead_frames) == (FRAMES, 4)
    assert not bundle.manifest.supports_instruct
    for name in ("lexicon.bin", "letters.bin", "durations.bin"):
        assert bundle.files[name].read_bytes() == (checkpoint / FOLDER / name).read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "exactly frontend and lead_frames"),
        ('{"frontend": "en-frames"}', "exactly frontend and lead_frames"),
        ('{"frontend": "klingon", "lead_frames": 4}', "frontend is 'klingon'"),
        ('{"frontend": "en-frames", "lead_frames": 400}', r"text\.lead_frames is 400"),
    ],
)
def test_a_bad_description_is_refused(checkpoint: Path, tmp_path: Path, text: str, message: str) -> None:
    (checkpoint / FOLDER / FILE).write_text(text)
    with pytest.raises(ModelInvalidError, match=message):
        convert(checkpoint, tmp_path / "bundle", Options(talker="q8_0", predictor="q8_0"))
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize("name", ["letters.bin", FILE])
def test_a_missing_file_is_named(checkpoint: Path, tmp_path: Path, name: str) -> None:
    (checkpoint / FOLDER / name).unlink()
    with pytest.raises(ModelInvalidError, match=f"{name} is missing"):
        convert(checkpoint, tmp_path / "bundle", Options(talker="q8_0", predictor="q8_0"))


def test_a_description_is_json(checkpoint: Path) -> None:
    assert json.loads((checkpoint / FOLDER / FILE).read_text()) == {"frontend": FRAMES, "lead_frames": 4}
