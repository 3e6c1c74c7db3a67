"""Run the engine for a while and measure it: what calibration and the bench are made of."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cython_kernels.playout import ClockSink
from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request, SpeakOptions
from edgettsd.engine.engine import Engine
from edgettsd.hw.adapt import Plan
from edgettsd.hw.load import CpuClock

TEXT = (
    "The kettle is ready, and the tea will be too in a minute or so, "
    "but the milk has to be fetched from the cellar first."
)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One spoken utterance. Times in seconds; `cpu` of all threads of this process."""

    reason: str
    frames: int
    audio: float
    wall: float
    cpu: float
    # From Speak to the first sample at the sink; 0 when nothing was heard.
    first: float
    underruns: int
    # Share of all CPUs' time that other processes took meanwhile.
    foreign: float
    attribution: dict[str, float] = field(default_factory=dict)
    first_audio: dict[str, float] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    generation: int = 0


class Trial:
    """A started engine with step statistics and a sink that plays at `speed` (0: at once; 1: real time)."""

    def __init__(self, config: Config, *, speed: float = 0.0, plan: Plan | None = None) -> None:
        engine = dataclasses.replace(config.engine, step_statistics=True)
        self.config = dataclasses.replace(config, engine=engine)
        self.sink = ClockSink(speed=speed)
        self.engine = Engine(self.config, sink=self.sink, plan=plan)
        self.start_seconds = 0.0
        self._ended: dict[int, tuple[Reason, dict[str, Any]]] = {}
        self._event = asyncio.Event()
        self.engine.subscribe(finished=self._on_finished)

    async def __aenter__(self) -> Trial:
        began = time.monotonic()
        await self.engine.start()
        self.start_seconds = time.monotonic() - began
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.engine.stop()
        # Garbage is collected because the engine refers to itself, and its model must be gone before the next
        # is loaded.
        del self.engine, self.sink
        gc.collect()

    def _on_finished(self, utterance: int, reason: Reason, stats: Any) -> None:
        self._ended[utterance] = reason, dict(stats)
        self._event.set()

    async def speak(self, text: str = TEXT, *, seconds: float, seed: int = 1) -> Utterance:
        """Speak `text`, at most `seconds` of it, and measure."""
        clock, began = CpuClock(), time.monotonic()
        number = self.engine.speak(Request(text, SpeakOptions(seed=seed, max_seconds=seconds)))
        while number not in self._ended:
            self._event.clear()
            await self._event.wait()
        wall = time.monotonic() - began
        reason, stats = self._ended.pop(number)
        own, foreign = clock.read()
        report = self.engine.stats()
        return Utterance(
            reason=reason.value,
            frames=stats.get("frames", 0),
            audio=stats.get("audio_seconds", 0.0),
            wall=wall,
            cpu=own,
            first=stats.get("ttfa_ms", 0.0) / 1000,
            underruns=stats.get("underruns", 0),
            foreign=foreign,
            attribution=dict(report["attribution"]),
            first_audio=dict(report.get("first_audio", {})),
            stats=stats,
            generation=self.engine.generation,
        )


def memory_mb() -> dict[str, float]:
    """This process's resident memory in MB: anonymous, of files, shared, all, and the peak of all."""
    keys = {"RssAnon": "anonymous", "RssFile": "files", "RssShmem": "shared", "VmRSS": "all", "VmHWM": "peak"}
    result = {}
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name in keys:
            result[keys[name]] = round(int(value.split()[0]) / 1024, 1)
    return result


def affinity() -> tuple[int, ...]:
    """The CPUs that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))
