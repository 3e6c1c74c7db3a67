"""Callers of whom something ends when they leave the bus: their bound utterances, their pauses."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from dbus_fast import Message, MessageFlag

from edgettsd.bus._connection import DBUS, DBUS_PATH, BusError, Connection
from edgettsd.engine.callers import Caller
from edgettsd.supervisor import Supervisor


class Departures:
    """Watches callers while they hold something; `on_gone` is called with the name of one that left."""

    def __init__(
        self, connection: Connection, supervisor: Supervisor, on_gone: Callable[[Caller], None]
    ) -> None:
        self._connection = connection
        self._supervisor = supervisor
        self._on_gone = on_gone
        # What each watched caller holds.
        self._held: dict[Caller, set[Hashable]] = {}

    def hold(self, client: Caller, thing: Hashable) -> None:
        """`client` holds `thing` until it is released: watch the client."""
        if client not in self._held:
            self._held[client] = set()
            # Not by the task: it must come before the RemoveMatch of a thing that is released at once.
            self._connection.send(_bus_call("AddMatch", _rule(client)))
            self._supervisor.spawn("client watch", self._look(client))
        self._held[client].add(thing)

    def release(self, thing: Hashable) -> None:
        """Nobody holds `thing` any more."""
        for client, things in list(self._held.items()):
            things.discard(thing)
            if not things:
                del self._held[client]
                self._connection.send(_bus_call("RemoveMatch", _rule(client)))

    def on_signal(self, message: Message) -> None:
        """Take a signal of the bus."""
        if (message.sender, message.path, message.member) == (DBUS, DBUS_PATH, "NameOwnerChanged"):
            name, _, new_owner = message.body
            if not new_owner and name in self._held:
                self._on_gone(Caller.bus(name))

    async def _look(self, client: Caller) -> None:
        """The client may have left before the bus knew that we listen."""
        try:
            present = await self._connection.owner(client) is not None
        except (BusError, TimeoutError):
            return
        if not present and client in self._held:
            self._on_gone(client)


def _rule(client: Caller) -> str:
    return f"type='signal',sender='{DBUS}',path='{DBUS_PATH}',member='NameOwnerChanged',arg0='{client}'"


def _bus_call(member: str, argument: str) -> Message:
    return Message(
        destination=DBUS,
        path=DBUS_PATH,
        interface=DBUS,
        member=member,
        signature="s",
        body=[argument],
        flags=MessageFlag.NO_REPLY_EXPECTED,
    )
