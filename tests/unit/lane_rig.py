"""An engine that only says what it does, and the lanes beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from edgettsd.engine._api import State
from edgettsd.engine.events import Listeners, Unsubscribe
from edgettsd.lanes import Lane
from edgettsd.supervisor import Supervisor


class Idle:
    """Speaks when the test says so."""

    def __init__(self) -> None:
        self.state = State.IDLE
        self._listeners = Listeners()

    def subscribe(self, **listeners: Any) -> Unsubscribe:
        return self._listeners.subscribe(**listeners)

    def become(self, state: State) -> None:
        self.state = state
        self._listeners.changed()


def with_lane(
    test: Callable[[Lane, Idle, Supervisor], Awaitable[None]], name: str = "test", **options: Any
) -> None:
    """Run `test` with a lane beside an idle engine; the supervisor ends it afterwards."""

    async def main() -> None:
        supervisor, engine = Supervisor(), Idle()
        lane = Lane(name, engine, supervisor, **options)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(60):
                await test(lane, engine, supervisor)
        finally:
            await supervisor.close()

    asyncio.run(main())
