"""The owner of the daemon's background tasks: none of them ends unnoticed.

A failure is logged with its reason and stays in `report` and `problems` as long as the daemon runs. What else
follows from it depends on the task:

- one that is kept (`keep`) starts anew after 1, 2, 4, ... s. After `LIMIT` failures within `WINDOW` seconds
  it is given up; if it is vital, that ends the daemon;
- one that runs once (`spawn`) is not started again;
- failing callbacks of the loop end the daemon after `LIMIT` failures within `WINDOW` seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from edgettsd import messages

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_DELAY, LAST_DELAY = 1.0, 60.0
LIMIT, WINDOW = 5, 600.0
CALLBACKS = "event loop"


class TaskState(enum.StrEnum):
    """What a task does now."""

    RUNNING = "running"
    WAITING = "waiting to start again"
    ENDED = "ended"
    FAILED = "given up"


class SupervisorError(Exception):
    """The daemon cannot go on; the message says which task failed, and why."""


@dataclass(slots=True)
class _Record:
    """What is known of the tasks of one name."""

    state: TaskState = TaskState.RUNNING
    failures: int = 0
    reason: str = ""
    recent: deque[float] = field(default_factory=deque)


class Supervisor:
    """Owns the background tasks of one asyncio loop; all methods are called on it.

    `on_changed()` is called after every failure. `first_delay` and `window` are in seconds.
    """

    def __init__(
        self, *, first_delay: float = FIRST_DELAY, limit: int = LIMIT, window: float = WINDOW
    ) -> None:
        self.on_changed: Callable[[], None] = lambda: None
        self._first_delay, self._limit, self._window = first_delay, limit, window
        self._records: dict[str, _Record] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._fatal = asyncio.Event()
        self._end = ""

    def watch_loop(self) -> None:
        """Take the failures of the running loop's callbacks, which asyncio alone would only log."""
        asyncio.get_running_loop().set_exception_handler(self._callback_failed)

    def keep(self, name: str, work: Callable[[], Awaitable[None]], *, vital: bool = False) -> None:
        """Run `work()` as task `name`, anew after every failure; giving up a `vital` one ends the daemon."""
        self._own(name, self._kept(name, work, vital))

    def spawn(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run `work` once as task `name`; several of one name may run. Awaiting it raises its error too."""
        task = self._own(name, work)
        task.add_done_callback(self._once_done)
        return task

    async def fatal(self) -> SupervisorError:
        """Wait until the daemon must end, and return why."""
        await self._fatal.wait()
        return SupervisorError(self._end)

    def report(self) -> dict[str, dict[str, Any]]:
        """Every task by name, for Stats: state, failures since the start, reason of the last one."""
        return {
            name: {"state": record.state.value, "failures": record.failures, "reason": record.reason}
            for name, record in self._records.items()
        }

    def problems(self) -> list[str]:
        """A line for people for each task that has failed."""
        return [
            f"{name}: {record.state.value}, {record.failures} failure{'s'[: record.failures > 1]}, "
            f"the last: {record.reason}"
            for name, record in self._records.items()
            if record.failures
        ]

    async def close(self) -> None:
        """Cancel every task and wait for its end; idempotent."""
        own = asyncio.current_task()
        tasks = {task for task in self._tasks if task is not own}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _own(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        self._records.setdefault(name, _Record()).state = TaskState.RUNNING
        task = asyncio.get_running_loop().create_task(work, name=name)
        # The loop itself holds tasks only weakly.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _kept(self, name: str, work: Callable[[], Awaitable[None]], vital: bool) -> None:
        record = self._records[name]
        while True:
            record.state = TaskState.RUNNING
            try:
                await work()
            except Exception as error:
                within = self._failed(name, error)
            else:
                record.state = TaskState.ENDED
                return
            if within >= self._limit:
                self._give_up(name, vital)
                return
            record.state = TaskState.WAITING
            delay = min(self._first_delay * 2 ** (within - 1), LAST_DELAY)
            log.info("%s starts again in %g s", name, delay)
            self.on_changed()
            await asyncio.sleep(delay)

    def _once_done(self, task: asyncio.Task[Any]) -> None:
        name = task.get_name()
        others = any(task.get_name() == name for task in self._tasks)
        if task.cancelled() or (error := task.exception()) is None:
            if not others and self._records[name].state is TaskState.RUNNING:
                self._records[name].state = TaskState.ENDED
            return
        self._failed(name, error)
        self._records[name].state = TaskState.RUNNING if others else TaskState.FAILED
        self.on_changed()

    def _failed(self, name: str, error: BaseException) -> int:
        """Note and log a failure; returns how many there were within the window."""
        record = self._records.setdefault(name, _Record())
        record.failures += 1
        record.reason = _one_line(error)
        log.error(
            "%s failed: %s",
            name,
            record.reason,
            exc_info=error,
            extra={"message_id": messages.TASK_FAILED},
        )
        now = asyncio.get_running_loop().time()
        record.recent.append(now)
        while now - record.recent[0] > self._window:
            record.recent.popleft()
        return len(record.recent)

    def _give_up(self, name: str, vital: bool) -> None:
        record = self._records[name]
        record.state = TaskState.FAILED
        failures = f"failed {len(record.recent)} times in {self._window:g} s"
        if vital:
            self._end = self._end or f"{name} {failures}, the last time with {record.reason}"
            self._fatal.set()
        else:
            log.error("%s is given up, because it %s; the daemon goes on without it", name, failures)
        self.on_changed()

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is None:
            loop.default_exception_handler(context)
            return
        within = self._failed(CALLBACKS, error)
        # asyncio calls this from its own handler, where another exception would be lost.
        with contextlib.suppress(Exception):
            self.on_changed()
        if within >= self._limit:
            self._give_up(CALLBACKS, vital=True)


def _one_line(error: BaseException) -> str:
    """Kind and text of an error, cut short, on one line."""
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return text if len(text) <= 200 else text[:197] + "..."
