"""The scripted engine keeps the engine's contract."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable

import pytest

from edgettsd.config import Config
from edgettsd.engine._api import Engine, Priority, Reason, Request, SpeakOptions, State
from edgettsd.engine.fake import FRAME_SAMPLES, FakeEngine
from edgettsd.engine.wav import wav_header
from edgettsd.errors import NotFoundError, NotReadyError, QueueFullError


class Recorder:
    """An engine with every callback written down."""

    def __init__(self, speed: float = 200.0, config: Config | None = None) -> None:
        self.engine = FakeEngine(config or Config(), speed)
        self.started: list[int] = []
        self.finished: dict[int, Reason] = {}
        self.stats: dict[int, dict] = {}
        self.changes = 0
        self.engine.subscribe(
            started=lambda utterance, info: self.started.append(utterance),
            finished=self._on_finished,
            changed=self._on_changed,
        )

    def _on_finished(self, utterance, reason, stats) -> None:
        assert utterance not in self.finished, "finished twice"
        self.finished[utterance] = reason
        self.stats[utterance] = dict(stats)

    def _on_changed(self) -> None:
        self.changes += 1

    def speak(
        self,
        text: str = "hello there",
        client: str = ":1.1",
        fd: int | None = None,
        format: str = "s16le",
        **options,
    ) -> int:
        return self.engine.speak(Request(text, SpeakOptions(**options), client, fd, format))

    async def ended(self, *utterances: int) -> list[Reason]:
        async with asyncio.timeout(5):
            while not all(utterance in self.finished for utterance in utterances):
                await asyncio.sleep(0.002)
        return [self.finished[utterance] for utterance in utterances]


def run(test: Callable[[Recorder], Awaitable[None]], **options) -> Recorder:
    async def body() -> Recorder:
        recorder = Recorder(**options)
        await recorder.engine.start()
        await test(recorder)
        await recorder.engine.stop()
        return recorder

    return asyncio.run(body())


def test_it_is_an_engine():
    engine: Engine = FakeEngine(Config())
    assert engine.state is State.STARTING
    with pytest.raises(NotReadyError, match="starting"):
        engine.speak(Request("x"))


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_speeds_are_refused(speed):
    with pytest.raises(ValueError, match="speed"):
        FakeEngine(Config(), speed)


def test_utterances_are_spoken_one_by_one_in_order():
    async def test(r: Recorder) -> None:
        ids = [r.speak(client=f":1.{n}") for n in range(3)]
        assert ids == [1, 2, 3]
        assert r.started == [], "nothing is reported before the caller knows the id"
        assert (r.engine.active, r.engine.queue_length, r.engine.state) == (1, 2, State.SPEAKING)
        assert await r.ended(*ids) == [Reason.COMPLETED] * 3
        assert (r.engine.active, r.engine.queue_length, r.engine.state) == (0, 0, State.IDLE)

    r = run(test)
    assert r.started == [1, 2, 3]
    assert r.stats[1]["frames"] == round(len("hello there") / 15 / 0.08)
    assert r.changes > 3


@pytest.mark.parametrize("word", ["runaway", "limit", "device", "error"])
def test_scripted_reasons(word):
    async def test(r: Recorder) -> None:
        assert await r.ended(r.speak(f"say fake:{word}")) == [Reason(word)]

    run(test)


def test_max_seconds_is_a_limit():
    async def test(r: Recorder) -> None:
        assert await r.ended(r.speak("fake:seconds=9", max_seconds=0.8)) == [Reason.LIMIT]
        assert r.stats[1]["frames"] == 10

    run(test)


def test_text_without_letters_finishes_without_audio():
    async def test(r: Recorder) -> None:
        assert await r.ended(r.speak("... !?"), r.speak("")) == [Reason.COMPLETED] * 2
        assert r.stats[1]["frames"] == r.stats[2]["frames"] == 0

    run(test)


def test_abort_active_waiting_foreign_and_ended():
    async def test(r: Recorder) -> None:
        first, second = r.speak("fake:seconds=60"), r.speak("fake:seconds=60")
        await asyncio.sleep(0.01)
        with pytest.raises(NotFoundError):
            r.engine.abort(first, ":1.2")
        assert r.engine.abort(second, ":1.1") is True
        assert r.engine.abort(first, ":1.1") is True
        assert await r.ended(first, second) == [Reason.ABORTED] * 2
        assert r.engine.abort(first, ":1.1") is False
        assert await r.ended(r.speak()) == [Reason.COMPLETED]

    r = run(test, speed=1.0)
    assert r.started == [1, 3], "an utterance aborted while waiting never starts"


def test_abort_all_counts_what_it_ends():
    async def test(r: Recorder) -> None:
        assert r.engine.abort_all() == 0
        ids = [r.speak("fake:seconds=60") for _ in range(3)]
        assert r.engine.abort_all() == 3
        assert r.engine.abort_all() == 0, "the active one is on its way out"
        assert await r.ended(*ids) == [Reason.ABORTED] * 3

    run(test)


def test_interrupt_and_dropped_notification_are_replaced():
    async def test(r: Recorder) -> None:
        ids = [r.speak("fake:seconds=60"), r.speak("fake:seconds=60")]
        dropped = r.speak(priority=Priority.NOTIFICATION)
        assert r.finished == {}, "even a dropped one is reported only after its id is returned"
        ids.append(r.speak(interrupt=True))
        assert await r.ended(*ids, dropped) == [
            Reason.REPLACED,
            Reason.REPLACED,
            Reason.COMPLETED,
            Reason.REPLACED,
        ]

    run(test)


def test_a_client_that_leaves_takes_only_its_bound_utterances():
    async def test(r: Recorder) -> None:
        bound, free = r.speak("fake:seconds=60", client_bound=True), r.speak()
        other = r.speak(client=":1.2", client_bound=True)
        await asyncio.sleep(0.01)
        r.engine.client_gone(":1.1")
        assert await r.ended(bound, free, other) == [Reason.ABORTED, Reason.COMPLETED, Reason.COMPLETED]

    run(test)


def test_pause_holds_and_resume_goes_on():
    async def test(r: Recorder) -> None:
        active = r.speak("fake:seconds=4")
        await asyncio.sleep(0.005)
        r.engine.pause()
        waiting = r.speak()
        await asyncio.sleep(0.1)
        assert r.finished == {}
        assert r.engine.state is State.PAUSED
        r.engine.resume()
        assert await r.ended(active, waiting) == [Reason.COMPLETED] * 2

    run(test)


def test_paused_before_anything_starts_and_abort_while_paused():
    async def test(r: Recorder) -> None:
        r.engine.pause()
        first, second = r.speak(), r.speak()
        await asyncio.sleep(0.02)
        assert r.started == []
        r.engine.abort(first, ":1.1")
        assert await r.ended(first) == [Reason.ABORTED]
        r.engine.resume()
        assert await r.ended(second) == [Reason.COMPLETED]

    run(test)


def test_stop_ends_everything_and_is_idempotent():
    async def test(r: Recorder) -> None:
        ids = [r.speak("fake:seconds=60") for _ in range(3)]
        await asyncio.sleep(0.01)
        await r.engine.stop()
        assert [r.finished[i] for i in ids] == [Reason.ABORTED] * 3
        assert r.engine.state is State.STOPPING
        with pytest.raises(NotReadyError, match="stopping"):
            r.speak()

    run(test)


def test_queue_full():
    async def test(r: Recorder) -> None:
        for _ in range(3):
            r.speak("fake:seconds=60")
        with pytest.raises(QueueFullError):
            r.speak()
        r.engine.abort_all()

    run(test, config=Config().updated({"engine": {"queue_limit": 2}}, "test"))


def test_heartbeat_stops_on_request():
    async def test(r: Recorder) -> None:
        assert r.engine.heartbeat()
        await r.ended(r.speak("fake:stall"))
        assert not r.engine.heartbeat()

    run(test)


def read_all(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


@pytest.mark.parametrize("format", ["s16le", "wav"])
def test_audio_to_a_pipe(format):
    async def test(r: Recorder) -> None:
        reader, writer = os.pipe()
        utterance = r.speak("fake:seconds=2", fd=writer, format=format)
        data = await asyncio.to_thread(read_all, reader)
        header = wav_header(24000) if format == "wav" else b""
        assert data[: len(header)] == header
        audio = data[len(header) :]
        assert len(audio) == 25 * FRAME_SAMPLES * 2
        assert max(struct.unpack(f"<{len(audio) // 2}h", audio)) == 1000
        assert await r.ended(utterance) == [Reason.COMPLETED]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(writer)

    run(test)


def test_audio_to_a_file(tmp_path):
    async def test(r: Recorder) -> None:
        with open(tmp_path / "a", "wb") as file:
            utterance = r.speak("fake:seconds=0.8", fd=os.dup(file.fileno()))
        assert await r.ended(utterance) == [Reason.COMPLETED]
        assert (tmp_path / "a").stat().st_size == 10 * FRAME_SAMPLES * 2

    run(test)


def test_a_full_device_is_an_error():
    async def test(r: Recorder) -> None:
        assert await r.ended(r.speak(fd=os.open("/dev/full", os.O_WRONLY))) == [Reason.ERROR]

    run(test)


def test_a_full_pipe_blocks_only_its_utterance_and_can_be_aborted():
    async def test(r: Recorder) -> None:
        reader, writer = os.pipe()
        utterance = r.speak("fake:seconds=60", fd=writer)
        await asyncio.sleep(0.1)
        assert r.finished == {}
        r.engine.abort(utterance, ":1.1")
        assert await r.ended(utterance) == [Reason.ABORTED]
        os.close(reader)

    run(test, speed=5000.0)


def test_a_pipe_closed_by_its_reader_cancels():
    async def test(r: Recorder) -> None:
        reader, writer = os.pipe()
        utterance = r.speak("fake:seconds=60", fd=writer)
        await asyncio.sleep(0.1)
        os.close(reader)
        assert await r.ended(utterance) == [Reason.ABORTED]

    run(test, speed=5000.0)


def test_descriptors_of_waiting_utterances_are_closed():
    async def test(r: Recorder) -> None:
        r.speak("fake:seconds=60")
        pipes = [os.pipe() for _ in range(3)]
        ids = [r.speak(fd=writer) for _, writer in pipes]
        r.engine.abort_all()
        await r.ended(*ids)
        for reader, _ in pipes:
            assert read_all(reader) == b""

    run(test)


def test_wav_header_fields():
    header = wav_header(24000, 1000)
    assert struct.unpack("<4sI4s4sIHHIIHH4sI", header) == (
        b"RIFF",
        1036,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        24000,
        48000,
        2,
        16,
        b"data",
        1000,
    )
    assert wav_header(24000)[-4:] == wav_header(24000, 2**32)[-4:] == b"\xff" * 4


def test_the_rate_shortens_speech():
    async def test(recorder: Recorder) -> None:
        ids = [recorder.speak("x" * 60, rate=rate) for rate in (0.5, None, 2.0)]
        await recorder.ended(*ids)
        assert [recorder.stats[utterance]["frames"] for utterance in ids] == [100, 50, 25]

    run(test)
