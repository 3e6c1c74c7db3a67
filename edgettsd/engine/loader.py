"""Work that nobody waits for when the daemon ends: a model may take a minute to load, a stop must not."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

LOADER = "tts-load"


async def in_loader(work: Callable[[], None]) -> None:
    """Run `work` in a thread named LOADER; raises what it raises. A cancelled caller leaves it running."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failure = error
        # The loop may have ended meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, failure)

    threading.Thread(target=run, name=LOADER, daemon=True).start()
    await done


def still_loading() -> bool:
    """Whether such a thread, or one of a stage that reads its weights, is at work.

    The interpreter is then not taken down around it.
    """
    return any(thread.name.startswith("tts-") for thread in threading.enumerate())
