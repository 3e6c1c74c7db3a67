"""A checkpoint with the English front end becomes a bundle with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.families.qwen3_tts.frontend import FILE, FOLDER
from english_files import english_checkpoint

from edgettsd.errors import ModelInvalidError
from edgettsd.families.qwen3_tts.frontends import FRAMES
from edgettsd.families.qwen3_tts.manifest import bundle_files
from edgettsd.models.store import open_bundle


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return english_checkpoint(tmp_path / "checkpoint")


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
