"""Long work beside the speech: one job at a time, bounded, cancelled, and out of speech's way."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_rig import Rig, drive
from lane_rig import Idle, with_lane

from cython_kernels.fake_sink import FakeSink
from edgettsd.engine._api import Reason, State
from edgettsd.errors import QueueFullError
from edgettsd.lanes import LOWEST, DuringSpeech, JobState, Lane, LongWork
from edgettsd.supervisor import Supervisor

# Counts for ever.
COUNTS = """
import itertools, sys, time
for n in itertools.count():
    print(n, flush=True)
    time.sleep(0.01)
"""


def work(script: str, name: str = "enrolment", **options: object) -> LongWork:
    return LongWork(name, [sys.executable, "-S", "-c", script], **options)  # type: ignore[arg-type]


async def until(test: Callable[[], bool]) -> None:
    while not test():
        await asyncio.sleep(0.01)


def state_of(pid: int) -> str:
    """The kernel's letter: T is stopped; empty: there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_job_runs_tells_its_progress_and_its_status() -> None:
    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        lines: list[str] = []
        job = lane.submit(
            work("print('a third\\nall'); print('no line', end=''); raise SystemExit(3)"), lines.append
        )
        assert await job.result() == 3 and job.state is JobState.DONE
        assert lines == ["a third", "all"] and job.progress == "all"
        assert lane.jobs == ()
        assert await lane.submit(LongWork("no such", ["/no/such/program"])).result() == 127
        assert await lane.submit(work("pass")).result() == 0

    with_lane(test)


def test_one_at_a_time_in_order_with_a_bounded_queue(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        f"import time; f = open({str(log)!r}, 'a'); f.write('<'); f.flush(); time.sleep(0.1); f.write('>')"
    )

    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        first = lane.submit(work(script, "first"))
        await until(lambda: first.state is JobState.RUNNING)
        jobs = [first, *(lane.submit(work(script, str(n))) for n in range(2))]
        assert [job.work.name for job in lane.jobs] == ["first", "0", "1"]
        with pytest.raises(QueueFullError, match="2 jobs wait for test already; allowed: 2"):
            lane.submit(work(script))
        assert [await job.result() for job in jobs] == [0, 0, 0]

    with_lane(test, limit=2)
    assert log.read_text() == "<>" * 3


def test_two_lanes_do_not_wait_for_each_other() -> None:
    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        other = Lane("other", engine, supervisor)  # type: ignore[arg-type]
        endless = lane.submit(work(COUNTS))
        assert await other.submit(work("pass")).result() == 0
        assert endless.state in (JobState.WAITING, JobState.RUNNING)

    with_lane(test)


def test_it_stands_still_while_speech_is_made_and_goes_on_afterwards() -> None:
    pids: list[int] = []

    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        lines: list[str] = []
        job = lane.submit(work("import os; print(os.getpid(), flush=True)" + COUNTS), lines.append)
        await until(lambda: len(lines) > 4)
        pids.append(int(lines[0]))
        engine.become(State.SPEAKING)
        await until(lambda: job.state is JobState.STOPPED and state_of(pids[0]) == "T")
        await asyncio.sleep(0.1)
        stood = job.progress
        await asyncio.sleep(0.3)
        assert job.progress == stood
        engine.become(State.IDLE)
        await until(lambda: int(job.progress) > int(stood) + 2)
        assert job.state is JobState.RUNNING

    with_lane(test)
    assert state_of(pids[0]) == "", "the end of the daemon is its end"


def test_one_that_goes_on_has_the_lowest_priority() -> None:
    nice = "import os, time; time.sleep(0.3); print(os.getpriority(os.PRIO_PROCESS, 0), flush=True);"

    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        lines: list[str] = []
        job = lane.submit(work(nice + COUNTS, speech=DuringSpeech.GOES_ON), lines.append)
        await until(lambda: len(lines) > 2)
        assert lines[0] == str(LOWEST)
        engine.become(State.SPEAKING)
        told = len(lines)
        await until(lambda: len(lines) > told + 10)
        job.cancel()
        ordinary = lane.submit(work(nice, low=False))
        engine.become(State.IDLE)
        await ordinary.result()
        assert ordinary.progress == str(os.getpriority(os.PRIO_PROCESS, 0))

    with_lane(test)


