"""edgettsctl hw, which needs no daemon."""

from __future__ import annotations

import json

import pytest
from hw_boards import board

from edgettsd.config import Config
from edgettsd.ctl import main
from edgettsd.ctl._hw import lines, ranges
from edgettsd.hw import Profile, adapt


@pytest.fixture
def emulate(tmp_path, monkeypatch):
    """Gives the profile of a board to the command, over a configuration."""

    def run(name: str, config: str, *arguments: str) -> int:
        profile = tmp_path / "profile.json"
        profile.write_text(json.dumps(board(name, tmp_path / "root").to_dict()))
        (tmp_path / "edgettsd.toml").write_text(config)
        monkeypatch.setenv("EDGETTSD_HW_PROFILE", str(profile))
        return main(["hw", "--config", str(tmp_path / "edgettsd.toml"), *arguments])

    return run


def test_json(emulate, capsys):
    assert emulate("rk3588", '[engine]\ncpus_playout = "1"\n', "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert Profile.from_dict(found["profile"], "output").model == "Radxa ROCK 5B"
    decisions = found["decisions"]
    assert decisions["cpus_generator"] == {"value": [4, 5], "origin": "machine", "reason": "2 big cores"}
    assert decisions["cpus_playout"]["value"] == [1]
    assert decisions["cpus_playout"]["origin"] == "config"


def test_text(emulate, capsys):
    assert emulate("rk3588", "") == 0
    text = capsys.readouterr().out
    assert "Radxa ROCK 5B (arm64-biglittle, aarch64)" in text
    assert "8 CPUs on 8 cores; big 4-7, little 0-3; allowed 0-7" in text
    assert "kinds:    cortex-a55, cortex-a76" in text
    assert "cpus_decoder       6-7        2 big cores apart from the generator" in text


def test_every_decision_has_its_line(tmp_path):
    profile = board("orin-nano", tmp_path)
    plan = adapt(profile, Config())
    text = "\n".join(lines(profile, plan, "generic"))
    assert all(f"\n{decision.name} " in text and decision.reason in text for decision in plan.decisions)


@pytest.mark.parametrize(
    "cpus, text", [((), ""), ((3,), "3"), ((0, 1, 2, 5, 7, 8), "0-2,5,7-8"), ((1, 3), "1,3")]
)
def test_ranges(cpus, text):
    assert ranges(cpus) == text


def test_bad_input_is_an_error(emulate, tmp_path, capsys, monkeypatch):
    assert emulate("pi5", "[engine]\nthreads_decoder = 99\n") == 1
    assert "threads_decoder = 99" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text('{"ram_mb": -1}')
    monkeypatch.setenv("EDGETTSD_HW_PROFILE", str(tmp_path / "bad.json"))
    assert main(["hw"]) == 1
    assert "ram_mb = -1: must be an integer from 1" in capsys.readouterr().err
