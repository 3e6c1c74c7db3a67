"""The pipe, the frame loop, playout and deliveries under ThreadSanitizer and AddressSanitizer.

All their threads, random aborts, pauses and faults, from this checkout's C sources. EDGETTSD_LONG=1 runs for
minutes.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

import kernel_sources
import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "et_wait et_ring et_pipe et_pipe_blocks et_turn et_trace et_sampler et_frames et_rows et_plan "
    "et_generate et_decode et_runaway et_cost et_schedule et_start et_fake et_playout et_playout_step "
    "et_sink_choice et_sink_fake et_fade"
).split()
MILLISECONDS = 120_000 if os.environ.get("EDGETTSD_LONG") else 3000


DELIVERY = (
    "et_wait et_ring et_wav et_store et_spool et_spool_sink et_spill et_delivery et_delivery_ref "
    "et_delivery_fd"
).split()


def _build(rig: str, sanitizer: str, files: list[str], tmp_path: Path) -> Path:
    """A program of tests/rigs with these C files of the kernels."""
    program = tmp_path / rig
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    command = [compiler, "-std=gnu11", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    command += ["-Wno-psabi", *kernel_sources.INCLUDES, "-o", str(program), str(ROOT / f"tests/rigs/{rig}.c")]
    command += [*kernel_sources.files(files), "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    return program


def _run(program: Path, *arguments: str) -> str:
    """What it prints; it must end well, without a report."""
    # With address randomisation some kernels leave ThreadSanitizer no room for its shadow memory.
    run = ["setarch", "--addr-no-randomize", str(program), *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=MILLISECONDS / 1000 + 120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.timeout(2 * MILLISECONDS / 1000 + 120)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_threads_of_the_daemon_under_a_sanitizer(sanitizer: str, tmp_path: Path) -> None:
    program = _build("pipe_stress", sanitizer, FILES, tmp_path)
    for turns in "01":
        assert "generations" in _run(program, "7", str(MILLISECONDS), turns)


@pytest.mark.timeout(MILLISECONDS / 1000 + 120)
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_deliveries_under_a_sanitizer(sanitizer: str, tmp_path: Path) -> None:
    program = _build("delivery_stress", sanitizer, DELIVERY, tmp_path)
    assert "whole" in _run(program, "7", str(MILLISECONDS), str(tmp_path))
