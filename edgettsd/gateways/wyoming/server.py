"""The Wyoming service: describe, synthesize, and synthesize-start, -chunk, -stop for growing text."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from edgettsd.client import ClientError, render
from edgettsd.engine._api import Reason
from edgettsd.gateways.voices import Voices
from edgettsd.gateways.watch import Watch
from edgettsd.gateways.wyoming import _codec
from edgettsd.gateways.wyoming._codec import Event, ProtocolError
from edgettsd.gateways.wyoming._info import info
from edgettsd.text.markdown import spoken

log = logging.getLogger(__name__)

MAX_TEXT = 100_000
IDLE_SECONDS = 300.0
SEND_SECONDS = 30.0


class Reader(asyncio.StreamReader):
    """A stream whose end is told at once, also while nobody reads."""

    def __init__(self) -> None:
        super().__init__(limit=_codec.MAX_LINE)
        self.on_end: Callable[[], None] = lambda: None

    def feed_eof(self) -> None:
        super().feed_eof()
        self.on_end()

    def set_exception(self, error: Exception) -> None:
        super().set_exception(error)
        self.on_end()


def protocol(serve: Callable[[Reader, asyncio.StreamWriter], Any]) -> asyncio.Protocol:
    """A protocol for one connection; `serve` is called with it, and what it returns is kept nowhere."""
    reader = Reader()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serve(reader, writer)

    return asyncio.StreamReaderProtocol(reader, connected)


class Wyoming:
    """Serves connections; `where` is (session, address) of the daemon's bus."""

    def __init__(
        self,
        where: tuple[bool, str],
        watch: Watch,
        voices: Voices,
        *,
        priority: str = "message",
        plain: bool = False,
        connections: int = 16,
    ) -> None:
        self.where = where
        self.watch = watch
        self.voices = voices
        self.priority = priority
        self.plain = plain
        self._limit = connections
        self._open = 0

    async def __call__(self, reader: Reader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        if self._open >= self._limit:
            log.warning("a connection is refused: %d are open", self._open)
            writer.close()
            return
        self._open += 1
        session = _Session(self, reader, writer)
        try:
            await session.run()
        except ProtocolError as error:
            log.info("a connection is closed: %s", error)
            with contextlib.suppress(OSError, TimeoutError):
                await session.fail(str(error), "protocol")
        except TimeoutError:
            log.info("a connection is closed, because nothing went through it for too long")
        except OSError as error:
            log.info("a client left: %s", error)
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class _Session:
    """One connection."""

    def __init__(self, service: Wyoming, reader: Reader, writer: asyncio.StreamWriter) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer
        # Of a stream of text, while it is open: its pieces, and what synthesize-start said.
        self._pieces: list[str] | None = None
        self._start: dict[str, Any] = {}

    async def run(self) -> None:
        """Answer events until the client leaves."""
        while (event := await self._next()) is not None:
            match event.type:
                case "describe":
                    known = self._service.watch.properties.get("Model", "")
                    await self._send(Event("info", info(str(known), self._service.voices.known)))
                case "ping":
                    await self._send(Event("pong", event.data))
                case "synthesize":
                    # A client that streams sends the whole text as well, for services that cannot.
                    if self._pieces is None:
                        await self._say_unless_gone(_text(event), dict(event.data))
                case "synthesize-start":
                    self._pieces, self._start = [], dict(event.data)
                case "synthesize-chunk":
                    if self._pieces is not None:
                        self._pieces.append(_text(event))
                        if sum(map(len, self._pieces)) > MAX_TEXT:
                            raise ProtocolError(f"a text is longer than {MAX_TEXT} characters")
                case "synthesize-stop":
                    pieces, self._pieces = self._pieces, None
                    if pieces is not None:
                        await self._say_unless_gone("".join(pieces), self._start)
                        await self._send(Event("synthesize-stopped"))
                case _:
                    log.debug("an event of type %r is ignored", event.type)

    async def _next(self) -> Event | None:
        async with asyncio.timeout(IDLE_SECONDS):
            return await _codec.read(self._reader)

    async def _send(self, event: Event) -> None:
        self._writer.write(_codec.encode(event))
        async with asyncio.timeout(SEND_SECONDS):
            await self._writer.drain()

    async def _say_unless_gone(self, text: str, data: dict[str, Any]) -> None:
        """Say a text; the engine is free as soon as the client closes the connection."""
        loop = asyncio.get_running_loop()
        if self._reader.at_eof():
            raise ConnectionResetError("before its text was said")
        scope = asyncio.timeout(None)
        self._reader.on_end = lambda: scope.reschedule(loop.time())
        try:
            async with scope:
                await self._say(text, data)
        except TimeoutError:
            if scope.expired():
                raise ConnectionResetError("while its text was said") from None
            raise
        finally:
            self._reader.on_end = lambda: None

    async def _say(self, text: str, data: dict[str, Any]) -> None:
        """Say a text: audio-start, audio-chunk.., audio-stop; or audio-start, error, audio-stop."""
        service = self._service
        voice = data.get("voice")
        voice = voice if isinstance(voice, dict) else {}
        name = voice.get("name") if isinstance(voice.get("name"), str) else None
        options = {"voice": service.voices.daemons(name), "priority": service.priority}
        rate = int(service.watch.properties.get("SampleRate") or 24000)
        shape = {"rate": rate, "width": 2, "channels": 1}
        begun = False
        try:
            async with render(*service.where, text if service.plain else spoken(text), options) as speech:
                shape["rate"] = speech.sample_rate
                await self._send(Event("audio-start", {**shape, "timestamp": 0}))
                begun = True
                sent = 0
                async for samples in speech:
                    position = {"timestamp": sent * 1000 // (2 * speech.sample_rate)}
                    await self._send(Event("audio-chunk", shape | position, samples))
                    sent += len(samples)
                reason, stats = await speech.finished()
                if reason is not Reason.COMPLETED:
                    await self.fail(f"speech ended as {reason.value}{_detail(stats)}", reason.value)
        except ClientError as error:
            log.warning("a text is not said: %s", error)
            await self.fail(str(error), type(error).__name__)
        if not begun:
            await self._send(Event("audio-start", {**shape, "timestamp": 0}))
        await self._send(Event("audio-stop", {}))

    async def fail(self, text: str, code: str) -> None:
        """Send an `error` event."""
        await self._send(Event("error", {"text": text, "code": code}))


def _text(event: Event) -> str:
    """The text of an event; raises ProtocolError."""
    text = event.data.get("text")
    if not isinstance(text, str) or len(text) > MAX_TEXT or "\0" in text:
        raise ProtocolError(f"text of {event.type} is not a string of at most {MAX_TEXT} characters")
    return text.encode("utf-8", "replace").decode()


def _detail(stats: dict[str, Any]) -> str:
    return f": {stats['detail']}" if "detail" in stats else ""
