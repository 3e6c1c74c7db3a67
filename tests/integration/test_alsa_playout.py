"""Playout through libasound: every sample is heard once and in order, abort is silent at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from audio_rigs import Player, Rig, assert_tone, noise, tone, with_tail

from cython_kernels.playout import AlsaSink
from cython_kernels.probe_audio import faded

pytest_plugins = ("audio_rigs",)

PacedRig = Callable[..., Rig]
CHUNKINGS: list[tuple[int, ...]] = [(1920,), (1920, 7680, 15360), (1,), (479, 480, 481), (37, 4801)]


@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_every_sample_reaches_the_device(exact_rig: Rig, chunks: Sequence[int]) -> None:
    # Blocks of one sample fill the block list long before the ring.
    pcm = noise(9000 if chunks == (1,) else 100_003)
    sink = AlsaSink("rig")
    with Player() as player:
        generation = player.say(sink, pcm, chunks)
        assert player.wait(generation, "finished")[2:4] == ("completed", len(pcm))
        assert exact_rig.heard() == with_tail(pcm)
        assert [e[0] for e in player.named(generation)] == ["started", "finished"]


@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_every_sample_is_heard_in_order(paced_rig: PacedRig, chunks: Sequence[int]) -> None:
    one_by_one = chunks == (1,)
    # A Python loop gives single samples hardly faster than real time.
    rig = paced_rig(speed=0.25 if one_by_one else 4)
    pcm = noise(9000 if one_by_one else 60_001, 1)
    with Player(start_ms=50) as player:
        # A long buffer: at four times the speed a busy machine would run dry.
        generation = player.say(AlsaSink("rig", buffer_ms=1000), pcm, chunks)
        finished = player.wait(generation, "finished")
        assert finished[3] == len(pcm)
        assert rig.heard() == with_tail(pcm)
        last = rig.events("XRUN")[-1]
        assert last.heard == len(pcm) + 120
        # The last sample was heard before the event, and the event came soon after.
        assert last.ns <= finished[4] <= last.ns + 100_000_000
    assert rig.underruns() == 0


def test_playing_takes_real_time_and_starts_with_the_first_buffer(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = noise(24_000)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
        started, finished = player.wait(generation, "started"), player.wait(generation, "finished")
    begun = rig.events("START")[0]
    assert 0.98 < (rig.events("XRUN")[0].ns - begun.ns) * 1e-9 - 0.005 < 1.02
    assert abs(started[4] - begun.ns) < 20_000_000
    assert (finished[4] - started[4]) * 1e-9 == pytest.approx(1.0, abs=0.1)


def test_waits_for_the_samples_that_the_start_policy_asks_for(paced_rig: PacedRig) -> None:
    rig = paced_rig(speed=4)
    pcm = noise(24_000)
    with Player(start_ms=500) as player:
        generation = player.begin(AlsaSink("rig"))
        player.push(generation, pcm[:11_000])
        time.sleep(0.1)
        assert not rig.events("START")
        assert not player.named(generation)
        player.push(generation, pcm[11_000:12_000])
        assert player.wait(generation, "started")[3] == 12_000
        player.push(generation, pcm[12_000:])
        player.pipe.push_end(generation)
        player.wait(generation, "finished")
    assert rig.heard() == with_tail(pcm)


def test_a_start_policy_beyond_the_ring_still_starts(paced_rig: PacedRig) -> None:
    paced_rig(speed=8)
    with Player(start_ms=60_000, pcm_seconds=0.5, backpressure_seconds=0.4) as player:
        generation = player.say(AlsaSink("rig"), noise(24_000))
        assert player.wait(generation, "finished")[3] == 24_000


@pytest.mark.parametrize("wait_ms", [0, 40, 300])
def test_abort_is_silent_within_100_ms(paced_rig: PacedRig, wait_ms: int) -> None:
    rig = paced_rig()
    first, second = noise(48_000, 1), noise(12_000, 2)
    with Player() as player:
        sink = AlsaSink("rig")
        old = player.begin(sink)
        player.push(old, first)
        player.pipe.push_end(old)
        player.wait(old, "started")
        time.sleep(wait_ms / 1000)
        asked = time.monotonic_ns()
        new = player.begin(sink)
        dropped = player.wait(old, "dropped")
        drop = rig.events("DROP")[0]
        assert asked <= drop.ns <= asked + 100_000_000
        assert drop.ns <= dropped[4]
        heard = np.frombuffer(rig.heard(), np.int16)
        assert len(heard) == drop.heard < len(first)
        # The next one speaks at once, and nothing of the old one is left.
        player.push(new, second)
        player.pipe.push_end(new)
        assert player.wait(new, "finished")[3] == len(second)
        assert [e[0] for e in player.named(old)] == ["started", "dropped"]
    end = dropped[3]
    assert drop.heard - 480 <= end <= drop.heard
    faded_out = first[: end - 120].tobytes() + faded(first[end - 120 : end].tobytes(), 120)
    assert rig.heard() == faded_out + bytes(2 * (drop.heard - end)) + with_tail(second)


def test_abort_while_draining_is_silent_at_once(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = noise(6000)
    with Player() as player:
        sink = AlsaSink("rig", buffer_ms=400)
        generation = player.say(sink, pcm)
        player.wait(generation, "started")
        time.sleep(0.05)
        assert player.pipe.buffered == 0
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        assert player.wait(generation, "dropped")[3] < len(pcm)
    assert rig.events("DROP")[0].ns - asked < 50_000_000


@pytest.mark.parametrize("rate", [0, 48_000])
def test_a_stalled_producer_loses_and_repeats_nothing(paced_rig: PacedRig, rate: int) -> None:
    rig = paced_rig(rate=rate)
    pcm = noise(24_000) if not rate else tone(24_000)
    with Player() as player:
        generation = player.begin(sink := AlsaSink("rig", fade_ms=0))
        player.push(generation, pcm[:7680])
        time.sleep(0.32 + 0.3)
        assert not player.named(generation, "underrun"), "nothing follows yet: it may be the end"
        player.push(generation, pcm[7680:])
        player.pipe.push_end(generation)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert player.wait(generation, "underrun")[3] == 1
        assert player.pipe.counters()["underruns"] == 1
        assert sink.counters()["xruns"] == 1
    assert rig.underruns() == 1
    if not rate:
        assert rig.heard() == pcm.tobytes()
    else:
        assert_tone(np.frombuffer(rig.heard(), np.int16), 48_000, 48_000)


def test_an_underrun_buffers_again_before_playing(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = noise(14_400)
    with Player(start_ms=200) as player:
        generation = player.begin(AlsaSink("rig"))
        player.push(generation, pcm[:4800])
        player.wait(generation, "started")
        time.sleep(0.3)
        player.push(generation, pcm[4800:8000])
        time.sleep(0.05)
        assert len(rig.events("START")) == 1
        player.push(generation, pcm[8000:])
        player.pipe.push_end(generation)
        player.wait(generation, "finished")
    assert len(rig.events("START")) == 2
    assert rig.heard() == with_tail(pcm)


def test_running_dry_just_before_the_end_is_no_underrun(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = noise(4800)
    with Player() as player:
        generation = player.begin(AlsaSink("rig"))
        player.push(generation, pcm)
        player.wait(generation, "started")
        time.sleep(0.35)
        player.pipe.push_end(generation)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert not player.named(generation, "underrun")
    # No echo after the silence: it would click.
    assert rig.heard() == pcm.tobytes()


@pytest.mark.parametrize("rate", [0, 48_000])
def test_pause_and_resume_are_exact(paced_rig: PacedRig, rate: int) -> None:
    rig = paced_rig(rate=rate)
    pcm = tone(24_000)
    with Player() as player:
        generation = player.say(AlsaSink("rig", fade_ms=0), pcm)
        player.wait(generation, "started")
        for _ in range(3):
            time.sleep(0.1)
            asked = time.monotonic_ns()
            player.pipe.set_paused(True)
            time.sleep(0.3)
            pause = rig.events("PAUSE")[-1]
            assert pause.ns - asked < 50_000_000
            size = len(rig.heard())
            time.sleep(0.05)
            assert len(rig.heard()) == size
            player.pipe.set_paused(False)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert not player.named(generation, "underrun")
    if not rate:
        assert rig.heard() == pcm.tobytes()
    else:
        assert_tone(np.frombuffer(rig.heard(), np.int16), 48_000, 48_000)


def test_pause_of_a_device_that_cannot_pause(paced_rig: PacedRig) -> None:
    rig = paced_rig(can_pause=False)
    pcm = noise(24_000)
    with Player() as player:
        sink = AlsaSink("rig", fade_ms=0)
        generation = player.say(sink, pcm)
        player.wait(generation, "started")
        assert not sink.info()["can_pause"]
        time.sleep(0.2)
        player.pipe.set_paused(True)
        time.sleep(0.3)
        stopped = rig.events("DROP")[0]
        player.pipe.set_paused(False)
        assert player.wait(generation, "finished")[3] == len(pcm)
    heard = np.frombuffer(rig.heard(), np.int16)
    # Nothing is lost; what the device played while it was being stopped is at most a millisecond.
    repeated = len(heard) - len(pcm)
    assert 0 <= repeated <= 24
    np.testing.assert_array_equal(heard[: stopped.heard], pcm[: stopped.heard])
    np.testing.assert_array_equal(heard[stopped.heard :], pcm[stopped.heard - repeated :])


def test_abort_while_paused(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    first, second = noise(24_000, 1), noise(6000, 2)
    with Player() as player:
        sink = AlsaSink("rig", fade_ms=0)
        old = player.say(sink, first)
        player.wait(old, "started")
        player.pipe.set_paused(True)
        time.sleep(0.1)
        new = player.say(sink, second)
        dropped = player.wait(old, "dropped")
        time.sleep(0.1)
        assert not player.named(new), "still paused"
        player.pipe.set_paused(False)
        player.wait(new, "finished")
    assert rig.heard() == first[: dropped[3]].tobytes() + second.tobytes()
