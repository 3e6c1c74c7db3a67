"""An engine over scripted kernels and a scripted sink, driven on a private loop."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cython_kernels.fake import frame_codes, frame_pcm
from cython_kernels.fake_sink import FakeSink
from cython_kernels.probe_audio import faded
from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request, SpeakOptions
from edgettsd.engine.engine import Engine
from edgettsd.engine.parts import FakeParts

SIZES = FakeParts()
SPF = SIZES.samples_per_frame
# Frames that the scripted devices hold.
DEVICE = 9600


class Rig:
    """A running engine and what it told."""

    def __init__(self, parts: FakeParts, sink: FakeSink, config: Config) -> None:
        self.parts, self.sink = parts, sink
        self.engine = Engine(config, load=lambda _: parts, sink=sink)
        self.started: list[int] = []
        self.finished: list[tuple[int, Reason]] = []
        self.stats: dict[int, dict[str, Any]] = {}
        self.heard_at_end: dict[int, int] = {}
        self._changed = asyncio.Event()
        self.engine.subscribe(started=self._on_started, finished=self._on_finished)

    def _on_started(self, utterance: int, info: Any) -> None:
        self.started.append(utterance)
        self._changed.set()

    def _on_finished(self, utterance: int, reason: Reason, stats: Any) -> None:
        self.finished.append((utterance, reason))
        self.stats[utterance] = dict(stats)
        # The next utterance does not play before this returns.
        self.heard_at_end[utterance] = self.sink.counts()["heard"]
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

    async def ended(self, utterance: int, seconds: float = 10.0) -> Reason:
        await self.until(lambda: utterance in self.stats, seconds)
        return dict(self.finished)[utterance]


def with_config(**engine: Any) -> Config:
    config = Config()
    return dataclasses.replace(config, engine=dataclasses.replace(config.engine, **engine))


def with_delivery(config: Config | None = None, **delivery: Any) -> Config:
    config = config or Config()
    return dataclasses.replace(config, delivery=dataclasses.replace(config.delivery, **delivery))


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


def frame(number: int) -> list[int]:
    """The codes of a frame of the scripted model."""
    return frame_codes(number, groups=SIZES.groups, vocab=SIZES.codes, codes=SIZES.vocab - 1)


def expected_pcm(frames: int) -> bytes:
    """What one sentence of the scripted model sounds like, s16le."""
    pcm = [frame_pcm(frame(k), k, SPF) for k in range(frames)]
    return np.clip(np.rint(np.concatenate(pcm) * 32768), -32768, 32767).astype("<i2").tobytes()


def with_fades(samples: npt.NDArray[np.int16], at: int, fades: list[Any]) -> npt.NDArray[np.int16]:
    """Samples that were heard from `at` on, with those of the sink's fades that fall into them."""
    samples = samples.copy()
    for first, length, heard, rising in fades:
        if at <= first and heard and first + heard <= at + len(samples):
            part = slice(first - at, first - at + heard)
            samples[part] = np.frombuffer(faded(samples[part].tobytes(), length, rising=rising), np.int16)
    return samples


def heard_as_told(
    rig: Rig,
    told: dict[int, tuple[float, int]],
    frames: int,
    pause: int,
    fade_ms: int = 0,
    xrun_at: int = -1,
) -> str:
    """What is wrong with what the device heard; empty when nothing is.

    `told` are the volume and the number of sentences of each utterance, which tell them apart; `frames` of a
    sentence, `pause` samples between two. Every utterance must be heard from its beginning, in the order in
    which they started, whole when it completed; at its Finished the device must have heard what it ever will.
    At `xrun_at` the device ran dry by script, with up to DEVICE frames that it had and played later.
    What faded around pauses and before aborts must have the gains that it should have, and no other sample.
    """
    heard = np.frombuffer(rig.sink.heard(), "<i2")
    clean = np.frombuffer(expected_pcm(frames), "<i2").astype(np.float32) / 32768
    reasons, at = dict(rig.finished), 0
    gaps = set(rig.sink.gaps())
    fades, echo = rig.sink.fades(), rig.sink.rate * fade_ms // 1000
    if len(set(rig.started)) != len(rig.started):
        return "an utterance started twice"
    for utterance in rig.started:
        volume, sentences = told[utterance]
        if sentences == 0:
            continue
        one = np.rint(clean * np.float32(volume) * 32768).clip(-32768, 32767).astype(np.int16)
        whole = np.concatenate([one, *[np.zeros(pause, np.int16), one] * (sentences - 1)])
        # A loud end goes on as its own mirror image, unless the device ran dry just then: see playout.
        end = body = len(whole)
        if at + body not in gaps and abs(int(whole[-1])) >= 64:
            tail = faded(whole[-2 : -2 - echo : -1].tobytes(), echo)
            whole = np.concatenate([whole, np.frombuffer(tail, np.int16)])
            # Run dry in the middle of the echo, it ends there: after silence the rest would be a click.
            whole = whole[
                : min((gap - at for gap in gaps if gap != xrun_at and gap - at > body), default=None)
            ]
            # Run dry by script it still had the last samples, and perhaps some of the echo.
            scripted = xrun_at in gaps and body - DEVICE <= xrun_at - at <= len(whole)
            end = body if scripted else len(whole)
        # Up to its Finished only: the first sample of the next one may be the next of this one by chance.
        rest = heard[at : min(at + len(whole), rig.heard_at_end[utterance])]
        same = rest == with_fades(whole, at, fades)[: len(rest)]
        length = len(rest) if same.all() else int(np.argmin(same))
        if reasons[utterance] is Reason.COMPLETED and length < end:
            return f"utterance {utterance} is not whole: {length} of {end} samples"
        at += length
        if rig.heard_at_end[utterance] != at:
            return f"utterance {utterance}: {at - rig.heard_at_end[utterance]} samples after its end"
    return "" if at == len(heard) else "something was heard that belongs to no utterance"
