"""One SynthesizeToFd as an asynchronous stream of samples."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from edgettsd.bus import OPTION_TYPES
from edgettsd.client._daemon import Daemon, connect, variant_options
from edgettsd.engine._api import Reason

BYTES_A_SAMPLE = 2
# A frame is a few thousand bytes: small reads pass each frame on when it comes.
PIPE_BYTES = 16384


class Render:
    """An utterance on its way: its samples by `async for`, then `finished()`.

    `sample_rate` is in Hz; the samples are mono s16le, each piece a whole number of them.
    """

    def __init__(self, daemon: Daemon, utterance: int, sample_rate: int, reader: int) -> None:
        self.utterance = utterance
        self.sample_rate = sample_rate
        self._daemon = daemon
        self._reader = reader

    async def __aiter__(self) -> AsyncIterator[bytes]:
        odd = b""
        while data := await self._read():
            data = odd + data
            whole = len(data) - len(data) % BYTES_A_SAMPLE
            data, odd = data[:whole], data[whole:]
            if data:
                yield data

    async def finished(self) -> tuple[Reason, dict[str, Any]]:
        """Wait for the end: the reason and the figures. Raises UnreachableError."""
        return await self._daemon.finished(self.utterance)

    def started(self) -> Mapping[str, Any] | None:
        """What Started told, None before."""
        return self._daemon.start_info(self.utterance)

    async def _read(self) -> bytes:
        """What the pipe has, empty at its end; waits for it."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._reader, PIPE_BYTES)
            except BlockingIOError:
                pass
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self._reader, _resolve, readable)
            try:
                await readable
            finally:
                loop.remove_reader(self._reader)


@asynccontextmanager
async def render(session: bool, address: str, text: str, options: Mapping[str, Any]) -> AsyncIterator[Render]:
    """Let the daemon synthesise `text`; leaving the context before the end aborts the utterance.

    The connection is of this utterance alone: the daemon's limits count by connection, and its end is the
    utterance's end. `options` are plain values of the D-Bus contract; None is left out. Raises ClientError.
    """
    values = variant_options(OPTION_TYPES, {**options, "client_bound": True})
    async with connect(session, address) as daemon:
        await daemon.listen()
        rate = int((await daemon.properties())["SampleRate"])
        reader, writer = os.pipe()
        try:
            with contextlib.suppress(OSError):
                fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            os.set_blocking(reader, False)
            try:
                utterance = await daemon.call("SynthesizeToFd", "sha{sv}", text, 0, values, fds=[writer])
            finally:
                os.close(writer)
            yield Render(daemon, utterance, rate, reader)
        finally:
            os.close(reader)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
