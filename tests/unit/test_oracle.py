"""What of the oracle works without the official code, and what the committed references cover."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools import oracle
from edgettsd_tools.oracle_cases import CASES, TASKS, TEXTS

DATA = Path(__file__).parents[1] / "data" / "oracle"
FOLDERS = ("custom_voice", "voice_design", "base", "projected")


def _committed() -> dict[str, dict[str, object]]:
    metas = [json.loads((DATA / folder / "meta.json").read_text()) for folder in FOLDERS]
    return {name: case for meta in metas for name, case in meta["cases"].items()}


def test_every_case_is_committed_as_it_is_defined() -> None:
    assert _committed() == {case.name: case.settings() for case in CASES}
    assert {case.task for case in CASES} == set(TASKS)


@pytest.mark.parametrize("layout", ["streaming", "full"])
@pytest.mark.parametrize(
    "has",
    [
        lambda c: c.voice not in (None, "x-vector"),
        lambda c: c.voice == "x-vector",
        lambda c: c.voice is None and c.task != "voice_design",
        lambda c: c.language not in (None, "Auto"),
        lambda c: c.language in (None, "Auto"),
        lambda c: c.voice in ("eric", "dylan"),
        lambda c: bool(c.instruct) and c.task == "custom_voice",
        lambda c: bool(c.instruct) and c.task == "voice_design",
        lambda c: not c.text.isascii(),
        lambda c: c.text == "",
    ],
)
def test_both_layouts_cover_each_branch_of_the_official_prompt(layout: str, has: object) -> None:
    assert [case.name for case in CASES if case.layout == layout and has(case)]  # type: ignore[operator]


@pytest.mark.parametrize("folder", FOLDERS)
def test_committed_codes_are_long_and_varied(folder: str) -> None:
    for file in (DATA / folder).glob("*.npz"):
        if file.stem == "decoder":
            continue
        with np.load(file) as arrays:
            codes = arrays["codes"]
            steps = len(arrays["hidden"])
        assert codes.shape[1] == 16
        assert steps == len(codes) + 1
        # One case ends by itself at once; the others must show that the loop stays exact for long.
        assert len(codes) >= 30 or file.stem == "streaming-early-end"
        assert len(np.unique(codes, axis=0)) > len(codes) * 0.9


def test_committed_files_stay_small() -> None:
    assert sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file()) < 2_000_000


def test_texts_are_of_many_kinds() -> None:
    references = json.loads((DATA / "custom_voice" / "tokens.json").read_text())
    assert [reference["text"] for reference in references] == list(TEXTS)
    assert all(len(reference["ids"]) >= 8 for reference in references)


def test_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    first = oracle.checkpoint_digest(tmp_path)
    (tmp_path / "README.md").write_text("not part of the model")
    assert oracle.checkpoint_digest(tmp_path) == first
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    renamed = oracle.checkpoint_digest(tmp_path)
    (tmp_path / "other.json").write_text("[]")
    assert len({first, renamed, oracle.checkpoint_digest(tmp_path)}) == 3


def test_snr() -> None:
    signal = np.ones(1000, np.float32)
    assert oracle.snr_db(signal, signal) == float("inf")
    assert oracle.snr_db(signal, signal + np.float32(0.01)) == pytest.approx(40.0, abs=1e-3)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["{folder}/nothing", "{folder}/out"], "nothing/config.json does not exist"),
        (["{folder}", "{folder}/out", "--case", "sideways"], "sideways is unknown for base; known: base-"),
        (
            ["{folder}", "{folder}/out", "--parts", "cases,all"],
            "allowed are cases, decoder, tokens, sampling",
        ),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"tts_model_type": "base"}')
    with pytest.raises(SystemExit) as stopped:
        oracle.main([argument.format(folder=tmp_path) for argument in arguments])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
