"""Random load with faults for a long time: python tests/soak.py --minutes 120 --seed 1 (tools/soak does it).

In rounds of a few seconds: the real engine over scripted kernels and a device that runs dry, fails and is
busy at random; callers speak, abort, interrupt, pause, leave; some read a descriptor slowly or close it.
After each round every utterance must have finished once and the device heard exactly what it should.
Between them rounds over the bus, against the real daemon: see soak_bus.py.
Prints one line of figures every minute and a JSON object at the end, also when it is told to stop
(SIGTERM, SIGINT); status 1 when anything was wrong. --cpu-percent 15 rests between rounds so that it takes no
more of a CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import logging
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "unit"))

import soak_bus
from engine_rig import DEVICE, Rig, heard_as_told, with_config, with_delivery
from render_reader import Reader, read_as_told

from cython_kernels.fake_sink import FakeSink
from edgettsd.engine._api import Priority, Reason
from edgettsd.engine.parts import FakeParts
from edgettsd.errors import NotFoundError, QueueFullError

FRAMES = 8
PAUSE = 960
ROUND_SECONDS = 4.0
# Rounds for each one over the bus.
BUS_EVERY = 4
# So many rounds over the bus tell how the daemon's memory goes.
BUS_ENOUGH = 40
M_ARENA_MAX = -8


@dataclass(slots=True)
class Totals:
    """What a soak has seen."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rounds: int = 0
    accepted: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    underruns: int = 0
    xruns: int = 0
    wrong: list[str] = field(default_factory=list)
    rss_kb: list[int] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    bus: soak_bus.Account = field(default_factory=soak_bus.Account)
    bus_told: int = 0

    def note(self, problem: str) -> None:
        """Something is wrong; it is also told at once."""
        self.wrong.append(problem)
        print(f"WRONG: {problem}", file=sys.stderr, flush=True)


