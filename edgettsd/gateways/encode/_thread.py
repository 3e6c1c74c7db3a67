"""An encoder off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from edgettsd.gateways.encode._api import Encoder

T = TypeVar("T")


class EncoderThread:
    """An encoder in a thread of its own; make one with `encoder_thread`. Its methods raise EncoderError."""

    def __init__(self, pool: ThreadPoolExecutor, encoder: Encoder) -> None:
        self.media_type = encoder.media_type
        self._pool = pool
        self._encoder = encoder

    async def start(self) -> bytes:
        """What comes before all samples."""
        return await _run(self._pool, self._encoder.start)

    async def encode(self, samples: bytes) -> bytes:
        """Whole mono s16le samples in, what is ready out; may be empty."""
        return await _run(self._pool, lambda: self._encoder.encode(samples))

    async def finish(self) -> bytes:
        """What is left after the last sample."""
        return await _run(self._pool, self._encoder.finish)


@asynccontextmanager
async def encoder_thread(make: Callable[[], Encoder]) -> AsyncIterator[EncoderThread]:
    """The encoder that `make` makes, closed at the end; raises what `make` raises."""
    # One thread for each: a call whose caller was cancelled still ends before `close` begins.
    pool = ThreadPoolExecutor(1, "encoder")
    made: list[Encoder] = []
    try:
        await _run(pool, lambda: made.append(make()))
        yield EncoderThread(pool, made[0])
    finally:
        pool.submit(_close, made)
        pool.shutdown(wait=False)


def _close(encoders: list[Encoder]) -> None:
    for encoder in encoders:
        encoder.close()


async def _run(pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, work)
