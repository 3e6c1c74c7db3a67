"""What the tests of SynthesizeToFd against readers of every kind have in common."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dbus_fast import Variant
from integration.harness import Client, System

Start = Callable[..., System]

ERROR = "org.edgettsd.Error."
IMPORTANT = {"priority": Variant("s", "important")}
SENTENCE = 25 * 1920 * 2
QUIET = '[audio]\nsink = "fake"\n'


@contextmanager
def pipe(size: int = 4096) -> Iterator[tuple[int, int]]:
    """A pipe that holds `size` bytes; both ends are closed at the end if they are open."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, size)
    try:
        yield reader, writer
    finally:
        for fd in (reader, writer):
            try:
                os.close(fd)
            except OSError:
                continue


def text(sentences: int) -> str:
    return " ".join(["Hello there."] * sentences)


async def began(client: Client, utterance: int) -> float:
    """Seconds until Started; fails after 5."""
    asked = time.monotonic()
    async with asyncio.timeout(5):
        await client.started(utterance)
    return time.monotonic() - asked
