"""The targets of tests/fuzz.py for a fixed number of runs; tools/fuzz guides them by coverage for minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
RUNS = 50_000 if os.environ.get("EDGETTSD_LONG") else 1000


@pytest.mark.timeout(900)
@pytest.mark.parametrize("target", ["gguf", "safetensors", "manifest", "config", "options", "text", "tflite"])
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
