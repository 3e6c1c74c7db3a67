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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak import rest, soak


def test_a_short_soak() -> None:
    totals = soak(0.1, 5)
    assert totals.wrong == []
    assert totals.rounds >= 2
    assert totals.accepted > 50
    assert {"completed", "aborted"} <= set(totals.reasons)
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
