"""The soak of tests/soak.py for a few seconds; tools/soak runs it for hours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import soak_bus
from engine_rig import Rig, expected_pcm, heard_as_told
from soak import rest, soak

from cython_kernels.probe_audio import faded
from edgettsd.engine._api import Reason

FRAMES, RATE, FADE_MS = 8, 24000, 20
ECHO = RATE * FADE_MS // 1000


def test_a_short_soak() -> None:
    totals = soak(0.1, 5)
    assert totals.wrong == []
    assert totals.rounds >= 2
    assert totals.accepted > 50
    assert {"completed", "aborted"} <= set(totals.reasons)
    assert totals.bus.rounds >= 1
    # Each kind of reader at least once a round; the terminal is refused, or a round would be wrong.
    assert set(totals.bus.kinds) == set(soak_bus.KINDS)
    assert totals.bus.reasons["completed"] > 0 and totals.bus.bytes_read > 0
    assert totals.samples > 100_000


def test_it_rests_so_long_that_it_takes_no_more_of_a_cpu_than_told() -> None:
    began, cpu = time.monotonic(), time.process_time()
    rest(began, cpu - 0.1, 50, threading.Event())
    assert time.monotonic() - began >= 0.2
    stop = threading.Event()
    stop.set()
    rest(began, cpu - 1000, 1, stop)
    assert time.monotonic() - began < 10


def catches_sigterm(pid: int) -> bool:
    """Whether the process has a handler for SIGTERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)


def test_a_soak_that_is_told_to_stop_prints_its_figures() -> None:
    command = [sys.executable, "-P", str(Path(__file__).parents[1] / "soak.py"), "--minutes", "60"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not catches_sigterm(process.pid):
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    figures = json.loads(output.splitlines()[-1])
    assert process.returncode == 0
    assert figures["wrong"] == []
    assert figures["rounds"] == 2
    assert sum(figures["reasons"].values()) == figures["accepted"] > 0


def account(samples: int, gaps: list[int]) -> str:
    """What is wrong with so many samples of a sentence with a loud end, the device running dry at `gaps`."""
    body = np.frombuffer(expected_pcm(FRAMES), "<i2")
    assert abs(int(body[-1])) >= 64
    heard = body.tobytes() + faded(body[-2 : -2 - ECHO : -1].tobytes(), ECHO)
    sink = SimpleNamespace(heard=lambda: heard[: 2 * samples], gaps=lambda: gaps, fades=list, rate=RATE)
    rig = SimpleNamespace(sink=sink, finished=[(1, Reason.COMPLETED)], started=[1], heard_at_end={1: samples})
    return heard_as_told(cast(Rig, rig), {1: (1.0, 1)}, FRAMES, 0, FADE_MS)


BODY = FRAMES * 1920


@pytest.mark.parametrize(
    "samples, gaps, problem",
    [
        (BODY + ECHO, [], ""),
        (BODY, [BODY], ""),
        (BODY + 426, [BODY + 426], ""),  # it ran dry in the echo, which ends there
        (BODY + 426, [], "is not whole"),
        (BODY + 426, [BODY + 425], "after its end"),
        (BODY + 426, [BODY + 427], "is not whole"),
        (BODY - 1, [BODY - 1], "is not whole"),
        (BODY - 1, [BODY], "is not whole"),
    ],
)
def test_the_account_knows_where_a_loud_end_may_be_cut(samples: int, gaps: list[int], problem: str) -> None:
    result = account(samples, gaps)
    assert problem in result
    assert bool(problem) == bool(result)
