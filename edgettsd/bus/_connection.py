"""One connection to a message bus: opening it, owning the name, and noticing that it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from dbus_fast import (
    AuthError,
    BusType,
    DBusError,
    InvalidAddressError,
    Message,
    MessageType,
    NameFlag,
    RequestNameReply,
)
from dbus_fast.aio import MessageBus

from edgettsd.bus._socket import make_patient

log = logging.getLogger(__name__)

DBUS = "org.freedesktop.DBus"
DBUS_PATH = "/org/freedesktop/DBus"

CONNECT_SECONDS = 15.0
CALL_SECONDS = 25.0
MAX_AUTH_LINE = 16_384


class BusError(Exception):
    """The bus cannot be used; the message says why."""


class BusLostError(BusError):
    """The connection has ended."""


class NameTakenError(BusError):
    """Another process owns the bus name."""


class CallError(BusError):
    """A call was answered with an error; `name` is the D-Bus error name."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class _Bus(MessageBus):
    """dbus-fast 4.0 spins for ever, and the loop with it, when the bus closes during the login."""

    async def _auth_readline(self) -> str:
        assert self._sock is not None
        line = b""
        while not line.endswith(b"\r\n"):
            received = await self._loop.sock_recv(self._sock, 1024)
            if not received or len(line) > MAX_AUTH_LINE:
                raise AuthError("the bus closed the connection during the login")
            line += received
        return line[:-2].decode()


class Connection:
    """A connected bus; make one with `open`."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        make_patient(bus)

    @classmethod
    async def open(cls, kind: str = "system", address: str = "") -> Connection:
        """Connect to the "system" or "session" bus, or to `address`. Raises BusError."""
        where = address or f"the {kind} bus"
        bus_type = BusType.SYSTEM if kind == "system" else BusType.SESSION
        try:
            bus = _Bus(bus_address=address or None, bus_type=bus_type, negotiate_unix_fd=True)
            async with asyncio.timeout(CONNECT_SECONDS):
                await bus.connect()
        except TimeoutError:
            raise BusError(f"cannot connect to {where}: no answer in {CONNECT_SECONDS:g} s") from None
        except (OSError, EOFError, AuthError, DBusError, InvalidAddressError, ValueError) as error:
            raise BusError(f"cannot connect to {where}: {error or type(error).__name__}") from error
        return cls(bus)

    @property
    def unique_name(self) -> str:
        """The connection's own name, such as ":1.7"."""
        return self._bus.unique_name or ""

    def on_message(self, handler: Callable[[Message], bool]) -> None:
        """Have `handler` see every incoming message first; true: it has dealt with it."""
        self._bus.add_message_handler(handler)

    def send(self, message: Message) -> None:
        """Queue a message; one that a lost bus swallows is not an error here: `lost` tells."""
        # dbus-fast would go on to use the number of a closed descriptor.
        if not self._bus.connected:
            return
        self._bus.send(message).add_done_callback(_sent)

    async def call(self, message: Message, timeout: float | None = CALL_SECONDS) -> list[Any]:
        """Call a method and return the reply's body. Raises CallError, BusLostError, TimeoutError."""
        if not self._bus.connected:
            raise BusLostError("the bus connection was lost")
        try:
            async with asyncio.timeout(timeout):
                reply = await self._bus.call(message)
        except TimeoutError:
            raise
        except (OSError, EOFError, DBusError) as error:
            raise BusLostError(f"the bus connection was lost: {error or type(error).__name__}") from error
        if reply is None:
            raise BusLostError("the bus connection was closed")
        if reply.message_type is MessageType.ERROR:
            text = reply.body[0] if reply.body and isinstance(reply.body[0], str) else ""
            raise CallError(reply.error_name or "", text or reply.error_name or "no reason given")
        return list(reply.body)

    async def call_bus(self, member: str, signature: str = "", body: list[Any] | None = None) -> list[Any]:
        """Call a method of the bus daemon itself."""
        return await self.call(
            Message(
                destination=DBUS,
                path=DBUS_PATH,
                interface=DBUS,
                member=member,
                signature=signature,
                body=body or [],
            )
        )

    async def owner(self, name: str) -> str | None:
        """Unique name of the owner of `name`; None when nobody owns it."""
        try:
            return str((await self.call_bus("GetNameOwner", "s", [name]))[0])
        except CallError as error:
            if error.name == f"{DBUS}.Error.NameHasNoOwner":
                return None
            raise

    async def acquire(self, name: str) -> None:
        """Own `name` now, without queueing for it. Raises NameTakenError, BusError."""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                reply = await self._bus.request_name(name, NameFlag.DO_NOT_QUEUE)
        except TimeoutError:
            raise BusError(f"the bus did not answer in {CALL_SECONDS:g} s") from None
        except DBusError as error:
            raise BusError(f"the bus does not let this user own {name}: {error.text}") from error
        except (OSError, EOFError) as error:
            raise BusLostError(f"the bus connection was lost: {error or type(error).__name__}") from error
        if reply not in (RequestNameReply.PRIMARY_OWNER, RequestNameReply.ALREADY_OWNER):
            raise NameTakenError(f"{name} is owned by another process")

    async def lost(self) -> BusLostError:
        """Wait until the connection ends and return why."""
        try:
            disconnected: Callable[[], Awaitable[None]] = self._bus.wait_for_disconnect
            await disconnected()
        except EOFError:
            return BusLostError("the bus connection was lost: closed by the bus")
        except Exception as error:
            return BusLostError(f"the bus connection was lost: {error or type(error).__name__}")
        return BusLostError("the bus connection was closed")

    async def flush(self, timeout: float = 2.0) -> None:
        """Wait until the bus has taken everything sent so far, at most `timeout` seconds."""
        with contextlib.suppress(BusError, TimeoutError):
            # The bus answers in order, so the answer to this call comes after everything that was sent before
            # the call.
            await asyncio.wait_for(self.call_bus("GetId"), timeout)

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._bus.connected:
            self._bus.disconnect()


def _sent(future: asyncio.Future[Any]) -> None:
    """Log what kept a message from being sent, except the end of the connection, which `lost` tells."""
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, (OSError, EOFError)):
        log.error("a message was not sent: %s: %s", type(error).__name__, error)
