"""Work that nobody waits for when the daemon ends: a model may take a minute to load, a stop must not."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from edgettsd.config import ConfigError
from edgettsd.errors import SpeechError

LOADER = "tts-load"
REFUSALS = (OSError, ValueError, RuntimeError, MemoryError)
"""What libraries raise that cannot load a model; anything else is a mistake in the program."""


def describe(error: BaseException) -> str:
    """What to tell people of an error: its own text where that was written for them, else its kind too."""
    text = str(error)
    if isinstance(error, MemoryError):
        return text or "out of memory"
    if text and isinstance(error, (SpeechError, ConfigError, *REFUSALS)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def in_loader(work: Callable[[], None]) -> None:
    """Run `work` in a thread named LOADER; raises what it raises. A cancelled caller leaves it running."""
    loop = asyncio.get_running_loop()
    # Errors are the future's result, because a future refuses some of them (StopIteration) as its exception.
    done: asyncio.Future[BaseException | None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(error)

    def run() -> None:
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failure = error
        # A loop that has ended meanwhile refuses the call.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, failure)

    threading.Thread(target=run, name=LOADER, daemon=True).start()
    if (error := await done) is not None:
        raise error


def still_loading() -> bool:
    """Whether such a thread, or one of a stage that reads its weights, is at work.

    The interpreter is then not taken down around it.
    """
    return any(thread.name.startswith("tts-") for thread in threading.enumerate())
