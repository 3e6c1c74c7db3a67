"""Turns of generator and decoder on shared CPUs: when the generator waits for a look at its frame."""

from __future__ import annotations

import shlex
import subprocess
import sysconfig
from pathlib import Path

import kernel_sources
import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ["et_wait", "et_ring", "et_pipe", "et_pipe_blocks", "et_turn"]
# Without an answer the wait ends after 2 ms.
LONGEST_US = 2000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("turns") / "turns"
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", *kernel_sources.INCLUDES, "-o", str(built)]
    command += [str(ROOT / "tests/rigs/turns.c"), *kernel_sources.files(FILES)]
    subprocess.run([*command, "-lm", "-lpthread"], check=True)
    return built


def waited(program: Path, case: str) -> int:
    """Microseconds, the least of some tries."""
    done = subprocess.run([program, case], capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)


@pytest.mark.parametrize("case", ["waiting", "looked before", "decoded before"])
def test_a_frame_that_nobody_has_seen_is_waited_for(program: Path, case: str) -> None:
    assert waited(program, case) >= LONGEST_US


@pytest.mark.parametrize("case", ["put aside", "decoded", "aborted", "completes none"])
def test_what_was_seen_or_is_not_needed_is_not_waited_for(program: Path, case: str) -> None:
    assert waited(program, case) < LONGEST_US / 2
