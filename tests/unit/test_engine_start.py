"""What callers may do while the model is loaded, and what becomes of it."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable

import pytest
from engine_rig import Rig, expected_pcm, with_config

from cython_kernels.fake_sink import FakeSink
from cython_kernels.pipe import DecoderHandle, TalkerHandle
from edgettsd.config import Config, ConfigError
from edgettsd.engine._api import Reason, State
from edgettsd.engine.engine import Engine
from edgettsd.engine.parts import FakeParts
from edgettsd.errors import ModelInvalidError, NotReadyError, QueueFullError, SpeechError, UnknownVoiceError

FRAMES = 10


class SlowParts(FakeParts):
    """Known at once; the talker is there once `go` is set, or fails with `error`."""

    def __init__(self) -> None:
        super().__init__(eos_after=FRAMES)
        self.go = threading.Event()
        self.loading = threading.Event()
        self.error: Exception | None = None
        self.refused: SpeechError | None = None
        self.closed = 0

    def check(self, options: object) -> None:
        if self.refused is not None:
            raise self.refused

    def talker(self) -> TalkerHandle:
        self.loading.set()
        assert self.go.wait(20)
        if self.error is not None:
            raise self.error
        return super().talker()

    def close(self) -> None:
        self.closed += 1


def starting(test: Callable[[Rig, SlowParts, asyncio.Task[None]], object]) -> tuple[Rig, SlowParts]:
    """Run `test` while the engine starts, then stop the engine."""

    async def main() -> tuple[Rig, SlowParts]:
        parts = SlowParts()
        rig = Rig(parts, FakeSink(speed=20, buffer=1 << 16, capture=1 << 20), Config())
        await rig.engine.load()
        task = asyncio.create_task(rig.engine.start())
        await asyncio.to_thread(parts.loading.wait, 10)
        try:
            await test(rig, parts, task)  # type: ignore[misc]
        finally:
            parts.go.set()
            await rig.engine.stop()
            await asyncio.gather(task, return_exceptions=True)
        return rig, parts

    return asyncio.run(main())


def test_the_model_is_described_before_it_is_loaded() -> None:
    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        engine = rig.engine
        assert engine.state is State.STARTING
        assert (engine.model_name, engine.sample_rate, len(engine.voices)) == ("fake", 24_000, 1)
        assert engine.heartbeat()
        assert engine.generation == 0
        assert engine.stats()["underruns"] == 0

    starting(test)


def test_speech_waits_and_is_spoken_in_order() -> None:
    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        ids = [rig.say(client=client) for client in "ab"]
        assert rig.engine.queue_length == 2
        assert rig.engine.state is State.STARTING
        parts.go.set()
        await task
        assert [await rig.ended(number) for number in ids] == [Reason.COMPLETED] * 2
        assert rig.started == ids
        assert rig.engine.state is State.IDLE

    rig, parts = starting(test)
    assert rig.sink.heard() == 2 * expected_pcm(FRAMES)
    assert parts.closed == 1


def test_the_same_is_refused_as_later() -> None:
    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        parts.refused = UnknownVoiceError("no such voice")
        with pytest.raises(UnknownVoiceError):
            rig.say()
        parts.refused = None
        for _ in range(Config().engine.client_limit):
            rig.say()
        with pytest.raises(QueueFullError):
            rig.say()
        assert rig.engine.abort_all() == Config().engine.client_limit

    rig, _ = starting(test)
    assert {reason for _, reason in rig.finished} == {Reason.ABORTED}


def test_waiting_speech_can_be_aborted_and_its_client_may_leave() -> None:
    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        mine, bound, kept = rig.say(client="a"), rig.say(client="b", client_bound=True), rig.say(client="c")
        assert rig.engine.abort(mine, "a")
        rig.engine.client_gone("b")
        parts.go.set()
        assert await rig.ended(kept) is Reason.COMPLETED
        assert await rig.ended(mine) is Reason.ABORTED
        assert await rig.ended(bound) is Reason.ABORTED
        assert rig.started == [kept]

    starting(test)


def test_a_pause_before_the_start_holds() -> None:
    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        number = rig.say()
        rig.engine.pause()
        parts.go.set()
        await task
        assert rig.engine.state is State.PAUSED
        await asyncio.sleep(0.1)
        assert not rig.started
        rig.engine.resume()
        assert await rig.ended(number) is Reason.COMPLETED

    starting(test)


def test_a_model_that_cannot_be_loaded_ends_what_waits_with_the_reason() -> None:
    reader, writer = os.pipe()

    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        number, into_fd = rig.say(), rig.say(fd=writer)
        parts.error = RuntimeError("the weights are torn")
        parts.go.set()
        with pytest.raises(ModelInvalidError, match="the weights are torn"):
            await task
        # Told before the failure is.
        assert dict(rig.finished) == {number: Reason.ERROR, into_fd: Reason.ERROR}
        assert "the weights are torn" in rig.stats[number]["detail"]
        with pytest.raises(NotReadyError, match="the weights are torn"):
            rig.say()

    _, parts = starting(test)
    assert os.read(reader, 1) == b""
    os.close(reader)
    assert parts.closed == 1


@pytest.mark.parametrize(
    "error, raised, told",
    [
        (MemoryError(), ModelInvalidError, "model /models/x: out of memory"),
        (
            OSError(5, "Input/output error"),
            ModelInvalidError,
            r"model /models/x: \[Errno 5\] Input/output error",
        ),
        (StopIteration(), ModelInvalidError, "StopIteration"),
        (KeyError("rope"), KeyError, "KeyError: 'rope'"),
        (AssertionError(), AssertionError, "AssertionError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_whatever_a_loader_raises_ends_the_start_with_a_reason(
    error: Exception, raised: type[Exception], told: str
) -> None:
    async def main() -> None:
        parts = SlowParts()
        parts.error = error
        rig = Rig(parts, FakeSink(), Config().updated({"model": {"path": "/models/x"}}, "test"))
        await rig.engine.load()
        number = rig.say()
        parts.go.set()
        async with asyncio.timeout(10):
            with pytest.raises(raised):
                await rig.engine.start()
        assert dict(rig.finished) == {number: Reason.ERROR}
        assert re.fullmatch(f".*{told}", rig.stats[number]["detail"])
        with pytest.raises(NotReadyError, match=told):
            rig.say()
        await rig.engine.stop()

    asyncio.run(main())


def test_a_file_that_cannot_be_written_is_not_put_down_to_the_model() -> None:
    async def main() -> None:
        config = Config().updated({"audio": {"sink": "file", "device": "/nonexistent/x.wav"}}, "test")
        engine = Engine(config, load=lambda _: FakeParts())
        with pytest.raises(ConfigError, match=r"^\[audio\] device: .*No such file.*'/nonexistent/x.wav'"):
            await engine.start()
        await engine.stop()

    asyncio.run(main())


@pytest.mark.parametrize("threads", [0, 64], ids=["apart", "one by one"])
def test_a_decoder_that_cannot_be_loaded_is_told_while_the_talker_still_loads(threads: int) -> None:
    class NoDecoder(SlowParts):
        def decoder(self) -> DecoderHandle:
            raise RuntimeError("the decoder is torn")

    async def main() -> None:
        parts = NoDecoder()
        config = with_config(threads_generator=threads, threads_decoder=threads)
        engine = Engine(config, load=lambda _: parts, sink=FakeSink())
        try:
            async with asyncio.timeout(10):
                with pytest.raises(ModelInvalidError, match="the decoder is torn"):
                    await engine.start()
            assert not parts.go.is_set()
        finally:
            parts.go.set()
            await engine.stop()

    asyncio.run(main())


def test_stopping_ends_what_waits_as_aborted_and_closes_the_parts_once() -> None:
    async def test(rig: Rig, parts: SlowParts, task: asyncio.Task[None]) -> None:
        number = rig.say()
        await rig.engine.stop()
        assert dict(rig.finished) == {number: Reason.ABORTED}
        # The thread that loads still uses them.
        assert parts.closed == 0
        parts.go.set()
        await asyncio.gather(task, return_exceptions=True)
        assert rig.engine.state is State.STOPPING

    _, parts = starting(test)
    assert parts.closed == 1


def test_before_the_model_is_described_nothing_is_accepted() -> None:
    engine = Engine(Config(), load=lambda _: FakeParts(), sink=FakeSink())
    rig = object.__new__(Rig)
    rig.engine = engine
    with pytest.raises(NotReadyError, match="starting"):
        rig.say()


def test_a_model_that_cannot_be_described_is_refused() -> None:
    def load(config: Config) -> FakeParts:
        raise ModelInvalidError("no manifest")

    engine = Engine(Config(), load=load, sink=FakeSink())
    with pytest.raises(ModelInvalidError, match="no manifest"):
        asyncio.run(engine.load())