def resident_kb() -> int:
    """Resident memory of this process, without shared files."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


# Readers of renders, with volume and number of sentences; those that were refused have none.
Readers = list[tuple[Reader, int, float, int]]


def call(rig: Rig, rng: random.Random, told: dict[int, tuple[float, int]], readers: Readers) -> None:
    """One random call."""
    engine = rig.engine
    choice = rng.random()
    if choice < 0.55:
        volume, sentences = 1.0 - 0.004 * (len(told) % 200), rng.randrange(3)
        options: dict[str, Any] = {
            "priority": rng.choice(list(Priority)),
            "interrupt": rng.random() < 0.2,
            "client_bound": rng.random() < 0.3,
            "volume": volume,
        }
        text, client = " ".join(["Hello there."] * sentences) or "...", rng.choice("abc")
        reader = None
        if rng.random() < 0.3:
            pause = rng.choice([0.0, rng.random() * 0.01])
            reader = Reader(pause, most=rng.choice([0, 4096, 1 << 30, 1 << 30, 1 << 30]))
        try:
            utterance = rig.say(text, client=client, fd=reader.writer if reader else None, **options)
        except QueueFullError:
            if reader is not None:
                os.close(reader.writer)
                readers.append((reader, 0, volume, sentences))
            return
        told[utterance] = volume, 0 if reader else sentences
        if reader is not None:
            readers.append((reader, utterance, volume, sentences))
    elif choice < 0.75 and told:
        utterance = max(told) - rng.randrange(8)
        for client in "abc":
            try:
                engine.abort(utterance, client)
            except NotFoundError:
                continue
    elif choice < 0.78:
        engine.abort_all()
    elif choice < 0.84:
        engine.pause(rng.choice(["", *"abc"]))
    elif choice < 0.92:
        engine.resume(rng.choice(["", *"abc"]))
    elif choice < 0.96:
        engine.client_gone(rng.choice("abc"))
    else:
        rig.parts.segment_error = RuntimeError("on purpose") if rng.random() < 0.3 else None


async def one_round(rng: random.Random, totals: Totals, seconds: float) -> None:
    """A new engine, random calls for `seconds`, and the account of what was heard."""
    fade_ms = rng.choice([0, 5, 20])
    xrun_at = rng.choice([-1, rng.randrange(400_000)])
    sink = FakeSink(
        speed=rng.choice([10.0, 60.0]),
        buffer=DEVICE,
        capture=1 << 23,
        xrun_at=xrun_at,
        fail_at=rng.choice([-1, rng.randrange(400_000)]),
        fail_times=1,
        open_errno=16 if rng.random() < 0.3 else 0,
        open_fails=1,
        fade_ms=fade_ms,
    )
    parts = FakeParts(eos_after=FRAMES, step_us=rng.choice([0, 500, 4000]), substep_us=rng.choice([0, 50]))
    config = with_config(
        queue_limit=12, client_limit=8, sentence_pause_ms=40, max_wait_ms=rng.choice([0, 20, 1000])
    )
    spool = rng.choice([0, 64])
    rig = Rig(parts, sink, with_delivery(config, reader_seconds=1.0, spool_memory_kib=64, spool_mib=spool))
    await rig.engine.start()
    told: dict[int, tuple[float, int]] = {}
    readers: Readers = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        call(rig, rng, told, readers)
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.01, 0.05]))
    rig.engine.resume_all()
    try:
        await rig.until(lambda: len(rig.finished) >= len(told), 60.0)
    except TimeoutError:
        totals.note(f"round {totals.rounds}: {len(told) - len(rig.finished)} never finished")
    stats = rig.engine.stats()
    await rig.engine.stop()
    for reader, _, _, _ in readers:
        await asyncio.to_thread(reader.all)
    if sorted(utterance for utterance, _ in rig.finished) != sorted(told):
        totals.note(f"round {totals.rounds}: not exactly one Finished for each")
    reasons = dict(rig.finished)
    for reader, utterance, volume, sentences in readers:
        reason = reasons.get(utterance, Reason.ABORTED)
        if problem := read_as_told(reader, reason, volume, sentences, FRAMES, PAUSE):
            totals.note(f"round {totals.rounds}: utterance {utterance}, {reason.value}: {problem}")
        totals.samples += len(reader.data) // 2
    problem = heard_as_told(rig, told, FRAMES, PAUSE, fade_ms, xrun_at)
    if problem:
        totals.note(f"round {totals.rounds}: {problem}")
    totals.rounds += 1
    totals.accepted += len(told)
    totals.samples += len(sink.heard()) // 2
    totals.underruns += stats["underruns"]
    totals.xruns += sink.counters()["xruns"]
    for _, reason in rig.finished:
        totals.reasons[reason.value] = totals.reasons.get(reason.value, 0) + 1


def rest(began: float, cpu_began: float, cpu_percent: float, stop: threading.Event) -> None:
    """Wait until the work since `began` was no more than `cpu_percent` of a CPU, or until told to stop."""
    due = began + (time.process_time() - cpu_began) * 100 / cpu_percent
    stop.wait(max(0.0, due - time.monotonic()))


def soak(
    minutes: float,
    seed: int,
    report: Any = None,
    *,
    cpu_percent: float = 0.0,
    stop: threading.Event | None = None,
) -> Totals:
    """Run rounds for so long, or until `stop` is set. With `cpu_percent`, with rests in between."""
    stop = stop or threading.Event()
    # Each round's new threads would take new arenas of the allocator: memory that is kept, not lost.
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    rng, totals = random.Random(seed), Totals()
    began = noted = time.monotonic()
    cpu_began = time.process_time()
    # Of its own, so that the rounds of the engine are the same however many there are over the bus.
    bus_rng = random.Random(seed + 1)
    with soak_bus.started() as daemon:
        totals.bus = daemon.account
        while totals.rounds < 2 or (time.monotonic() - began < minutes * 60 and not stop.is_set()):
            seconds = min(ROUND_SECONDS, minutes * 20)
            if totals.rounds % BUS_EVERY == 0:
                daemon.round(bus_rng, seconds)
            asyncio.run(one_round(rng, totals, seconds))
            gc.collect()
            # What the allocator keeps for itself after the rounds' large captures is no leak.
            ctypes.CDLL(None).malloc_trim(0)
            totals.rss_kb.append(resident_kb())
            totals.fds.append(len(os.listdir("/proc/self/fd")))
            totals.threads.append(threading.active_count())
            if cpu_percent > 0:
                rest(began, cpu_began - daemon.cpu_seconds(), cpu_percent, stop)
            totals.seconds = round(time.monotonic() - began, 1)
            totals.cpu_seconds = round(time.process_time() - cpu_began + daemon.cpu_seconds(), 1)
            for problem in totals.bus.wrong[totals.bus_told :]:
                totals.bus_told += 1
                totals.note(problem)
            if report is not None and time.monotonic() - noted > 60:
                noted = time.monotonic()
                report(totals)
    for problem in totals.bus.wrong[totals.bus_told :]:
        totals.note(problem)
    return totals


def early_and_late(values: list[int]) -> tuple[int, int]:
    """The largest of the first tenth and of the last tenth."""
    tenth = max(1, len(values) // 10)
    return max(values[: tenth + 1]), max(values[-tenth:])


def line(totals: Totals) -> None:
    """One line for those who watch."""
    early, late = early_and_late(totals.rss_kb)
    print(
        f"{totals.seconds:8.0f} s ({totals.cpu_seconds:.0f} s of CPU)  {totals.rounds} rounds, "
        f"{totals.accepted} utterances, {totals.samples} samples, {totals.xruns} xruns, "
        f"{totals.reasons.get('device', 0)} device faults, {early} -> {late} kB, "
        f"{totals.fds[-1]} descriptors; over the bus {totals.bus.rounds} rounds, "
        f"{totals.bus.accepted} utterances, {totals.bus.bytes_read} bytes read; wrong: {len(totals.wrong)}",
        flush=True,
    )


def main() -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--cpu-percent", type=float, default=0.0, help="at most this share of a CPU; 0: all of it"
    )
    options = parser.parse_args()
    # What the engine logs are the faults that it is given, by the hundred.
    logging.getLogger("edgettsd").setLevel(logging.CRITICAL)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    totals = soak(options.minutes, options.seed, line, cpu_percent=options.cpu_percent, stop=stop)
    early, late = early_and_late(totals.rss_kb)
    fds_early, fds_late = early_and_late(totals.fds)
    names = (
        "seconds",
        "cpu_seconds",
        "rounds",
        "accepted",
        "reasons",
        "samples",
        "underruns",
        "xruns",
        "wrong",
    )
    figures = {name: getattr(totals, name) for name in names}
    figures |= {"rss_kb_first_tenth": early, "rss_kb_last_tenth": late, "descriptors": totals.fds[-1]}
    figures["bus"] = totals.bus.figures()
    print(json.dumps(figures))
    grown = late > early * 1.05 or fds_late > fds_early
    if len(totals.bus.rss_kb) >= BUS_ENOUGH:
        early, late = early_and_late(totals.bus.rss_kb)
        grown = grown or late > early * 1.05
    return 1 if totals.wrong or grown else 0


if __name__ == "__main__":
    sys.exit(main())
