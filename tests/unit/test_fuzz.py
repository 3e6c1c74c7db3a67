"""The targets of tests/fuzz.py for a fixed number of runs; tools/fuzz guides them by coverage for minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

TESTS = Path(__file__).parents[1]
TOOLS = TESTS.parent / "tools"
RUNS = 50_000 if os.environ.get("EDGETTSD_LONG") else 1000


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "target", ["gguf", "safetensors", "manifest", "config", "options", "text", "english", "tflite"]
)
def test_damaged_input_is_refused_and_does_no_harm(target: str, tmp_path: Path) -> None:
    command = [sys.executable, "-P", str(TESTS / "fuzz.py"), target, "--random", "--runs", str(RUNS)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == f"{target}: {RUNS} runs at random\n"


def test_harm_is_noticed(tmp_path: Path) -> None:
    """A target that lets an error through ends the run, and the input is kept."""
    script = (
        "import sys, fuzz\n"
        "def broken(data):\n"
        "    if len(data) < 20: raise IndexError('harm')\n"
        "fuzz.at_random(broken, [b'x' * 40], 1000, 0, 1)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "IndexError: harm" in done.stderr
    kept = list(tmp_path.glob("crash-broken-*"))
    assert len(kept) == 1 and len(kept[0].read_bytes()) < 20


@pytest.mark.parametrize("arguments", [["--runs", "-1"], ["--seconds", "-1"], ["--seconds", "x"]])
def test_a_run_of_nothing_is_refused(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "text", "--random", *arguments])
    with pytest.raises(SystemExit) as caught:
        fuzz.main()
    assert caught.value.code == 2
    assert (
        f"argument {arguments[0]}: '{arguments[1]}': a whole number from 0 on is needed"
        in capsys.readouterr().err
    )


def launch(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """tools/fuzz with a set-up that only tells, by status 9, that it was reached."""
    shutil.copytree(TOOLS / "lib", folder / "tools" / "lib")
    (folder / "tools" / "lib" / "setup.sh").write_text("setup_all() { exit 9; }\n")
    shutil.copy(TOOLS / "fuzz", folder / "tools")
    return subprocess.run(
        [folder / "tools" / "fuzz", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--seconds"], "--seconds needs a whole number from 1 to 999999, not ''"),
        (["--seconds", "x"], "--seconds needs a whole number from 1 to 999999, not 'x'"),
        (["--seconds", "-5", "gguf"], "--seconds needs a whole number from 1 to 999999, not '-5'"),
        (["--seconds", "0"], "--seconds needs a whole number from 1 to 999999, not '0'"),
        (["gguf", "--seconds=1.5"], "--seconds needs a whole number from 1 to 999999, not '1.5'"),
        (["--seconds", "1000000"], "--seconds needs a whole number from 1 to 999999, not '1000000'"),
        (["--second", "5"], "unknown option --second"),
        (["gguf", "wav"], "unknown target 'wav'; allowed are gguf safetensors manifest config options text"),
        ([""], "unknown target ''"),
        (["gguf safetensors"], "unknown target 'gguf safetensors'"),
    ],
)
def test_a_mistake_in_the_command_line_is_told_before_the_set_up(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    done = launch(tmp_path, *arguments)
    assert done.returncode == 2, done
    assert done.stderr.startswith(f"tools/fuzz: {message}") and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["--seconds", "5"], ["gguf", "--seconds=05", "text"], ["text", "--seconds", "5"]]
)
def test_a_command_line_that_is_right_goes_on_to_the_set_up(arguments: list[str], tmp_path: Path) -> None:
    done = launch(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (9, "")
