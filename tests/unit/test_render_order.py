"""Renders (SynthesizeToFd) and speech for the device beside each other: who waits for whom, who ends whom.

Both engines keep the same rules.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from engine_rig import expected_pcm

from cython_kernels.fake_sink import FakeSink
from edgettsd.config import Config
from edgettsd.engine._api import Engine, Priority, Reason, Request, SpeakOptions
from edgettsd.engine.engine import Engine as RealEngine
from edgettsd.engine.fake import FakeEngine
from edgettsd.engine.parts import FakeParts

FRAMES = 25
# 25 frames in either engine.
TEXT = "Hello. fake:seconds=2"


def make(kind: str) -> Engine:
    if kind == "fake":
        return FakeEngine(Config(), 100.0)
    sink = FakeSink(speed=20, buffer=1 << 16, capture=1 << 22)
    return RealEngine(Config(), load=lambda _: FakeParts(eos_after=FRAMES), sink=sink)


@pytest.fixture(params=["fake", "real"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return make(request.param)


class Driver:
    """A started engine with its ends written down, and readers of its renders."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ends: dict[int, Reason] = {}
        self.order: list[int] = []
        self.bytes: dict[int, asyncio.Task[bytes]] = {}
        self.starts: list[int] = []
        engine.subscribe(
            started=lambda utterance, info: self.starts.append(utterance), finished=self._on_finished
        )

    def _on_finished(self, utterance: int, reason: Reason, stats: Any) -> None:
        assert utterance not in self.ends, "finished twice"
        self.ends[utterance] = reason
        self.order.append(utterance)

    def say(self, priority: Priority, *, client: str = ":1.1", interrupt: bool = False) -> int:
        return self.engine.speak(Request(TEXT, SpeakOptions(priority=priority, interrupt=interrupt), client))

    def render(
        self,
        priority: Priority,
        *,
        client: str = ":1.1",
        interrupt: bool = False,
        text: str = TEXT,
        read: asyncio.Event | None = None,
    ) -> int:
        """A render whose reader reads at once, or from the event on."""
        reader, writer = os.pipe()
        options = SpeakOptions(priority=priority, interrupt=interrupt)
        utterance = self.engine.speak(Request(text, options, client, writer))

        async def take() -> bytes:
            if read is not None:
                await read.wait()
            return await asyncio.to_thread(_read_all, reader)

        self.bytes[utterance] = asyncio.create_task(take())
        return utterance

    async def started(self, utterance: int) -> None:
        async with asyncio.timeout(20):
            while utterance not in self.starts:
                await asyncio.sleep(0.005)

    async def all_ended(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.ends) < count:
                await asyncio.sleep(0.005)


