"""A scripted engine: real queueing, no model and no sound device.

It serves tests of the daemon, its bus and its tools, and clients' developers who have no model at hand
(``edgettsd --engine fake``). It "speaks" in real time divided by `speed`, at 15 characters a second, and
writes a quiet tone where audio is asked for. Words in the text script what happens (only here, never in
the real engine)::

    fake:seconds=2.5     the speech lasts 2.5 s
    fake:runaway         ends with that reason half way; likewise fake:limit, fake:device, fake:error
    fake:stall           heartbeat() is false from then on
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import re
import select
import stat
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgettsd.config import Config
from edgettsd.descriptors import close_later
from edgettsd.engine._api import Reason, Request, State, Voice
from edgettsd.engine.base import QueueingEngine
from edgettsd.engine.queue import Entry
from edgettsd.engine.wav import wav_header
from edgettsd.errors import NotReadyError
from edgettsd.hw.placement import Cpus
from edgettsd.hw.rearrange import Stages

log = logging.getLogger(__name__)

SAMPLE_RATE = 24_000
FRAME_SECONDS = 0.08
FRAME_SAMPLES = round(FRAME_SECONDS * SAMPLE_RATE)
CHARACTERS_PER_SECOND = 15.0

_SCRIPT = re.compile(r"fake:(?:seconds=(\d+(?:\.\d+)?)|(\w+))")
_SCRIPTED = {reason.value: reason for reason in (Reason.RUNAWAY, Reason.LIMIT, Reason.DEVICE, Reason.ERROR)}


@dataclass(slots=True)
class _Job:
    """What the engine keeps of one utterance."""

    request: Request
    ending: Reason | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    # Its reader takes no more for now.
    full: bool = False
    task: asyncio.Task[None] | None = None
    frames: int = 0
    began: float = 0.0

    def end(self, reason: Reason) -> None:
        """Ask the speaking task to end; the first reason counts."""
        if self.ending is None:
            self.ending = reason
        self.wake.set()


class FakeEngine(QueueingEngine[_Job]):
    """The scripted engine; `speed` > 0 is how much faster than real time it speaks."""

    def __init__(self, config: Config, speed: float = 1.0) -> None:
        if not (math.isfinite(speed) and speed > 0):
            raise ValueError(f"speed = {speed}: must be above 0")
        super().__init__(config)
        self._speed = speed
        self._loaded = False
        self._stalled = False
        # The one that speaks, and renders that stand back.
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def model_name(self) -> str:
        """Always "fake"."""
        return "fake"

    @property
    def sample_rate(self) -> int:
        """24000 Hz."""
        return SAMPLE_RATE

    @property
    def voices(self) -> tuple[Voice, ...]:
        """Two voices that sound the same."""
        return (
            Voice("alpha", ("english", "german"), "A quiet tone"),
            Voice("beta", ("english",), "The same tone"),
        )

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that options may name."""
        return ("english", "german")

    async def load(self) -> None:
        """Accept utterances from now on."""
        self._loaded = True

    async def start(self) -> None:
        """Become ready."""
        await asyncio.sleep(0)
        self._loaded, self._phase = True, State.IDLE
        self._next()
        self._events.changed()

    async def stop(self) -> None:
        """End everything as aborted; idempotent."""
        self._phase = State.STOPPING
        self.abort_all()
        await asyncio.gather(*self._tasks)
        await self._told()
        self._events.changed()

    def speak(self, request: Request) -> int:
        """Queue an utterance; raises NotReadyError, QueueFullError."""
        if self._phase is State.STOPPING or not self._loaded:
            raise NotReadyError(f"the engine is {self.state.value}")
        utterance = self._put(_Job(request))
        self._stalled = self._stalled or "fake:stall" in request.text
        return utterance

    def set_speed(self, speed: float) -> None:
        """Nothing here depends on the CPUs."""

    @property
    def stages(self) -> Stages | None:
        """Nothing that could be moved."""
        return None

    def move(self, generator: Cpus, decoder: Cpus) -> tuple[Cpus, Cpus]:
        """Nothing to do."""
        return generator, decoder

    def heartbeat(self) -> bool:
        """False once a text said "fake:stall"."""
        return not self._stalled

    def stats(self) -> Mapping[str, Any]:
        """How many utterances ended, by reason."""
        return self._counts()

    def _hold(self, paused: bool) -> None:
        if not paused and (active := self._queue.active) is not None:
            active.item.wake.set()

    def _end(self, entry: Entry[_Job], reason: Reason) -> None:
        if entry.item.task is not None:
            entry.item.end(reason)
        else:
            asyncio.get_running_loop().call_soon(self._finished, entry, reason)

    def _next(self) -> None:
        if self._paused or self._phase is not State.IDLE:
            return
        active = self._queue.active
        full = active is not None and active.item.full and active.item.ending is None
        if full and self._queue.first(_ready):
            self._queue.put_back()
        entry = self._queue.take(_ready)
        if entry is None:
            return
        job = entry.item
        if job.task is not None:
            job.wake.set()
            return
        job.task = asyncio.get_running_loop().create_task(self._run(entry))
        self._tasks.add(job.task)
        job.task.add_done_callback(self._tasks.discard)

    async def _run(self, entry: Entry[_Job]) -> None:
        job = entry.item
        job.began = time.monotonic()
        self._events.started(
            entry.id, {"voice": job.request.options.voice or self._config.engine.voice or "alpha"}
        )
        self._events.changed()
        try:
            reason = await self._speak(entry)
        except BrokenPipeError:
            reason = Reason.ABORTED
        except OSError:
            reason = Reason.ERROR
        except Exception:
            # The error is caught here, because nobody awaits this task and the utterance must end.
            log.exception("utterance %d", entry.id)
            reason = Reason.ERROR
        if self._queue.active is entry:
            self._queue.finish()
        self._finished(entry, reason)
        self._next()
        self._events.changed()

    async def _speak(self, entry: Entry[_Job]) -> Reason:
        job = entry.item
        seconds, reason = self._plan(job.request)
        if job.request.fd is not None and job.request.format == "wav":
            await self._write(entry, wav_header(SAMPLE_RATE))
        for _ in range(round(seconds / FRAME_SECONDS)):
            await self._wait(job, FRAME_SECONDS / self._speed)
            if job.ending is None and self._queue.active is entry and self._queue.goes_first(_ready):
                self._queue.put_back()
                self._next()
            while (self._paused or self._queue.active is not entry) and job.ending is None:
                await self._wait(job, None)
            if job.ending is not None:
                return job.ending
            if job.request.fd is not None:
                await self._write(entry, _tone(job.frames, job.request.options.volume))
            job.frames += 1
        return job.ending or reason

    def _plan(self, request: Request) -> tuple[float, Reason]:
        """Length in seconds and how it ends, from the text."""
        text, reason, scripted = request.text, Reason.COMPLETED, None
        for seconds, word in _SCRIPT.findall(text):
            scripted = float(seconds) if seconds else scripted
            reason = _SCRIPTED.get(word, reason)
        pace = CHARACTERS_PER_SECOND * (request.options.rate or 1.0)
        length = len(text) / pace if any(map(str.isalnum, text)) else 0.0
        length = length if scripted is None else scripted
        if reason is not Reason.COMPLETED:
            length /= 2
        longest = min(request.options.max_seconds or math.inf, self._config.engine.max_seconds)
        return (longest, Reason.LIMIT) if length > longest else (length, reason)

    async def _wait(self, job: _Job, seconds: float | None) -> None:
        """Sleep, or wait for pause or stop to change."""
        if job.ending is not None:
            return
        job.wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(job.wake.wait(), seconds)

    async def _write(self, entry: Entry[_Job], data: bytes) -> None:
        """Write everything unless stopped; raises OSError. The loop never blocks on the reader, and others
        speak while it takes nothing."""
        job = entry.item
        fd = job.request.fd
        assert fd is not None
        loop = asyncio.get_running_loop()
        if stat.S_ISREG(os.fstat(fd).st_mode):
            await loop.run_in_executor(None, os.write, fd, data)
            return
        room = select.poll()
        room.register(fd, select.POLLOUT)
        while data and job.ending is None:
            # No more than PIPE_BUF bytes are written at once, because a writable pipe takes those without
            # blocking and the client's descriptor keeps its flags.
            if room.poll(0):
                data = data[os.write(fd, data[: select.PIPE_BUF]) :]
                continue
            job.full = True
            self._next()
            loop.add_writer(fd, job.wake.set)
            try:
                await self._wait(job, None)
            finally:
                loop.remove_writer(fd)
                job.full = False
                self._next()

    def _finished(self, entry: Entry[_Job], reason: Reason) -> None:
        job = entry.item
        if job.request.fd is not None:
            close_later(job.request.fd)
        self._ended[reason.value] += 1
        stats: dict[str, Any] = {"frames": job.frames, "audio_seconds": job.frames * FRAME_SECONDS}
        if job.began:
            stats["wall_seconds"] = time.monotonic() - job.began
        self._events.finished(entry.id, reason, stats)


def _ready(job: _Job) -> bool:
    """Whether it could speak."""
    return not job.full


def _tone(frame: int, volume: float) -> bytes:
    """One frame of a quiet 250 Hz tone, s16le; continuous from frame to frame."""
    start = frame * FRAME_SAMPLES
    peak = min(32767.0, 1000.0 * volume)
    step = 2 * math.pi * 250 / SAMPLE_RATE
    samples = (round(peak * math.sin(step * n)) for n in range(start, start + FRAME_SAMPLES))
    return struct.pack(f"<{FRAME_SAMPLES}h", *samples)