def test_one_that_starts_over_is_killed_by_speech_and_waits_for_quiet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"f = open({str(log)!r}, 'a'); f.write('run\\n'); f.flush()\n"

    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        job = lane.submit(
            work(script + COUNTS, speech=DuringSpeech.STARTS_OVER, quiet_seconds=0.05, low=False)
        )
        await until(lambda: log.exists() and bool(log.read_text()))
        engine.become(State.SPEAKING)
        await until(lambda: job.state is JobState.WAITING)
        await asyncio.sleep(0.3)
        assert log.read_text() == "run\n" and lane.jobs == (job,)
        engine.become(State.IDLE)
        await until(lambda: log.read_text() == "run\nrun\n")
        job.cancel()
        assert await job.result() is None

    with_lane(test)


def test_cancelling_what_waits_what_runs_and_what_stands_still(tmp_path: Path) -> None:
    """A job may clean up; one that does not end by itself is killed, with all that it started."""
    mark = tmp_path / "mark"
    tidy = (
        "import signal, sys, time\n"
        f"def end(*_): open({str(mark)!r}, 'w'); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    stubborn = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if child: print(os.getpid(), child, flush=True)\n"
        "time.sleep(60)"
    )

    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        running, waiting = lane.submit(work(tidy)), lane.submit(work("pass"))
        await until(lambda: running.progress == "ready")
        engine.become(State.SPEAKING)
        await until(lambda: running.state is JobState.STOPPED)
        waiting.cancel()
        running.cancel()
        assert await running.result() is None and running.state is JobState.CANCELLED
        engine.become(State.IDLE)
        assert await waiting.result() is None
        assert mark.exists()
        last = lane.submit(work(stubborn))
        await until(lambda: bool(last.progress))
        last.cancel()
        last.cancel()
        assert await last.result() is None
        for pid in map(int, last.progress.split()):
            await until(lambda pid=pid: state_of(pid) in ("", "Z"))  # type: ignore[misc]

    with_lane(test)


def test_work_that_takes_too_long_is_ended_and_standing_still_does_not_count() -> None:
    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        job = lane.submit(work(COUNTS, seconds=1.0))
        await until(lambda: bool(job.progress))
        engine.become(State.SPEAKING)
        await asyncio.sleep(1.5)
        assert job.state is JobState.STOPPED
        engine.become(State.IDLE)
        assert await job.result() == -signal.SIGKILL

    with_lane(test)


def test_progress_that_raises_and_endless_lines_harm_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def broken(line: str) -> None:
        raise RuntimeError("broken progress")

    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        job = lane.submit(work("print('x' * 100_000); print('y' * 100_000, end='')"), broken)
        assert await job.result() == 0
        assert job.progress == "x" * 1000

    with_lane(test)
    assert "broken progress" in caplog.text


def test_the_end_of_the_daemon_ends_what_runs_and_what_waits() -> None:
    async def test(lane: Lane, engine: Idle, supervisor: Supervisor) -> None:
        lines: list[str] = []
        running = work("import os; print(os.getpid(), flush=True)" + COUNTS)
        jobs = [lane.submit(running, lines.append), lane.submit(work(""))]
        await until(lambda: bool(lines))
        pid = int(lines[0])
        await supervisor.close()
        assert [job.state for job in jobs] == [JobState.CANCELLED] * 2
        assert await asyncio.gather(*(job.result() for job in jobs)) == [None, None]
        assert state_of(pid) == ""

    with_lane(test)


def test_speech_of_the_real_engine_stops_it() -> None:
    """The whole engine over scripted kernels: while it speaks the job stands still."""

    async def test(rig: Rig) -> None:
        supervisor = Supervisor()
        lane = Lane("enrolment", rig.engine, supervisor)
        job = lane.submit(work(COUNTS))
        await rig.until(lambda: bool(job.progress))
        utterance = rig.say()
        await rig.until(lambda: job.state is JobState.STOPPED)
        assert utterance not in rig.stats
        assert await rig.ended(utterance) is Reason.COMPLETED
        await rig.until(lambda: job.state is JobState.RUNNING)
        await supervisor.close()
        assert job.state is JobState.CANCELLED

    drive(test, sink=FakeSink(speed=2, capture=1 << 20))
