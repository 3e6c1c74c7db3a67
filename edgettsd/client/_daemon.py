"""A connection to the daemon: calls, properties, and the events of utterances."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dbus_fast import Message, MessageFlag, MessageType, Variant, unpack_variants

from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES, BusError, CallError, Connection
from edgettsd.client._errors import UnreachableError, explain
from edgettsd.engine._api import Reason


class Daemon:
    """A connection to the daemon; make one with `connect`. Its methods raise ClientError."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._owner = ""
        self._started: dict[int, dict[str, Any]] = {}
        self._finished: dict[int, tuple[Reason, dict[str, Any]]] = {}
        self._event = asyncio.Event()
        self._gone = False

    async def call(
        self, member: str, signature: str = "", *body: Any, fds: list[int] | None = None, start: bool = True
    ) -> Any:
        """Call a method and return its result, plain; `start`: the bus may start the daemon for it."""
        message = Message(
            destination=BUS_NAME,
            path=OBJECT_PATH,
            interface=INTERFACE,
            member=member,
            signature=signature,
            body=list(body),
            unix_fds=fds or [],
            flags=MessageFlag.NONE if start else MessageFlag.NO_AUTOSTART,
        )
        result = await _checked(self.connection, message)
        return unpack_variants(result[0]) if result else None

    async def properties(self, start: bool = True) -> dict[str, Any]:
        """Every property by name."""
        message = Message(
            destination=BUS_NAME,
            path=OBJECT_PATH,
            interface=PROPERTIES,
            member="GetAll",
            signature="s",
            body=[INTERFACE],
            flags=MessageFlag.NONE if start else MessageFlag.NO_AUTOSTART,
        )
        values: dict[str, Any] = unpack_variants((await _checked(self.connection, message))[0])
        return values

    async def listen(self) -> None:
        """Take note of Started, Finished and the daemon's end from now on."""
        self.connection.on_message(self._on_message)
        rules = (
            f"type='signal',sender='{BUS_NAME}',path='{OBJECT_PATH}',interface='{INTERFACE}'",
            f"type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='{BUS_NAME}'",
        )
        for rule in rules:
            await self.connection.call_bus("AddMatch", "s", [rule])
        # Only the owner of the name is believed: anybody may send anybody a signal.
        self._owner = await self.connection.owner(BUS_NAME) or ""

    def started(self, utterance: int) -> bool:
        """Whether the utterance has begun."""
        return utterance in self._started

    def start_info(self, utterance: int) -> dict[str, Any] | None:
        """What Started told of the utterance; None before."""
        return self._started.get(utterance)

    async def finished(self, utterance: int) -> tuple[Reason, dict[str, Any]]:
        """Wait for the end of an utterance: the reason and the figures."""
        lost = asyncio.create_task(self.connection.lost())
        try:
            while utterance not in self._finished:
                if self._gone or lost.done():
                    raise UnreachableError("the daemon ended before the utterance did")
                self._event.clear()
                waiting = asyncio.create_task(self._event.wait())
                await asyncio.wait({waiting, lost}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
        finally:
            lost.cancel()
        return self._finished[utterance]

    def _on_message(self, message: Message) -> bool:
        if message.message_type is not MessageType.SIGNAL:
            return False
        source = (message.sender, message.member)
        if source == ("org.freedesktop.DBus", "NameOwnerChanged") and message.body[0] == BUS_NAME:
            self._gone = bool(self._owner) and message.body[2] != self._owner
            self._owner = self._owner or message.body[2]
        elif message.interface == INTERFACE and message.sender == self._owner:
            if message.member == "Started":
                self._started[message.body[0]] = unpack_variants(message.body[1])
            elif message.member == "Finished":
                reason, stats = message.body[1:]
                self._finished[message.body[0]] = Reason(reason), unpack_variants(stats)
        self._event.set()
        return False


@asynccontextmanager
async def connect(session: bool, address: str) -> AsyncIterator[Daemon]:
    """Connect to the session bus, the bus at `address`, or the system bus. Raises UnreachableError."""
    try:
        connection = await Connection.open("session" if session else "system", address)
    except BusError as error:
        raise UnreachableError(str(error)) from error
    try:
        yield Daemon(connection)
    except BusError as error:
        raise UnreachableError(str(error)) from error
    finally:
        connection.close()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)


async def _checked(connection: Connection, message: Message) -> list[Any]:
    try:
        return await connection.call(message)
    except CallError as error:
        raise explain(error) from error
    except TimeoutError:
        raise UnreachableError("the daemon does not answer") from None


def variant_options(signatures: dict[str, str], values: dict[str, Any]) -> dict[str, Variant]:
    """Options for Speak from plain values; None is left out."""
    return {key: Variant(signatures[key], value) for key, value in values.items() if value is not None}
