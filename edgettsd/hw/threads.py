"""Putting the calling thread where the plan wants it, and giving it a name that ps shows."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger(__name__)

# CPUs that this process was given, read at import because the main thread is pinned to fewer later.
PROCESS_CPUS = frozenset(os.sched_getaffinity(0))
# Longest name in bytes that the kernel keeps for a thread.
NAME_BYTES = 15


def name_thread(name: str) -> None:
    """Name the calling thread; threads that it starts from then on inherit it. ValueError: too long."""
    if len(name.encode()) > NAME_BYTES:
        raise ValueError(f"thread name {name!r}: at most {NAME_BYTES} bytes")
    try:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name, encoding="utf-8")
    except OSError as error:
        # A missing /proc harms nobody, because ps, which shows the names, needs /proc too.
        log.debug("cannot name thread %s: %s", name, error)


def pin_thread(cpus: Sequence[int]) -> None:
    """Keep the calling thread, and those that it starts from then on, on `cpus`; raises ValueError."""
    try:
        os.sched_setaffinity(0, cpus)
    except OSError as error:
        allowed = sorted(os.sched_getaffinity(0))
        raise ValueError(f"CPUs {list(cpus)}: {error.strerror}; allowed here are {allowed}") from error


def compute_priority() -> None:
    """Let the calling thread, and those that it starts from then on, go after the others of a daemon that was
    started with a higher priority (nice below 0): it computes all the time, the others answer and sleep."""
    own = threading.get_native_id()
    if os.getpriority(os.PRIO_PROCESS, own) < 0:
        os.setpriority(os.PRIO_PROCESS, own, 0)


def move_threads(name: str, cpus: Sequence[int]) -> int:
    """Put every thread of this process that has this name on `cpus`; returns how many.

    Threads inherit the name of the one that starts them, so a stage's workers have its name. Raises
    ValueError when one cannot go there; those before it are then put back.
    """
    moved: dict[int, set[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text(encoding="utf-8").rstrip("\n") != name:
                continue
            before = os.sched_getaffinity(int(task.name))
            os.sched_setaffinity(int(task.name), cpus)
        except (FileNotFoundError, ProcessLookupError):
            # The thread has ended meanwhile.
            continue
        except OSError as error:
            for thread, old in moved.items():
                # A thread that has ended, or that may not return to its old CPUs, stays where the kernel put
                # it.
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, old)
            raise ValueError(f"CPUs {list(cpus)}: {error.strerror}") from error
        moved[int(task.name)] = before
    return len(moved)
