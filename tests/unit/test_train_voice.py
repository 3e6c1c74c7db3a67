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
