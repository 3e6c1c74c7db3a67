"""Calibration at the first start: in a process of its own, only while nothing is spoken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

# Exit status of `edgettsd --calibrate` on a machine on which others compute.
EXIT_LOADED = 6
IDLE_SECONDS = 60.0
LOOK_SECONDS = 1.0
CHILD_SECONDS = 180.0
RETRY_SECONDS = 600.0
ATTEMPTS = 3


async def calibrate_when_idle(
    command: Sequence[str],
    idle: Callable[[], bool],
    *,
    wait: float = IDLE_SECONDS,
    look: float = LOOK_SECONDS,
    retry: float = RETRY_SECONDS,
) -> None:
    """Run `command` once `idle` has held for `wait` seconds; speech ends it, and it is tried again.

    Ends after success, after a failure other than a loaded machine, or after some attempts on a loaded one.
    """
    attempts = 0
    while attempts < ATTEMPTS:
        await _settled(idle, wait, look)
        status = await _run(command, idle, look)
        if status is None:
            log.debug("calibration: interrupted by speech")
            continue
        if status == 0:
            log.info("calibrated: the next start uses the CPUs as measured")
            return
        if status != EXIT_LOADED:
            log.warning("calibration failed with status %d", status)
            return
        attempts += 1
        await asyncio.sleep(retry)
    log.info("not calibrated: the machine is never idle; edgettsd --calibrate does it by hand")


async def _settled(idle: Callable[[], bool], wait: float, look: float) -> None:
    loop = asyncio.get_running_loop()
    since = loop.time()
    while loop.time() - since < wait:
        await asyncio.sleep(look)
        if not idle():
            since = loop.time()


async def _run(command: Sequence[str], idle: Callable[[], bool], look: float) -> int | None:
    """The command's status; None when speech began, whereupon it was ended."""
    # The child gets no NOTIFY_SOCKET, because systemd would take its messages for the daemon's.
    environment = {k: v for k, v in os.environ.items() if k not in ("NOTIFY_SOCKET", "WATCHDOG_USEC")}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, env=environment
    )
    finished = asyncio.create_task(process.wait())
    end = asyncio.get_running_loop().time() + CHILD_SECONDS
    try:
        while not finished.done():
            await asyncio.wait({finished}, timeout=look)
            if not finished.done() and not idle():
                return None
            if not finished.done() and asyncio.get_running_loop().time() > end:
                log.warning("calibration takes too long")
                return 1
        return finished.result()
    finally:
        if not finished.done():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
