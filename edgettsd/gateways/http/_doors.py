"""Connections of the HTTP listener: how many there may be, and how long one may be without a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Doors:
    """Makes a protocol for each connection; `inner` makes aiohttp's.

    `limit` is how many connections there may be at once. `seconds` is how long a connection may lie without a
    request whose headers are complete.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self.inner: Callable[[], asyncio.Protocol] = asyncio.Protocol
        self._limit = limit
        self._seconds = seconds
        self._doors: dict[asyncio.BaseTransport, _Door] = {}

    def __call__(self) -> asyncio.Protocol:
        """A protocol for the next connection."""
        return _Door(self, self.inner())

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Stop the clock of a request's connection while the request is answered."""
        with self._busy(request.transport):
            return await handler(request)

    def enter(self, transport: asyncio.BaseTransport, door: _Door) -> bool:
        """Count a connection in; false when there are too many."""
        if len(self._doors) >= self._limit:
            log.warning("a connection is closed, because %d are open", self._limit)
            return False
        self._doors[transport] = door
        return True

    def leave(self, transport: asyncio.BaseTransport) -> None:
        """Count a connection out."""
        self._doors.pop(transport, None)

    def clock(self, transport: asyncio.Transport) -> asyncio.TimerHandle:
        """Close the connection when its time is over."""
        return asyncio.get_running_loop().call_later(self._seconds, transport.close)

    @contextmanager
    def _busy(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        door = None if transport is None else self._doors.get(transport)
        if door is not None:
            door.stop_clock()
        try:
            yield
        finally:
            if door is not None:
                door.start_clock()


class BrokenRequests(logging.Filter):
    """Gives what is no request one line, because aiohttp logs a traceback with the bytes that came."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError):
            log.info("a connection is closed, because what came is no request (%s)", type(error).__name__)
            return False
        return True


class _Door(asyncio.Protocol):
    """Passes everything on to aiohttp's protocol."""

    def __init__(self, doors: Doors, inner: asyncio.Protocol) -> None:
        self._doors = doors
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._doors.enter(transport, self):
            transport.abort()
            return
        self._transport = transport
        self.start_clock()
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_clock()
        if self._transport is not None:
            self._doors.leave(self._transport)
            self._transport = None
            self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def start_clock(self) -> None:
        """The connection waits for a request from now on."""
        self.stop_clock()
        if self._transport is not None:
            self._timer = self._doors.clock(self._transport)

    def stop_clock(self) -> None:
        """The connection has a request, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
