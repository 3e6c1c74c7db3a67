"""Long work beside the speech: a child process a job, one job at a time in each lane, never in speech's way.

A lane has a bounded queue and is a task of the supervisor. What its jobs do while speech is made is said by
each job: they stand still, they start over later, or they go on at the lowest priority.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edgettsd.engine._api import Engine, State
from edgettsd.errors import QueueFullError
from edgettsd.hw.threads import PROCESS_CPUS
from edgettsd.supervisor import Supervisor

log = logging.getLogger(__name__)

# A job that is cancelled has so long to end by itself.
GRACE_SECONDS = 2.0
# Of what a job prints so much of a line is kept.
LINE_BYTES = 1000
LOWEST = 19
# As a shell tells it of a command that it cannot start.
EXIT_NOT_FOUND = 127


class DuringSpeech(enum.StrEnum):
    """What becomes of a running job when speech begins."""

    STOPS = "stops"
    STARTS_OVER = "starts over"
    GOES_ON = "goes on"


class JobState(enum.StrEnum):
    """What a job does now."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LongWork:
    """What to do: `command`, whose lines on standard output are its progress.

    It begins when nothing was spoken for `quiet_seconds`, and is ended as failed after running for `seconds`.
    `low`: at the lowest priority; one that is stopped or ended by speech may do without.
    """

    name: str
    command: Sequence[str]
    speech: DuringSpeech = DuringSpeech.STOPS
    quiet_seconds: float = 0.0
    seconds: float = 3600.0
    low: bool = True


@dataclass(slots=True, eq=False)
class Job:
    """One job of a lane; `status` is the command's exit status once it is done, negative for a signal."""

    work: LongWork
    on_progress: Callable[[str], None]
    state: JobState = JobState.WAITING
    progress: str = ""
    status: int | None = None
    cancelling: bool = False
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _wake: Callable[[], None] = lambda: None

    async def result(self) -> int | None:
        """Wait for its end: the exit status; None when it was cancelled."""
        await self._ended.wait()
        return self.status

    def cancel(self) -> None:
        """End it, or never begin it; idempotent."""
        self.cancelling = True
        self._wake()

    def told(self, line: str) -> None:
        """Its command printed a line."""
        self.progress = line
        try:
            self.on_progress(line)
        except Exception:
            log.exception("progress of %s", self.work.name)

    def end(self, state: JobState, status: int | None) -> None:
        """It is over."""
        self.state, self.status = state, status
        self._ended.set()