def _read_all(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def drive(engine: Engine, test: Any) -> None:
    async def body() -> None:
        driver = Driver(engine)
        await engine.start()
        try:
            await test(driver)
        finally:
            await engine.stop()
            await asyncio.gather(*driver.bytes.values())

    asyncio.run(body())


@pytest.mark.parametrize("priority", Priority)
def test_renders_at_the_same_time_are_all_delivered(engine: Engine, priority: Priority) -> None:
    async def test(d: Driver) -> None:
        ids = [d.render(priority, client=f":1.{n}") for n in range(3)]
        await d.all_ended(3)
        assert d.starts == ids and set(d.ends.values()) == {Reason.COMPLETED}
        got = [await d.bytes[utterance] for utterance in ids]
        assert all(len(data) == 2 * 1920 * FRAMES for data in got)
        if isinstance(engine, RealEngine):
            assert all(data == expected_pcm(FRAMES) for data in got)

    drive(engine, test)


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("interrupt", [False, True])
def test_speech_does_not_end_anybodys_render(engine: Engine, priority: Priority, interrupt: bool) -> None:
    async def test(d: Driver) -> None:
        ids = [d.render(each) for each in Priority]
        ids.append(d.say(priority, interrupt=interrupt))
        await d.all_ended(len(ids))
        assert set(d.ends.values()) == {Reason.COMPLETED}

    drive(engine, test)


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("interrupt", [False, True])
def test_a_render_does_not_end_what_is_spoken_or_waits(
    engine: Engine, priority: Priority, interrupt: bool
) -> None:
    async def test(d: Driver) -> None:
        ids = [d.say(Priority.PROGRESS), d.say(Priority.PROGRESS)]
        ids.append(d.render(priority, interrupt=interrupt))
        await d.all_ended(len(ids))
        assert set(d.ends.values()) == {Reason.COMPLETED}

    drive(engine, test)


def test_interrupt_of_a_render_ends_the_callers_own_renders(engine: Engine) -> None:
    async def test(d: Driver) -> None:
        mine, waiting = d.render(Priority.MESSAGE), d.render(Priority.TEXT)
        theirs, important = d.render(Priority.MESSAGE, client=":1.2"), d.render(Priority.IMPORTANT)
        new = d.render(Priority.MESSAGE, interrupt=True)
        await d.all_ended(5)
        replaced = {utterance for utterance, reason in d.ends.items() if reason is Reason.REPLACED}
        assert replaced == {mine, waiting}
        assert d.ends[theirs] is d.ends[important] is d.ends[new] is Reason.COMPLETED

    drive(engine, test)


def test_a_waiting_notification_for_the_device_is_dropped_by_speech_alone(engine: Engine) -> None:
    async def test(d: Driver) -> None:
        first = d.render(Priority.MESSAGE)
        notification = d.say(Priority.NOTIFICATION)
        second = d.render(Priority.MESSAGE)
        await d.all_ended(3)
        assert set(d.ends.values()) == {Reason.COMPLETED}
        assert set(d.order) == {first, second, notification}

    drive(engine, test)


LONG = "Hello. " * 40 + "fake:seconds=80"


@pytest.mark.parametrize("priority", [Priority.IMPORTANT, Priority.MESSAGE])
def test_a_long_render_stands_back_for_speech(engine: Engine, priority: Priority) -> None:
    async def test(d: Driver) -> None:
        long = d.render(Priority.MESSAGE, text=LONG)
        await d.started(long)
        speech = d.say(priority)
        await d.started(speech)
        assert long not in d.ends and d.engine.active == speech
        await d.all_ended(2)
        assert d.order == [speech, long] and set(d.ends.values()) == {Reason.COMPLETED}
        assert d.starts == [long, speech], "it starts once"
        assert len(await d.bytes[long]) == 2 * 1920 * 1000 + silence(engine, 39)

    drive(engine, test)


def test_a_long_render_does_not_stand_back_for_speech_of_a_lower_priority(engine: Engine) -> None:
    async def test(d: Driver) -> None:
        long = d.render(Priority.MESSAGE, text=LONG)
        await d.started(long)
        speech, other = d.say(Priority.TEXT), d.render(Priority.MESSAGE)
        await d.all_ended(3)
        assert d.starts == [long, other, speech]

    drive(engine, test)


def test_speech_is_not_held_up_for_a_render(engine: Engine) -> None:
    async def test(d: Driver) -> None:
        speech = d.say(Priority.PROGRESS)
        await d.started(speech)
        render = d.render(Priority.IMPORTANT)
        await d.all_ended(2)
        assert d.starts == [speech, render]

    drive(engine, test)


def test_others_go_on_while_a_reader_takes_nothing(engine: Engine) -> None:
    async def test(d: Driver) -> None:
        read = asyncio.Event()
        stuck = d.render(Priority.IMPORTANT, text=LONG, read=read)
        await d.started(stuck)
        await asyncio.sleep(0.1)
        others = [d.say(Priority.PROGRESS), d.render(Priority.TEXT, client=":1.2")]
        await d.all_ended(2)
        assert set(d.order) == set(others)
        read.set()
        await d.all_ended(3)
        assert set(d.ends.values()) == {Reason.COMPLETED}
        assert len(await d.bytes[stuck]) == 2 * 1920 * 1000 + silence(engine, 39)

    drive(engine, test)


def test_a_render_that_stands_back_can_be_aborted(engine: Engine) -> None:
    async def test(d: Driver) -> None:
        renders = [d.render(Priority.MESSAGE, text=LONG, client=f":1.{n}") for n in range(3)]
        await d.started(renders[0])
        speech = d.say(Priority.IMPORTANT)
        await d.started(speech)
        assert d.engine.abort(renders[0], ":1.0") is True
        await d.all_ended(1)
        assert d.ends == {renders[0]: Reason.ABORTED}
        assert d.engine.abort_all() == 3
        await d.all_ended(4)
        assert set(d.ends.values()) == {Reason.ABORTED}

    drive(engine, test)


def silence(engine: Engine, gaps: int) -> int:
    """Bytes of the pauses between sentences."""
    return 2 * 4800 * gaps if isinstance(engine, RealEngine) else 0
