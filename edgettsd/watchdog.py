"""Watching the engine: systemd's watchdog is fed only while it is alive, and without one its end is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from edgettsd import messages
from edgettsd.notify import Notifier

log = logging.getLogger(__name__)


# How often to look where systemd does not watch.
LOOK_SECONDS = 10.0


class StalledError(Exception):
    """A thread of the engine is dead or stands still."""


async def feed(notifier: Notifier, alive: Callable[[], bool], look: float = LOOK_SECONDS) -> None:
    """Send WATCHDOG=1 at half the timeout while `alive()`; where nobody watches, raise StalledError when not.

    Runs on the asyncio loop, so a blocked loop starves the watchdog too. `look` is in seconds.
    """
    if notifier.watchdog_seconds is None:
        while alive():
            await asyncio.sleep(look)
        raise StalledError("the engine makes no progress")
    was_alive = True
    while True:
        is_alive = alive()
        if is_alive:
            notifier.send(WATCHDOG="1")
        elif was_alive:
            log.error(
                "the engine makes no progress; the watchdog is not fed any more",
                extra={"message_id": messages.STALLED},
            )
        was_alive = is_alive
        await asyncio.sleep(notifier.watchdog_seconds / 2)
