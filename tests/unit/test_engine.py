"""The real engine over scripted kernels: order, abort, pause, faults, limits."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from engine_rig import SPF, Rig, drive, expected_pcm, with_config

from cython_kernels.fake_sink import FakeSink
from edgettsd.config import Config
from edgettsd.engine._api import Priority, Reason, State
from edgettsd.engine.engine import Engine
from edgettsd.engine.light import single_threads, weight_bytes
from edgettsd.engine.parts import FakeParts
from edgettsd.errors import ModelInvalidError, NotFoundError, NotReadyError, QueueFullError


def test_an_utterance_is_played_whole_and_exact() -> None:
    async def test(rig: Rig) -> None:
        assert rig.engine.state is State.IDLE
        utterance = rig.say()
        assert rig.engine.state is State.SPEAKING
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.engine.state is State.IDLE
        stats = rig.stats[utterance]
        assert stats["frames"] == 25
        assert stats["audio_seconds"] == 25 * 0.08
        assert stats["underruns"] == 0

    rig = drive(test)
    assert rig.started == [1]
    assert rig.sink.heard() == expected_pcm(25)


@pytest.mark.parametrize(
    "kind, chunks", [("fixed", (1,)), ("fixed", (4,)), ("ramp", (1, 4, 8)), ("adaptive", (1, 4, 8))]
)
@pytest.mark.parametrize("frames", [2, 3, 25])
def test_every_schedule_gives_the_same_samples(kind: str, chunks: tuple[int, ...], frames: int) -> None:
    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say()) is Reason.COMPLETED

    rig = drive(test, parts=FakeParts(eos_after=frames), config=with_config(schedule=kind, chunks=chunks))
    assert len(rig.sink.heard()) == 2 * SPF * frames
    if kind != "adaptive":
        assert rig.sink.heard() == drive(test, parts=FakeParts(eos_after=frames)).sink.heard()


def test_the_last_sample_is_heard_before_finished() -> None:
    heard_then: list[int] = []

    async def test(rig: Rig) -> None:
        def finished(utterance: int, reason: Reason, stats: object) -> None:
            heard_then.append(len(rig.sink.heard()))

        rig.engine.subscribe(finished=finished)
        await rig.ended(rig.say())

    drive(test, sink=FakeSink(speed=5, capture=1 << 20))
    assert heard_then == [2 * 25 * SPF]


def test_sentences_are_joined_by_the_configured_pause() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("One here. Two here. Three here.")
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.stats[utterance]["sentences"] == 3

    rig = drive(test, parts=FakeParts(eos_after=10), config=with_config(sentence_pause_ms=150))
    one, pause = expected_pcm(10), bytes(2 * 24 * 150)
    assert rig.sink.heard() == one + pause + one + pause + one


def test_nothing_to_say_finishes_without_audio() -> None:
    async def test(rig: Rig) -> None:
        for text in ("", "  \n ", "?!", "\u200b"):
            utterance = rig.say(text)
            assert await rig.ended(utterance) is Reason.COMPLETED
            assert rig.stats[utterance]["frames"] == 0

    rig = drive(test)
    assert rig.sink.counts()["opens"] == 0
    assert rig.started == []


def test_two_clients_are_played_whole_and_in_order() -> None:
    async def test(rig: Rig) -> None:
        ids = [rig.say("Hello.", client=client, volume=volume) for client, volume in (("a", 1.0), ("b", 0.0))]
        assert rig.engine.queue_length == 1
        await rig.ended(ids[-1])
        assert [utterance for utterance, _ in rig.finished] == ids

    rig = drive(test)
    assert rig.sink.heard() == expected_pcm(25) + bytes(2 * 25 * SPF)


def test_abort_computes_at_most_one_more_step_and_falls_silent() -> None:
    parts = FakeParts(eos_after=500, step_us=4000, substep_us=1000, groups=16)
    sink = FakeSink(speed=1.0, capture=1 << 20)

    async def test(rig: Rig) -> None:
        utterance = rig.say()
        await rig.until(lambda: utterance in rig.started)
        await rig.until(lambda: rig.engine.stats()["frames_generated"] >= 5)
        before, t0 = rig.engine.stats()["frames_generated"], time.monotonic()
        assert rig.engine.abort(utterance, "a")
        assert await rig.ended(utterance) is Reason.ABORTED
        assert time.monotonic() - t0 < 0.1
        heard = sink.counts()["heard"]
        await asyncio.sleep(0.1)
        assert sink.counts()["heard"] == heard
        assert rig.engine.stats()["frames_generated"] <= before + 1
        assert not rig.engine.abort(utterance, "a")
        parts_next = rig.say("Again.")
        await rig.until(lambda: parts_next in rig.started)

    drive(test, parts=parts, sink=sink)


def test_abort_of_waiting_unknown_and_foreign_utterances() -> None:
    async def test(rig: Rig) -> None:
        first, second = rig.say(), rig.say()
        with pytest.raises(NotFoundError):
            rig.engine.abort(second, "someone else")
        with pytest.raises(NotFoundError):
            rig.engine.abort(99, "a")
        assert rig.engine.abort(second, "a")
        assert await rig.ended(second) is Reason.ABORTED
        assert await rig.ended(first) is Reason.COMPLETED
        assert not rig.engine.abort(first, "a")
        assert second not in rig.started

    rig = drive(test)
    assert rig.sink.heard() == expected_pcm(25)


def test_interrupt_replaces_and_important_goes_first() -> None:
    async def test(rig: Rig) -> None:
        slow = rig.say(priority=Priority.MESSAGE)
        waiting = rig.say(priority=Priority.MESSAGE)
        important = rig.say(priority=Priority.IMPORTANT, interrupt=True)
        assert await rig.ended(slow) is Reason.REPLACED
        assert await rig.ended(waiting) is Reason.REPLACED
        assert await rig.ended(important) is Reason.COMPLETED

    drive(test, sink=FakeSink(speed=2))


def test_pause_holds_and_resume_goes_on_without_loss() -> None:
    sink = FakeSink(speed=4, capture=1 << 20)

    async def test(rig: Rig) -> None:
        utterance = rig.say()
        await rig.until(lambda: sink.counts()["heard"] > 4000)
        rig.engine.pause()
        assert rig.engine.state is State.PAUSED
        await asyncio.sleep(0.1)
        held = sink.counts()["heard"]
        await asyncio.sleep(0.2)
        assert sink.counts()["heard"] == held
        rig.engine.resume()
        assert await rig.ended(utterance) is Reason.COMPLETED

    rig = drive(test, sink=sink)
    assert rig.sink.heard() == expected_pcm(25)


def test_abort_while_paused_ends_at_once() -> None:
    async def test(rig: Rig) -> None:
        utterance, waiting = rig.say(), rig.say()
        await rig.until(lambda: utterance in rig.started)
        rig.engine.pause()
        rig.engine.abort(utterance, "a")
        assert await rig.ended(utterance) is Reason.ABORTED
        await asyncio.sleep(0.1)
        assert waiting not in rig.started
        rig.engine.resume()
        assert await rig.ended(waiting) is Reason.COMPLETED

    drive(test)


def test_the_queue_is_bounded() -> None:
    async def test(rig: Rig) -> None:
        rig.engine.pause()
        for _ in range(3):
            rig.say()
        with pytest.raises(QueueFullError, match="3"):
            rig.say()
        assert rig.engine.abort_all() == 3

    rig = drive(test, config=with_config(queue_limit=3))
    assert [reason for _, reason in rig.finished] == [Reason.ABORTED] * 3


def test_stop_ends_everything_as_aborted() -> None:
    async def test(rig: Rig) -> None:
        first, _ = rig.say(), rig.say()
        await rig.until(lambda: first in rig.started)

    rig = drive(test, sink=FakeSink(speed=1))
    assert dict(rig.finished) == {1: Reason.ABORTED, 2: Reason.ABORTED}
    assert rig.engine.state is State.STOPPING
    with pytest.raises(NotReadyError):
        rig.say()
    assert not [t for t in threading.enumerate() if t.name.startswith("edgettsd-")]


def test_client_bound_utterances_end_with_their_client() -> None:
    async def test(rig: Rig) -> None:
        bound = rig.say(client="gone", client_bound=True)
        free = rig.say(client="gone")
        rig.engine.client_gone("gone")
        assert await rig.ended(bound) is Reason.ABORTED
        assert await rig.ended(free) is Reason.COMPLETED

    drive(test)


@pytest.mark.parametrize(
    "parts, detail",
    [
        (FakeParts(talker_fail_at=4), "backend"),
        (FakeParts(decoder_fail_at=1), "decoder"),
        (FakeParts(segment_error=ValueError("no such row")), "no such row"),
    ],
)
def test_a_failing_kernel_ends_the_utterance_and_the_next_one_is_tried(parts: FakeParts, detail: str) -> None:
    async def test(rig: Rig) -> None:
        for _ in range(3):
            utterance = rig.say()
            assert await rig.ended(utterance) is Reason.ERROR
            assert detail in rig.stats[utterance]["detail"]
            parts.segment_error = None if parts.segment_error else parts.segment_error
            if parts.talker_fail_at < 0 and parts.decoder_fail_at < 0:
                assert await rig.ended(rig.say()) is Reason.COMPLETED
                return
        assert rig.engine.heartbeat()

    drive(test, parts=parts)


def test_a_failing_device_ends_the_utterance_and_the_engine_goes_on() -> None:
    sink = FakeSink(speed=20, capture=1 << 20, fail_at=6000)

    async def test(rig: Rig) -> None:
        utterance = rig.say()
        assert await rig.ended(utterance) is Reason.DEVICE
        assert rig.stats[utterance]["detail"] == os.strerror(19)
        assert rig.engine.state is State.IDLE

    drive(test, sink=sink)


def test_a_busy_device_is_reported_within_a_second() -> None:
    async def test(rig: Rig) -> None:
        t0 = time.monotonic()
        assert await rig.ended(rig.say()) is Reason.DEVICE
        assert time.monotonic() - t0 < 1

    drive(test, sink=FakeSink(open_errno=16))


def test_no_end_of_speech_ends_with_limit() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("Hi.")
        assert await rig.ended(utterance) is Reason.LIMIT
        assert 60 < rig.stats[utterance]["frames"] < 120
        utterance = rig.say("Hi.", max_seconds=1.0)
        assert await rig.ended(utterance) is Reason.LIMIT
        assert rig.stats[utterance]["frames"] == 12
        assert rig.stats[utterance]["audio_seconds"] == 0.96

    drive(test, parts=FakeParts(eos_after=100_000))


def test_a_descriptor_gets_what_the_device_would_have_played() -> None:
    reader, writer = os.pipe()
    got: list[bytes] = []

    def read() -> None:
        with open(reader, "rb") as file:
            got.append(file.read())

    async def test(rig: Rig) -> None:
        thread = threading.Thread(target=read)
        thread.start()
        assert await rig.ended(rig.say(fd=writer)) is Reason.COMPLETED
        await asyncio.to_thread(thread.join)

    rig = drive(test)
    assert got == [expected_pcm(25)]
    assert rig.sink.heard() == b""


def test_a_closed_pipe_cancels_and_a_refused_utterance_closes_its_descriptor() -> None:
    async def test(rig: Rig) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        utterance = rig.say(fd=writer)
        assert await rig.ended(utterance) is Reason.ABORTED
        assert "reader" in rig.stats[utterance]["detail"]
        reader, writer = os.pipe()
        rig.engine.pause()
        waiting = rig.say(fd=writer)
        rig.engine.abort(waiting, "a")
        await rig.ended(waiting)
        assert await asyncio.to_thread(os.read, reader, 1) == b""
        os.close(reader)

    drive(test)


def test_two_hundred_speak_abort_pairs_leak_nothing() -> None:
    def fds() -> int:
        return len(os.listdir("/proc/self/fd"))

    def rss() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    async def test(rig: Rig) -> None:
        figures = []
        for n in range(200):
            utterance = rig.say()
            if n % 3 == 0:
                await asyncio.sleep(0.002 * (n % 7))
            rig.engine.abort(utterance, "a")
            assert await rig.ended(utterance) is Reason.ABORTED
            if n in (20, 199):
                gc.collect()
                figures.append((fds(), rss()))
        (fds_early, rss_early), (fds_late, rss_late) = figures
        assert fds_late == fds_early
        assert rss_late - rss_early < 2 << 20

    drive(test, parts=FakeParts(eos_after=500), sink=FakeSink(speed=1.0))


def test_a_model_that_does_not_load_is_refused() -> None:
    async def test(rig: Rig) -> None:
        raise AssertionError("the engine must not have started")

    class Broken(FakeParts):
        def decoder(self):  # type: ignore[no-untyped-def]
            raise ValueError("signature decode_4 is missing")

    with pytest.raises(ModelInvalidError, match="decode_4 is missing"):
        drive(test, parts=Broken())


def test_slower_than_real_time_starts_late_instead_of_running_dry() -> None:
    """At 1.3 times real time playing starts when what is buffered lasts to the end."""
    parts = FakeParts(eos_after=30, step_us=60_000, substep_us=3000, groups=16)
    sink = FakeSink(speed=1, capture=1 << 18)

    async def test(rig: Rig) -> None:
        # The first utterance has to learn the rate; the second knows it from its first frame.
        for text in (
            "Good morning to you all, the kettle will be ready in a minute.",
            "The kettle in the kitchen is ready for your tea, it says.",
        ):
            utterance = rig.say(text)
            assert await rig.ended(utterance) is Reason.COMPLETED
        stats = rig.stats[utterance]
        assert stats["underruns"] == 0
        assert 500 < stats["ttfa_ms"] < 3000
        assert rig.engine.stats()["rate"] > 1.15

    drive(test, parts=parts, sink=sink)


def test_abort_does_not_wait_for_a_long_prompt() -> None:
    class LongPrompt(FakeParts):
        def segment(self, text, options):  # type: ignore[no-untyped-def]
            segment = FakeParts.segment(self, text, options)
            return dataclasses.replace(segment, prompt=np.zeros((640, self.hidden), np.float32))

    async def test(rig: Rig) -> None:
        utterance = rig.say()
        await asyncio.sleep(0.2)
        rig.engine.abort(utterance, "a")
        await rig.ended(utterance)
        t0 = time.monotonic()
        await rig.engine.stop()
        # The whole prompt takes 20 calls of 100 ms; the generator leaves after the one it is in.
        assert time.monotonic() - t0 < 1.0

    drive(test, parts=LongPrompt(step_us=100_000))


def test_a_long_prompt_is_life() -> None:
    """Every piece of it moves the generator's counter, so that the watchdog stays fed."""

    class LongPrompt(FakeParts):
        def segment(self, text, options):  # type: ignore[no-untyped-def]
            segment = FakeParts.segment(self, text, options)
            return dataclasses.replace(segment, prompt=np.zeros((480, self.hidden), np.float32))

    async def test(rig: Rig) -> None:
        assert rig.engine._pipeline is not None
        rig.engine._pipeline.stall_seconds = 0.8
        utterance = rig.say()
        # 15 pieces of 100 ms.
        while not rig.engine.stats()["frames_generated"]:
            assert rig.engine.heartbeat()
            await asyncio.sleep(0.1)
        rig.engine.abort(utterance, "a")
        await rig.ended(utterance)

    drive(test, parts=LongPrompt(step_us=100_000))


def test_stop_while_the_model_loads_leaves_no_thread() -> None:
    loading, release = threading.Event(), threading.Event()
    closed = []

    class Closing(FakeParts):
        def close(self) -> None:
            closed.append(True)

    def load(config: Config) -> FakeParts:
        loading.set()
        assert release.wait(10)
        return Closing()

    async def main() -> None:
        engine = Engine(Config(), load=load, sink=FakeSink())
        starting = asyncio.create_task(engine.start())
        await asyncio.to_thread(loading.wait, 10)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await engine.stop()
        release.set()

    before = set(threading.enumerate())
    asyncio.run(main())
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert closed
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()


def test_a_small_model_gets_one_thread_a_stage_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    assert weight_bytes(str(tmp_path)) == 0
    (tmp_path / "talker.gguf").write_bytes(bytes(1000))
    (tmp_path / "predictor.gguf").write_bytes(bytes(200))
    assert weight_bytes(str(tmp_path)) == 1200
    planned = with_config(threads_generator=4, threads_decoder=4)
    assert single_threads(planned, with_config()).engine.threads_generator == 1
    assert single_threads(planned, with_config()).engine.threads_decoder == 1
    assert single_threads(planned, with_config(threads_generator=2)).engine.threads_generator == 2
