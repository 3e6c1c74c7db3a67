"""A long render and speech that goes before it, over the bus, with the built-in voice."""

from __future__ import annotations

import asyncio
import os
import threading
import time

from dbus_fast import Variant
from integration.abort_latency import SENTENCE, daemon
from integration.harness import Client

IMPORTANT = {"priority": Variant("s", "important")}


class Taker(threading.Thread):
    """Reads a pipe to its end as fast as it can."""

    def __init__(self) -> None:
        super().__init__()
        self._fd, self.writer = os.pipe()
        self.data = b""
        self.start()

    def run(self) -> None:
        """Read."""
        while piece := os.read(self._fd, 65_536):
            self.data += piece
        os.close(self._fd)


async def render(client: Client, text: str) -> tuple[int, Taker]:
    """Begin to render a text, and a reader of it."""
    taker = Taker()
    utterance = await client.to_fd(text, taker.writer, seed=Variant("t", 5))
    os.close(taker.writer)
    await client.started(utterance)
    return utterance, taker


async def speech_starts(client: Client) -> float:
    """Seconds from the call of an important Speak to its first sample."""
    begun = time.monotonic()
    utterance = await client.speak("Fire in the kitchen!", **IMPORTANT)
    await client.started(utterance)
    took = time.monotonic() - begun
    assert await client.finished(utterance) == "completed"
    return took


def test_important_speech_begins_while_a_long_text_is_rendered() -> None:
    async def test(address: str) -> None:
        async with Client(address) as client:
            await speech_starts(client)
            alone = await speech_starts(client)
            text = 16 * SENTENCE
            plain, expected = await render(client, text)
            assert await client.finished(plain) == "completed"
            await asyncio.to_thread(expected.join)
            assert len(expected.data) > 2 * 24_000 * 80
            long, taken = await render(client, text)
            took = await speech_starts(client)
            # A machine that is so fast has the render made before.
            stood_back = not client.of("Finished", long)
            print(f"important speech begins after {took:.2f} s, {alone:.2f} s without a render")
            assert took < 1.0 + 10 * alone + 1.0
            assert await client.finished(long) == "completed"
            assert not stood_back or "away_seconds" in client.of("Finished", long)[0][2]
            await asyncio.to_thread(taken.join)
            assert taken.data == expected.data

    with daemon() as system:
        asyncio.run(test(system.bus.address))