class Lane:
    """A queue of long work of one kind. All methods are called on the loop."""

    def __init__(self, name: str, engine: Engine, supervisor: Supervisor, *, limit: int = 8) -> None:
        """At most `limit` jobs wait. Speech is made as long as the engine is not idle."""
        self.name, self._engine, self._limit = name, engine, limit
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._changed = asyncio.Event()
        self._was_quiet, self._quiet_since = self._quiet, asyncio.get_running_loop().time()
        engine.subscribe(changed=self._on_changed)
        supervisor.keep(f"{name} lane", self._run)

    def submit(self, work: LongWork, on_progress: Callable[[str], None] = lambda line: None) -> Job:
        """Queue a job; `on_progress` is called with each line that it prints. Raises QueueFullError."""
        if len(self._queue) >= self._limit:
            raise QueueFullError(
                f"{len(self._queue)} jobs wait for {self.name} already; allowed: {self._limit}"
            )
        job = Job(work, on_progress)
        job._wake = self._changed.set
        self._queue.append(job)
        self._changed.set()
        return job

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The running one, then those that wait."""
        return ((self._running,) if self._running else ()) + tuple(self._queue)

    def _on_changed(self) -> None:
        if self._quiet and not self._was_quiet:
            self._quiet_since = asyncio.get_running_loop().time()
        self._was_quiet = self._quiet
        self._changed.set()

    @property
    def _quiet(self) -> bool:
        return self._engine.state is State.IDLE

    async def _run(self) -> None:
        try:
            while True:
                self._drop_cancelled()
                if not self._queue:
                    await self._change(None)
                    continue
                wait = self._quiet_since + self._queue[0].work.quiet_seconds
                wait -= asyncio.get_running_loop().time()
                if self._quiet and wait <= 0:
                    await self._attend(self._queue.popleft())
                else:
                    await self._change(wait if self._quiet else None)
        finally:
            for job in self._queue:
                job.end(JobState.CANCELLED, None)
            self._queue.clear()

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._queue if job.cancelling]:
            self._queue.remove(job)
            job.end(JobState.CANCELLED, None)

    async def _change(self, seconds: float | None) -> None:
        """Wait for a job, for its output or end, or for a change of the engine's state."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    async def _attend(self, job: Job) -> None:
        """Run one job; one that speech has ended is the next one again."""
        self._running = job
        state, status = JobState.CANCELLED, None
        try:
            state, status = await self._carry_out(job)
        finally:
            self._running = None
            if state is JobState.WAITING:
                job.state = state
                self._queue.appendleft(job)
            else:
                job.end(state, status)

    async def _carry_out(self, job: Job) -> tuple[JobState, int | None]:
        """State and exit status after the job's process has ended, by itself or not."""
        try:
            child = await _Child.start(job, self._changed.set)
        except OSError as error:
            log.error("%s cannot be started: %s", job.work.name, error)
            return JobState.DONE, EXIT_NOT_FOUND
        try:
            return await self._watch(job, child)
        finally:
            await child.kill()

    async def _watch(self, job: Job, child: _Child) -> tuple[JobState, int | None]:
        """Follow speech and the clock until the child has ended or must end."""
        loop, left = asyncio.get_running_loop(), job.work.seconds
        while not child.ended.is_set():
            if job.cancelling:
                await child.terminate()
                return JobState.CANCELLED, None
            if not self._quiet and job.work.speech is DuringSpeech.STARTS_OVER:
                return JobState.WAITING, None
            child.hold(not self._quiet and job.work.speech is DuringSpeech.STOPS)
            began, running = loop.time(), job.state is JobState.RUNNING
            await self._change(left if running else None)
            left -= (loop.time() - began) if running else 0
            if left <= 0 and not child.ended.is_set():
                log.warning("%s takes longer than %g s", job.work.name, job.work.seconds)
                return JobState.DONE, -signal.SIGKILL
        return JobState.DONE, child.status


class _Child(asyncio.SubprocessProtocol):
    """The process of a job, in a session of its own: signals reach whatever it starts."""

    def __init__(self, job: Job, wake: Callable[[], None]) -> None:
        self._job, self._wake = job, wake
        self._line = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self.ended = asyncio.Event()
        self._closed = asyncio.Event()

    @classmethod
    async def start(cls, job: Job, wake: Callable[[], None]) -> _Child:
        """Start the job's command; raises OSError."""
        # The child gets no NOTIFY_SOCKET, because systemd would take its messages for the daemon's.
        environment = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(job, wake),
            *job.work.command,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=None,
            env=environment,
            start_new_session=True,
        )
        protocol._transport = transport
        pid = transport.get_pid()
        # It may have ended already.
        with contextlib.suppress(OSError):
            # The loop's thread, whose CPUs it inherits, is kept to few of them.
            os.sched_setaffinity(pid, PROCESS_CPUS)
            if job.work.low:
                os.setpriority(os.PRIO_PROCESS, pid, LOWEST)
        job.state = JobState.RUNNING
        return protocol

    @property
    def status(self) -> int | None:
        """Exit status, None while it lives."""
        return self._transport.get_returncode() if self._transport else None

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Standard output: the last line is the progress."""
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[:LINE_BYTES]
        for line in lines:
            self._job.told(line[:LINE_BYTES].decode("utf-8", "replace"))

    def process_exited(self) -> None:
        """It has ended."""
        self.ended.set()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Everything that it printed has come."""
        self._closed.set()

    def hold(self, stop: bool) -> None:
        """Let it stand still, or go on."""
        if stop != (self._job.state is JobState.STOPPED):
            self._job.state = JobState.STOPPED if stop else JobState.RUNNING
            self._signal(signal.SIGSTOP if stop else signal.SIGCONT)

    async def terminate(self) -> None:
        """Ask it to end, and give it some time for that."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self.ended.wait()

    async def kill(self) -> None:
        """End it and all that it started, and wait for that."""
        self._signal(signal.SIGKILL)
        await self.ended.wait()
        # Whatever left its session may hold its output open for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self._closed.wait()
        if self._transport is not None:
            self._transport.close()

    def _signal(self, number: signal.Signals) -> None:
        assert self._transport is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)
