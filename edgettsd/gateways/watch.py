"""What the gateways know of the daemon between requests: whether it runs, its voices, how its speech went.

One connection of its own follows the daemon's properties and signals; it comes back by itself when the bus or
the daemon went away.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from dbus_fast import Message, MessageType, unpack_variants

from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES
from edgettsd.client import ClientError, Daemon, connect

log = logging.getLogger(__name__)

FIRST_DELAY, LAST_DELAY = 0.5, 10.0
# States in which the daemon takes speech and will make it soon.
READY = ("idle", "speaking", "paused")

OnFinished = Callable[[str, Mapping[str, Any]], None]


class Watch:
    """The daemon as last seen. `properties` is empty while it is away; `voices` stays.

    `on_finished(reason, figures)` is called at each utterance's end.
    """

    def __init__(self, session: bool, address: str) -> None:
        self.on_finished: OnFinished = lambda reason, stats: None
        self.properties: dict[str, Any] = {}
        self.voices: list[dict[str, Any]] = []
        self._where = session, address
        self._changed = asyncio.Event()
        self._daemon: Daemon | None = None
        self._owner: str | None = None

    @property
    def ready(self) -> bool:
        """Whether the daemon runs and its model is loaded."""
        return self.properties.get("State") in READY

    async def stats(self) -> dict[str, Any]:
        """The daemon's figures; empty while it is away."""
        daemon = self._daemon
        if daemon is None:
            return {}
        try:
            return dict(json.loads(await daemon.call("Stats", start=False)))
        except (ClientError, ValueError):
            return {}

    async def run(self) -> None:
        """Follow the daemon until cancelled."""
        delay = FIRST_DELAY
        while True:
            try:
                async with connect(*self._where) as daemon:
                    delay = FIRST_DELAY
                    await self._follow(daemon)
            except ClientError as error:
                log.info("%s; trying again in %g s", error, delay)
            finally:
                self._daemon = self._owner = None
                self.properties = {}
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_DELAY)

    async def _follow(self, daemon: Daemon) -> None:
        """Read anew what has changed, until the bus connection is lost."""
        # Not by Daemon.listen, because that keeps the figures of every utterance.
        daemon.connection.on_message(self._on_message)
        source = f"type='signal',sender='{BUS_NAME}',path='{OBJECT_PATH}'"
        for rule in (
            f"{source},interface='{INTERFACE}',member='Finished'",
            f"{source},interface='{PROPERTIES}'",
            f"type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='{BUS_NAME}'",
        ):
            await daemon.connection.call_bus("AddMatch", "s", [rule])
        self._daemon = daemon
        self._changed.set()
        lost = asyncio.ensure_future(daemon.connection.lost())
        try:
            while not lost.done():
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({changed, lost}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                self._changed.clear()
                await self._read(daemon)
        finally:
            lost.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await lost

    async def _read(self, daemon: Daemon) -> None:
        # Everything each time: a daemon that starts has voices only when it knows its model.
        try:
            self._owner = await daemon.connection.owner(BUS_NAME)
            self.properties = await daemon.properties(start=False)
            self.voices = list(await daemon.call("ListVoices", start=False)) or self.voices
        except ClientError:
            self.properties = {}

    def _on_message(self, message: Message) -> bool:
        if message.message_type is not MessageType.SIGNAL:
            return False
        if message.member in ("PropertiesChanged", "NameOwnerChanged"):
            self._changed.set()
        # Only the owner of the name is believed: anybody may send anybody a signal.
        elif (
            message.member == "Finished" and message.interface == INTERFACE and message.sender == self._owner
        ):
            self.on_finished(str(message.body[1]), unpack_variants(message.body[2]))
        return False
