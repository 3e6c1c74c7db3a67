"""The scripts of the virtual machine (tools/check-vm), as far as a look can tell: booting takes minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import vm_check
from audio_rigs import with_tail

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["tools/check-vm", "tests/rigs/vm.sh", "tests/rigs/guest.sh"])
def test_scripts_parse_and_may_be_run(name: str) -> None:
    script = ROOT / name
    assert script.stat().st_mode & 0o111
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


SILENCE = b"\0" * 400


def same(folder: Path, made: bytes, heard: bytes) -> bool:
    """What the machine says of a capture."""
    (folder / "made").write_bytes(made)
    (folder / "heard").write_bytes(heard)
    command = [sys.executable, "-P", "-c", vm_check.SAME, str(folder / "made"), str(folder / "heard")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not done.stderr, done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("loud", [True, False])
def test_the_comparison_sees_every_difference(tmp_path: Path, loud: bool) -> None:
    """Speech must be in the capture whole and once, with its echo, and nothing but silence around it."""
    made = bytes(range(1, 251)) * 200 + (b"" if loud else b"\1\0")
    played = with_tail(made, 4)
    assert len(played) - len(made) == (192 if loud else 0)
    assert same(tmp_path, made, SILENCE + played + 2 * SILENCE)
    assert same(tmp_path, made, played)
    assert not same(tmp_path, made, SILENCE + played + b"\1\0" + SILENCE)
    assert not same(tmp_path, made, b"\1\0" + SILENCE + played + SILENCE)
    assert not same(tmp_path, made, SILENCE + played[:500] + b"\0\0" + played[500:] + SILENCE)
    assert not same(tmp_path, made, SILENCE + played + SILENCE + played)
    assert not same(tmp_path, made, SILENCE + played[:-100] + SILENCE)
    # A gap of the machine's own samples, in the echo too.
    if loud:
        assert not same(tmp_path, made, SILENCE + made + SILENCE)


def test_silence_is_no_proof(tmp_path: Path) -> None:
    assert not same(tmp_path, bytes(50_000), bytes(60_000))
