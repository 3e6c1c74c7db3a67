"""Renders on their way to their readers, as the loop sees them: how long that may take, and how it ends.

A delivery has a spool, which playout fills and a thread of its own empties into the client's descriptor
(see `cython_kernels.delivery`). That thread may be held up for as long as the client likes; nobody waits for
it. It is told to leave and interrupted, and one that the kernel does not let go is left alone after `GRACE`
seconds.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from cython_kernels.delivery import LOST, Spool, Store
from edgettsd.config import DeliveryConfig
from edgettsd.engine._api import Reason
from edgettsd.hw.cache import cache_folder

log = logging.getLogger(__name__)

# Seconds between interruptions of a writer that is to leave; how long they go on; and between those that come
# later.
KICK, GRACE, LATE_KICK = 0.01, 0.1, 1.0

_NEVER = float("inf")


class Delivery:
    """One render's way into its descriptor; made by `Deliveries.begin`.

    `spool` is the sink that playout fills. `failure` is why the reader did not get everything, with the words
    for the client; None when it did, or when `cancel` was called.
    """

    def __init__(self, deliveries: Deliveries, owner: Any, spool: Spool) -> None:
        self.owner = owner
        self.spool = spool
        self.over = False
        self.failure: tuple[Reason, str] | None = None
        self._deliveries = deliveries
        self._loop = asyncio.get_running_loop()
        self._deadline = _NEVER
        self._longest = 0.0
        self._left_by = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def cancel(self) -> None:
        """The reader gets no more. It is over soon: at once, or when the writer could be interrupted."""
        if self._left_by or self.over:
            return
        self._left_by = time.monotonic() + GRACE
        self.spool.cancel()
        self._again(KICK)

    def made(self, undelivered_seconds: float) -> None:
        """The last sample is made; from now on the time for all of the delivery runs.

        A reader that plays the `undelivered_seconds` of speech in real time needs that long in any case.
        """
        limit = self._deliveries.config.delivery_seconds
        if limit and not self._left_by and not self.over:
            self._longest = limit + undelivered_seconds
            self._deadline = time.monotonic() + self._longest
            self._look()

    def bell(self) -> None:
        """The spool's state may have changed."""
        if not self.spool.over:
            self._deliveries.changed(self)
        elif self.over:
            self._leave()
        else:
            error = self.spool.error
            if self.failure is None and error:
                self.failure = explain(-error)
            self._end()

    def _look(self) -> None:
        """Give up a reader that is too slow; else look again when it can be so."""
        now, since = time.monotonic(), self.spool.stuck_since / 1e9
        limit = self._deliveries.config.reader_seconds or _NEVER
        due = (since or now) + limit
        if since and now >= due:
            self._give_up("the reader does not read")
        elif now >= self._deadline:
            self._give_up(f"the reader did not take everything within {self._longest:.0f} s")
        elif (soon := min(due, self._deadline)) < _NEVER:
            self._again(soon - now)

    def _give_up(self, why: str) -> None:
        self.failure = Reason.DEVICE, why
        self.cancel()

    def _again(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._left_by:
            self._look()
            return
        self.spool.kick()
        self._again(LATE_KICK if self.over else KICK)
        if not self.over and time.monotonic() >= self._left_by:
            self._end()

    def _end(self) -> None:
        self.over = True
        self._deliveries.ended(self)
        if self.spool.over:
            self._leave()

    def _leave(self) -> None:
        """The writer has gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._deliveries.forget(self)
        # The owner is forgotten, because the cycle of owner and delivery would keep the spool's descriptors
        # open.
        self.owner = None


class Deliveries:
    """All deliveries of an engine. `begin` and what follows belong to the loop; the constructor may be slow.

    `ended(delivery)` is called once for each, when it is over; `left(delivery)` when its writer has gone,
    which may be later; `changed(delivery)` when its spool was found full or has room again.
    """

    def __init__(self, config: DeliveryConfig) -> None:
        self.config = config
        self.ended: Callable[[Delivery], None] = lambda delivery: None
        self.left: Callable[[Delivery], None] = lambda delivery: None
        self.changed: Callable[[Delivery], None] = lambda delivery: None
        self._folder = cache_folder() if config.spool_mib else None
        self._store = Store(self._folder, config.spool_mib << 20)
        # Errors of the overflow file that were logged.
        self._told: set[int] = set()
        self._running: dict[int, Delivery] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Listen to the writers, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._store.bell, self._on_bell)

    def close(self) -> None:
        """Listen no more. Writers that the kernel still holds are left to themselves."""
        if self._loop is not None:
            self._loop.remove_reader(self._store.bell)
            self._loop = None
        self._store.close()

    def begin(self, owner: Any, fd: int, audio_format: str, rate: int) -> Delivery:
        """Start to deliver into `fd`, which is the delivery's from then on. Raises OSError, ValueError."""
        spool = Spool(self._store, fd, audio_format, rate, memory=self.config.spool_memory_kib << 10)
        delivery = Delivery(self, owner, spool)
        self._running[id(delivery)] = delivery
        return delivery

    def forget(self, delivery: Delivery) -> None:
        """Its writer has gone."""
        if self._running.pop(id(delivery), None) is not None:
            self.left(delivery)

    def stats(self) -> dict[str, int]:
        """How many there are, and what they hold in the overflow file."""
        return {"deliveries": len(self._running), "spool_file_bytes": self._store.used}

    def _on_bell(self) -> None:
        os.eventfd_read(self._store.bell)
        if (failed := self._store.failed) and failed not in self._told:
            self._told.add(failed)
            log.warning("overflow file in %s: %s; readers set the pace", self._folder, os.strerror(failed))
        for delivery in list(self._running.values()):
            delivery.bell()


def explain(code: int) -> tuple[Reason, str] | None:
    """Why a delivery that ended with error number `code` failed."""
    if code == errno.ECANCELED:
        return None
    if code == errno.EPIPE:
        # The reader has closed its end: that is how a client cancels.
        return Reason.ABORTED, "the reader closed the stream"
    if code == LOST:
        return Reason.ERROR, "what was kept for the reader cannot be read any more"
    return Reason.DEVICE, os.strerror(code)
