"""An engine over scripted kernels and a scripted sink, driven on a private loop."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from cython_kernels.fake import frame_codes, frame_pcm
from cython_kernels.playout import FakeSink
from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request, SpeakOptions
from edgettsd.engine.engine import Engine
from edgettsd.engine.parts import FakeParts

SPF = 1920


class Rig:
    """A running engine and what it told."""

    def __init__(self, parts: FakeParts, sink: FakeSink, config: Config) -> None:
        self.parts, self.sink = parts, sink
        self.engine = Engine(config, load=lambda _: parts, sink=sink)
        self.started: list[int] = []
        self.finished: list[tuple[int, Reason]] = []
        self.stats: dict[int, dict[str, Any]] = {}
        self._changed = asyncio.Event()
        self.engine.on_started = self._on_started
        self.engine.on_finished = self._on_finished

    def _on_started(self, utterance: int, info: Any) -> None:
        self.started.append(utterance)
        self._changed.set()

    def _on_finished(self, utterance: int, reason: Reason, stats: Any) -> None:
        self.finished.append((utterance, reason))
        self.stats[utterance] = dict(stats)
        self._changed.set()

    def say(self, text: str = "Hello.", *, client: str = "a", fd: int | None = None, **options: Any) -> int:
        return self.engine.speak(Request(text, SpeakOptions(**options), client, fd))

    async def until(self, test: Callable[[], bool], seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not test():
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), 0.02)
                except TimeoutError:
                    continue

    async def ended(self, utterance: int) -> Reason:
        await self.until(lambda: utterance in self.stats)
        return dict(self.finished)[utterance]


def with_config(**engine: Any) -> Config:
    config = Config()
    return dataclasses.replace(config, engine=dataclasses.replace(config.engine, **engine))


def drive(
    test: Callable[[Rig], Awaitable[None]],
    *,
    parts: FakeParts | None = None,
    sink: FakeSink | None = None,
    config: Config | None = None,
) -> Rig:
    """Run `test` against a started engine; stops the engine and demands one Finished per utterance."""

    async def main() -> Rig:
        rig = Rig(
            parts or FakeParts(),
            sink or FakeSink(speed=20, buffer=1 << 16, capture=1 << 22),
            config or Config(),
        )
        await rig.engine.start()
        try:
            await test(rig)
        finally:
            await rig.engine.stop()
        ids = [utterance for utterance, _ in rig.finished]
        assert len(ids) == len(set(ids)), "an utterance finished twice"
        return rig

    return asyncio.run(main())


def expected_pcm(frames: int, groups: int = 16) -> bytes:
    """What one sentence of the scripted model sounds like, s16le."""
    pcm = [frame_pcm(frame_codes(k, groups=groups, vocab=2048, codes=2150), k, SPF) for k in range(frames)]
    return np.clip(np.rint(np.concatenate(pcm) * 32768), -32768, 32767).astype("<i2").tobytes()
