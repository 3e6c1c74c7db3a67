"""The scripts of the virtual machine (tools/check-vm), as far as a look can tell: booting takes minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import vm_check

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["tools/check-vm", "tests/rigs/vm.sh", "tests/rigs/guest.sh"])
def test_scripts_parse_and_may_be_run(name: str) -> None:
    script = ROOT / name
    assert script.stat().st_mode & 0o111
    done = subprocess.run(["bash", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "change", "same"),
    [
        (b"\0" * 400, b"\0" * 800, b"", True),
        (b"", b"", b"", True),
        (b"\0" * 400, b"\0" * 800, b"\1\0", False),
    ],
)
def test_the_comparison_sees_every_difference(
    tmp_path: Path, before: bytes, after: bytes, change: bytes, same: bool
) -> None:
    """Speech must be in the capture whole and once, with nothing but silence around it."""
    made = bytes(range(1, 251)) * 200
    (tmp_path / "made").write_bytes(made)
    (tmp_path / "heard").write_bytes(before + made + change + after)
    command = [sys.executable, "-c", vm_check.SAME, str(tmp_path / "made"), str(tmp_path / "heard")]
    assert (subprocess.run(command, capture_output=True, check=False).returncode == 0) is same
    (tmp_path / "heard").write_bytes(before + made[:500] + b"\0\0" + made[500:] + after)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    # Silence is no proof.
    (tmp_path / "made").write_bytes(bytes(len(made)))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
