"""Feeding systemd's watchdog, only while the engine is alive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from edgettsd import messages
from edgettsd.notify import Notifier

log = logging.getLogger(__name__)


async def feed(notifier: Notifier, alive: Callable[[], bool]) -> None:
    """Send WATCHDOG=1 at half the timeout while `alive()`; returns at once when nobody watches.

    Runs on the asyncio loop, so a blocked loop starves the watchdog too.
    """
    if notifier.watchdog_seconds is None:
        return
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
