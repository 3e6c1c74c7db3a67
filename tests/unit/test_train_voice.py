"""The command line of tools/train_voice, and what the documentation says of it."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from edgettsd_tools.voice import cli

DOCS = (Path(__file__).parents[2] / "docs" / "voice.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"^ +(tools/(?:train_voice|convert) .*?)(?: +#.*)?$", re.MULTILINE)


@pytest.mark.parametrize(
    ("given", "sizes", "others"),
    [
        ([], {}, {}),
        (["--dropout", "0.1"], {"dropout": 0.1}, {}),
        (["--dropout", "0"], {"dropout": 0.0}, {}),
        (["--rate", "1e-3", "--decay", "0.3"], {}, {"rate": 1e-3, "decay": 0.3}),
    ],
)
def test_what_the_talker_is_trained_with(
    monkeypatch: pytest.MonkeyPatch, given: list[str], sizes: dict[str, float], others: dict[str, float]
) -> None:
    """What is not given is left to the training."""
    calls: list[tuple[Any, ...]] = []
    training = types.SimpleNamespace(train=lambda *args, **options: calls.append((*args, options)))
    monkeypatch.setitem(sys.modules, "edgettsd_tools.voice.train_talker", training)
    monkeypatch.setattr("edgettsd_tools.voice.train_talker", training, raising=False)
    cli._run(cli._parser().parse_args(["talker", "W", "--minutes", "3", *given]))
    assert calls == [(Path("W"), 3.0, {"seed": 1, "sizes": sizes, **others})]


@pytest.mark.parametrize("value", ["-0.1", "1", "nan"])
def test_a_wrong_dropout_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["talker", "W", "--minutes", "3", f"--dropout={value}"])
    assert stopped.value.code == 2
    assert "--dropout" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_an_export_replaces_nothing_but_an_export(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`OUT_CHECKPOINT` may be mistyped: what is there then is somebody's."""
    out = tmp_path / "out"
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "diary.txt").write_text("mine")
    if kind == "folder":
        kept.rename(out)
    elif kind == "link":
        out.symlink_to(kept)
    else:
        out.write_text("mine")
    with pytest.raises(SystemExit) as stopped:
        cli.main(["export", str(tmp_path / "work"), str(out)])
    assert stopped.value.code == 2
    assert f"{out} exists and is not a checkpoint" in capsys.readouterr().err
    assert (out if kind == "file" else out / "diary.txt").read_text() == "mine"


def test_an_export_replaces_an_earlier_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli._replaceable(out)
    out.mkdir()
    assert cli._replaceable(out)
    (out / "speech_tokenizer").mkdir()
    for name in cli.EXPORTED:
        assert not cli._replaceable(out)
        (out / name).touch()
    assert cli._replaceable(out)


def _shape(command: str) -> tuple[str, ...]:
    """Tool, step, options with what is not a number, in order."""
    words = command.replace("OUT_", "").split()
    return tuple(word for word in words if not re.fullmatch(r"[0-9.]+|HOURS|MINUTES|GAIN", word))


def test_the_documentation_trains_as_the_help_says() -> None:
    section = DOCS.split("## Making it again")[1].split("\n## ")[0]
    documented = [_shape(command) for command in COMMAND.findall(section)]
    assert len(documented) >= 7
    assert documented == [_shape(command) for command in COMMAND.findall(cli.EPILOG)]


def test_every_documented_command_is_understood() -> None:
    parsed = [
        cli._parser().parse_args(command.split()[1:])
        for command in COMMAND.findall(DOCS)
        if command.startswith("tools/train_voice")
    ]
    assert {options.step for options in parsed} >= {"synth", "codec", "talker", "frontend", "export", "eval"}
