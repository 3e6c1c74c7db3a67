"""Faults of device, readers and kernels: each ends within its bound, and the next one speaks."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time

import pytest
from engine_rig import SPF, Rig, drive, expected_pcm, with_config, with_delivery

from cython_kernels.fake import FakeTalker
from cython_kernels.fake_sink import FakeSink
from edgettsd.engine import scripted
from edgettsd.engine._api import Priority, Reason, State
from edgettsd.engine.parts import FakeParts

TEXT = "A text that is long enough for a hundred frames, or so it should be, and then some."


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- device -----------------------------------------------------------------------------------------------


def test_unplugged_in_mid_job_and_back_for_the_next() -> None:
    sink = FakeSink(speed=20, capture=1 << 20, fail_at=10 * SPF, fail_times=1)

    async def test(rig: Rig) -> None:
        first = rig.say()
        assert await rig.ended(first) is Reason.DEVICE
        assert rig.stats[first]["detail"] == os.strerror(19)
        assert rig.engine.state is State.IDLE
        assert await rig.ended(rig.say()) is Reason.COMPLETED

    rig = drive(test, sink=sink)
    whole = expected_pcm(25)
    assert rig.sink.heard() == whole[: 2 * 10 * SPF] + whole


def test_busy_at_open_is_told_at_once_and_a_retry_works() -> None:
    async def test(rig: Rig) -> None:
        t0 = time.monotonic()
        first = rig.say()
        assert await rig.ended(first) is Reason.DEVICE
        assert time.monotonic() - t0 < 1
        assert rig.stats[first]["detail"] == os.strerror(16)
        assert rig.stats[first]["error"] == "org.edgettsd.Error.DeviceBusy"
        assert rig.engine.state is State.IDLE
        second = rig.say()
        assert await rig.ended(second) is Reason.COMPLETED
        assert "error" not in rig.stats[second]

    drive(test, sink=FakeSink(speed=20, capture=1 << 20, open_errno=16, open_fails=1))


def test_a_device_that_fails_costs_nothing_afterwards() -> None:
    async def test(rig: Rig) -> None:
        for _ in range(5):
            utterance = rig.say()
            assert await rig.ended(utterance) is Reason.DEVICE
            assert "error" not in rig.stats[utterance], "it has gone, it is not busy"
        await asyncio.sleep(0.1)
        cpu = time.process_time()
        await asyncio.sleep(1.0)
        assert time.process_time() - cpu < 0.01

    drive(test, sink=FakeSink(speed=20, fail_at=0))


@pytest.mark.parametrize(("blocking", "ms"), [("open_ms", 4000), ("close_ms", 10_000)])
def test_a_device_call_that_blocks_does_not_block_abort(blocking: str, ms: int) -> None:
    """The driver does not come back for 4 or 10 s; the caller has its answer at once, Finished after 2 s."""
    sink = FakeSink(speed=20, capture=1 << 20, keep_open_ms=0, **{blocking: ms})

    async def test(rig: Rig) -> None:
        utterance = rig.say()
        await asyncio.sleep(0.5)
        t0 = time.monotonic()
        rig.engine.abort(utterance, "a")
        assert time.monotonic() - t0 < 0.5
        assert await rig.ended(utterance) is Reason.ABORTED
        assert time.monotonic() - t0 < 3.5
        following = rig.say()
        assert await rig.ended(following, 40) is Reason.COMPLETED

    drive(test, sink=sink)


def test_a_drain_that_takes_ten_seconds_does_not_block_abort() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say()
        await rig.until(lambda: rig.sink.counts()["heard"] == 25 * SPF)
        await asyncio.sleep(0.1)
        assert utterance not in rig.stats
        t0 = time.monotonic()
        rig.engine.abort(utterance, "a")
        assert await rig.ended(utterance) is Reason.ABORTED
        assert time.monotonic() - t0 < 1.0
        assert rig.stats[utterance]["audio_seconds"] == 2.0

    drive(test, sink=FakeSink(speed=20, capture=1 << 20, drain_ms=10_000))


def test_finished_waits_for_a_device_that_is_late() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say()
        await rig.until(lambda: rig.sink.counts()["heard"] == 25 * SPF)
        t0 = time.monotonic()
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert time.monotonic() - t0 > 1.3

    drive(test, sink=FakeSink(speed=20, capture=1 << 20, drain_ms=1500))


# --- readers ----------------------------------------------------------------------------------------------


def test_a_reader_that_never_reads_does_not_hold_the_queue_for_ever() -> None:
    reader, writer = os.pipe()

    async def test(rig: Rig) -> None:
        stuck = rig.say(fd=writer)
        important = rig.say(priority=Priority.IMPORTANT, client="b")
        assert await rig.ended(stuck) is Reason.DEVICE
        assert rig.stats[stuck]["detail"] == "the reader does not read"
        assert await rig.ended(important) is Reason.COMPLETED

    drive(test, config=with_delivery(reader_seconds=0.3))
    os.close(reader)


def test_a_slow_reader_gets_everything() -> None:
    """It reads 64 kB (the pipe's buffer) only every 0.2 s, with reader_seconds = 1."""
    reader, writer = os.pipe()
    got = bytearray()

    def read() -> None:
        while piece := os.read(reader, 65_536):
            got.extend(piece)
            time.sleep(0.2)
        os.close(reader)

    async def test(rig: Rig) -> None:
        thread = threading.Thread(target=read)
        thread.start()
        assert await rig.ended(rig.say(TEXT, fd=writer)) is Reason.COMPLETED
        await asyncio.to_thread(thread.join)

    drive(test, parts=FakeParts(eos_after=100), config=with_delivery(reader_seconds=1.0))
    assert bytes(got) == expected_pcm(100)


def test_five_hundred_descriptors_leave_nothing_behind() -> None:
    """Read, closed by the reader, aborted, never begun: every descriptor is closed once."""

    async def test(rig: Rig) -> None:
        early = 0
        for n in range(500):
            reader, writer = os.pipe()
            if n % 4 == 1:
                os.close(reader)
            if n % 4 == 3:
                rig.engine.pause()
            utterance = rig.say(fd=writer)
            if n % 4 >= 2:
                rig.engine.abort(utterance, "a")
            assert await rig.ended(utterance) is (Reason.COMPLETED if n % 4 == 0 else Reason.ABORTED)
            rig.engine.resume()
            if n % 4 != 1:
                size = len(os.read(reader, 65_536))
                assert size == 4 * SPF if n % 4 == 0 else size <= 4 * SPF
                assert os.read(reader, 1) == b""
                os.close(reader)
            if n == 20:
                early = fds()
        assert fds() <= early

    drive(test, parts=FakeParts(eos_after=2))


# --- pace -------------------------------------------------------------------------------------------------


def test_a_machine_that_slows_down_in_mid_job_loses_and_repeats_nothing() -> None:
    """From 0.4 to 2.5 times real time: it must run dry; every sample is heard once, every xrun counted."""
    talkers: list[FakeTalker] = []

    class Slowing(FakeParts):
        def talker(self):  # type: ignore[no-untyped-def]
            talkers.append(FakeParts.talker(self))  # type: ignore[arg-type]
            return talkers[-1]

    sink = FakeSink(speed=4.0, capture=1 << 20)

    async def test(rig: Rig) -> None:
        utterance = rig.say(TEXT)
        await rig.until(lambda: rig.engine.stats()["frames_generated"] >= 40)
        talkers[0].step_us = 50_000
        await rig.until(lambda: rig.engine.stats()["frames_generated"] >= 75, 30)
        talkers[0].step_us = 0
        assert await rig.ended(utterance) is Reason.COMPLETED
        stats = rig.stats[utterance]
        assert stats["frames"] == 100
        # One more when the end came late: the device ran dry, but nothing was missing.
        assert stats["underruns"] <= sink.counters()["xruns"] <= stats["underruns"] + 1
        assert stats["underruns"] == rig.engine.stats()["underruns"] > 0
        # After a gap it buffers again: not one gap for each of the 35 slow frames.
        assert stats["underruns"] < 20

    drive(test, parts=Slowing(eos_after=100, step_us=8000), sink=sink)
    assert sink.heard() == expected_pcm(100)


def test_from_0_8_to_1_4_times_real_time_in_mid_job_the_buffer_adapts() -> None:
    """In real time, with the defaults: it runs dry, but buffers more after a gap, so that few follow."""
    talkers: list[FakeTalker] = []

    class Slowing(FakeParts):
        def talker(self):  # type: ignore[no-untyped-def]
            talkers.append(FakeParts.talker(self))  # type: ignore[arg-type]
            return talkers[-1]

    sink = FakeSink(speed=1.0, buffer=2400, capture=1 << 20)
    figures: dict[str, float] = {}

    async def test(rig: Rig) -> None:
        utterance = rig.say(TEXT)
        await rig.until(lambda: utterance in rig.started, 5)
        early = rig.engine.stats()["frames_generated"]
        await rig.until(lambda: rig.engine.stats()["frames_generated"] >= 30, 10)
        talkers[0].step_us = 112_000
        assert await rig.ended(utterance, 30) is Reason.COMPLETED
        stats = rig.stats[utterance]
        assert stats["frames"] == 80
        figures.update(early=early, underruns=stats["underruns"], xruns=sink.counters()["xruns"])
        assert stats["underruns"] <= sink.counters()["xruns"] <= stats["underruns"] + 1
        assert rig.engine.stats()["underruns"] == stats["underruns"]

    drive(test, parts=Slowing(eos_after=80, step_us=64_000), sink=sink)
    assert sink.heard() == expected_pcm(80)
    # Faster than real time it starts with what it has; 50 slow frames last 1.6 s longer than they sound.
    assert figures["early"] <= 12, figures
    assert 1 <= figures["underruns"] <= 2, figures


def test_hundreds_of_gaps_while_the_loop_is_busy_lose_no_end() -> None:
    """More than the queue of events holds: the end is told all the same, and the gaps are counted."""
    sink = FakeSink(speed=2000.0)

    async def test(rig: Rig) -> None:
        utterance = rig.say("word " * 100)
        await rig.until(lambda: utterance in rig.started)
        time.sleep(1.5)
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.started == [utterance]
        assert rig.stats[utterance]["underruns"] > 256
        assert rig.stats[utterance]["underruns"] == rig.engine.stats()["underruns"]

    parts = FakeParts(eos_after=400, step_us=2500)
    drive(test, parts=parts, sink=sink, config=with_config(runaway_repeat_seconds=0.0))
    # Two sentences of 400 frames, and the pause between them.
    assert sink.counts()["heard"] == 800 * SPF + 4800


@pytest.mark.parametrize("thread", ["talker", "decoder"])
def test_a_kernel_that_hangs_stops_the_heartbeat(thread: str) -> None:
    """The watchdog is fed only while the heartbeat is true."""
    parts = FakeParts(step_us=2_500_000) if thread == "talker" else FakeParts(decode_us=2_500_000)

    async def test(rig: Rig) -> None:
        assert rig.engine._pipeline is not None
        rig.engine._pipeline.stall_seconds = 0.5
        assert rig.engine.heartbeat()
        utterance = rig.say()
        beats = []
        for _ in range(22):
            await asyncio.sleep(0.1)
            beats.append(rig.engine.heartbeat())
        assert False in beats
        rig.engine.abort(utterance, "a")
        assert await rig.ended(utterance) is Reason.ABORTED
        await rig.until(rig.engine.heartbeat)

    drive(test, parts=parts)


def test_a_generator_that_dies_in_mid_job_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def test(rig: Rig) -> None:
        assert rig.engine.heartbeat()
        utterance = rig.say()
        await rig.until(lambda: not rig.engine.heartbeat())
        # The utterance can still be ended, and the daemon stopped.
        assert rig.engine.abort(utterance, "a")
        assert await rig.ended(utterance) is Reason.ABORTED

    drive(test, parts=FakeParts(dies=True))
    assert "tts-generator has ended" in caplog.text


def test_a_thread_that_died_stops_the_heartbeat() -> None:
    async def test(rig: Rig) -> None:
        assert rig.engine._pipeline is not None
        assert rig.engine.heartbeat()
        rig.engine._pipeline._inbox.put(None)
        await rig.until(lambda: not rig.engine.heartbeat())

    drive(test)


# --- endurance --------------------------------------------------------------------------------------------


def test_a_thousand_utterances_leave_nothing_behind() -> None:
    async def test(rig: Rig) -> None:
        figures = []
        for n in range(1000):
            assert await rig.ended(rig.say()) is Reason.COMPLETED
            if n in (100, 999):
                gc.collect()
                figures.append((fds(), resident(), len(threading.enumerate())))
        early, late = figures
        assert late[0] == early[0]
        assert late[2] == early[2]
        # The rig keeps what each Finished told.
        assert late[1] - early[1] < 3 << 20

    drive(test, parts=FakeParts(eos_after=1), sink=FakeSink(speed=1000, capture=1 << 10))


# --- the script of the daemon's test mode -----------------------------------------------------------------


def test_a_script_is_read_or_refused_by_name() -> None:
    values = scripted.parse("frames=-1,quiet_after=20")
    assert (values["frames"], values["quiet_after"], values["repeat_after"]) == (-1, 20, -1)
    for text, message in (
        ("frame=3", "'frame' is no key"),
        ("frames=x", "must be an integer"),
        ("frames=-2", "from -1 to"),
    ):
        with pytest.raises(ValueError, match=message):
            scripted.parse(text)
