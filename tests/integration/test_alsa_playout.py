"""Playout through libasound: every sample is heard once and in order, abort is silent at once."""

from __future__ import annotations

import errno
import gc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from audio_rigs import Player, Rig

from cython_kernels.playout import AlsaSink

pytest_plugins = ("audio_rigs",)

PacedRig = Callable[..., Rig]
CHUNKINGS: list[tuple[int, ...]] = [(1920,), (1920, 7680, 15360), (1,), (479, 480, 481), (37, 4801)]


def noise(n: int, seed: int = 0) -> npt.NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-32768, 32768, n).astype(np.int16)


@pytest.mark.parametrize("chunks", CHUNKINGS)
def test_every_sample_reaches_the_device(exact_rig: Rig, chunks: Sequence[int]) -> None:
    # Blocks of one sample fill the block list long before the ring.
    pcm = noise(9000 if chunks == (1,) else 100_003)
    sink = AlsaSink("rig")
    with Player() as player:
        generation = player.say(sink, pcm, chunks)
        assert player.wait(generation, "finished")[2:4] == ("completed", len(pcm))
        assert exact_rig.heard() == pcm.tobytes()
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
        assert rig.heard() == pcm.tobytes()
        last = rig.events("XRUN")[-1]
        assert last.heard == len(pcm)
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
    assert 0.98 < (rig.events("XRUN")[0].ns - begun.ns) * 1e-9 < 1.02
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
    assert rig.heard() == pcm.tobytes()


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
        assert abs(dropped[3] - drop.heard) <= 24
        heard = np.frombuffer(rig.heard(), np.int16)
        assert len(heard) == drop.heard < len(first)
        # The next one speaks at once, and nothing of the old one is left.
        player.push(new, second)
        player.pipe.push_end(new)
        assert player.wait(new, "finished")[3] == len(second)
        assert [e[0] for e in player.named(old)] == ["started", "dropped"]
    assert rig.heard() == first[: drop.heard].tobytes() + second.tobytes()


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
        generation = player.begin(sink := AlsaSink("rig"))
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
    assert rig.heard() == pcm.tobytes()


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
    assert rig.heard() == pcm.tobytes()


@pytest.mark.parametrize("rate", [0, 48_000])
def test_pause_and_resume_are_exact(paced_rig: PacedRig, rate: int) -> None:
    rig = paced_rig(rate=rate)
    pcm = tone(24_000)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
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
        sink = AlsaSink("rig")
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
        sink = AlsaSink("rig")
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


def tone(n: int, hz: float = 1000.0) -> npt.NDArray[np.int16]:
    return np.round(29_000 * np.sin(2 * np.pi * hz * np.arange(n) / 24_000)).astype(np.int16)


def assert_tone(heard: npt.NDArray[np.generic], rate: int, n: int, full: float = 32768.0) -> None:
    """`heard` is exactly n frames of the tone: 90 dB overall and, against clicks, in every 10 ms of it."""
    assert len(heard) == n
    y = heard.astype(np.float64) / full
    t = np.arange(n) / rate
    basis = np.stack([np.sin(2 * np.pi * 1000 * t), np.cos(2 * np.pi * 1000 * t)], 1)
    # The tone begins and ends at full strength: the filter rings there.
    inner = slice(rate // 20, -rate // 20)
    fit = basis @ np.linalg.lstsq(basis[inner], y[inner], rcond=None)[0]
    error = (y - fit)[inner]
    assert 10 * np.log10(np.mean(fit[inner] ** 2) / np.mean(error**2)) > 90
    assert np.abs(error).max() < 3e-5 * 4


@pytest.mark.parametrize(
    ("rate", "channels", "sample_format", "dtype", "full"),
    [
        (48_000, 2, "S16_LE", np.int16, 2.0**15),
        (48_000, 2, "S32_LE", np.int32, 2.0**31),
        (48_000, 2, "FLOAT_LE", np.float32, 1.0),
        (44_100, 2, "S24_LE", np.int32, 2.0**23),
        (24_000, 1, "S32_LE", np.int32, 2.0**31),
    ],
)
def test_what_the_device_does_not_take_is_converted(
    paced_rig: PacedRig, rate: int, channels: int, sample_format: str, dtype: type, full: float
) -> None:
    rig = paced_rig(speed=4, rate=rate, channels=channels, sample_format=sample_format)
    pcm = tone(24_007)
    with Player() as player:
        sink = AlsaSink("rig")
        generation = player.say(sink, pcm, (1920, 37, 4801))
        assert player.wait(generation, "finished")[3] == len(pcm)
        again = player.say(sink, pcm, (480,))
        player.wait(again, "finished")
        info = sink.info()
        assert (info["rate"], info["channels"], info["format"]) == (rate, channels, sample_format)
        assert info["converts_rate"] == (rate != 24_000)
    frames = np.frombuffer(rig.heard(), dtype).reshape(-1, channels)
    for c in range(1, channels):
        np.testing.assert_array_equal(frames[:, 0], frames[:, c])
    n = (2 * len(pcm) * rate + 24_000) // 48_000
    # Both utterances are alike: nothing of the first one is left in the filter.
    np.testing.assert_array_equal(frames[:n], frames[n:])
    assert_tone(frames[:n, 0], rate, n, full)
    if rate == 24_000:
        assert frames[:n, 0].tobytes() == (pcm.astype(np.int32) << 16).tobytes()


def test_a_device_that_another_program_has_is_busy(paced_rig: PacedRig) -> None:
    rig = paced_rig(speed=8)
    pcm = noise(9600)
    first, second = AlsaSink("rig", keep_open_ms=200), AlsaSink("rig", keep_open_ms=0)
    with Player() as one, Player() as two:
        g = one.say(first, pcm)
        one.wait(g, "started")
        busy = two.say(second, pcm)
        assert two.wait(busy, "device")[2:4] == ("device", -errno.EBUSY)
        assert second.failed_step == "open"
        with pytest.raises(OSError, match=r"rig: open: .*busy") as caught:
            AlsaSink("rig").probe()
        assert caught.value.errno == errno.EBUSY
        one.wait(g, "finished")
        # The first one lets go of an idle device; then the other one can have it.
        time.sleep(0.3)
        assert rig.events("CLOSE")
        fine = two.say(second, pcm)
        assert two.wait(fine, "finished", "device")[0] == "finished"
    assert rig.heard() == pcm.tobytes() * 2


def test_the_device_stays_open_between_utterances_and_is_closed_when_idle(paced_rig: PacedRig) -> None:
    rig = paced_rig(speed=8)
    with Player() as player:
        sink = AlsaSink("rig", keep_open_ms=300)
        for _ in range(3):
            player.wait(player.say(sink, noise(4800)), "finished")
        assert [e.name for e in rig.events("OPEN", "CLOSE")] == ["OPEN"]
        assert sink.in_use
        time.sleep(0.6)
        assert [e.name for e in rig.events("OPEN", "CLOSE")] == ["OPEN", "CLOSE"]
        assert not sink.in_use


def test_silence_around_an_utterance(paced_rig: PacedRig) -> None:
    rig = paced_rig(speed=4)
    pcm = noise(4801)
    with Player(preroll_ms=250, postroll_ms=100) as player:
        generation = player.say(AlsaSink("rig"), pcm)
        assert player.wait(generation, "finished")[3] == len(pcm)
    assert rig.heard() == bytes(2 * 6000) + pcm.tobytes() + bytes(2 * 2400)


def test_a_device_that_does_not_exist(exact_rig: Rig) -> None:
    sink = AlsaSink("nosuchdevice")
    with Player() as player:
        generation = player.say(sink, noise(4800))
        assert player.wait(generation, "device")[3] == -errno.ENOENT
        # The thread goes on with the next device.
        assert player.wait(player.say(AlsaSink("rig"), noise(4800)), "finished")[3] == 4800


def test_what_the_device_cannot_do_is_named(paced_rig: PacedRig) -> None:
    paced_rig(rate=48_000, sample_format="S32_LE")
    for options, step in (({"device_rate": 24_000}, "rate"), ({"format": "S16_LE"}, "format")):
        sink = AlsaSink("rig", **options)  # type: ignore[arg-type]
        with pytest.raises(OSError, match=f"rig: {step}: "):
            sink.probe()
        assert sink.failed_step == step


@pytest.mark.parametrize("rate", [0, 48_000])
def test_a_device_that_drains(paced_rig: PacedRig, rate: int) -> None:
    rig = paced_rig(rate=rate)
    pcm = tone(9_601)
    with Player() as player:
        sink = AlsaSink("rig", drain=True)
        for _ in range(2):
            generation = player.say(sink, pcm)
            finished = player.wait(generation, "finished")
            drained = rig.events("DRAINED")[-1]
            assert drained.ns <= finished[4] < drained.ns + 60_000_000
        assert sink.counters()["xruns"] == 0
    assert len(rig.events("DRAIN")) == 2
    assert rig.underruns() == 0
    if not rate:
        assert rig.heard() == pcm.tobytes() * 2
    else:
        heard = np.frombuffer(rig.heard(), np.int16).reshape(2, -1)
        np.testing.assert_array_equal(heard[0], heard[1])
        assert_tone(heard[0], 48_000, 2 * len(pcm))


def test_pause_and_abort_of_a_device_that_drains(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = noise(9_600)
    with Player() as player:
        sink = AlsaSink("rig", drain=True, buffer_ms=400)
        generation = player.say(sink, pcm)
        player.wait(generation, "started")
        time.sleep(0.1)
        assert rig.events("DRAIN")
        player.pipe.set_paused(True)
        time.sleep(0.1)
        size = len(rig.heard())
        time.sleep(0.1)
        assert len(rig.heard()) == size < 2 * len(pcm)
        player.pipe.set_paused(False)
        time.sleep(0.1)
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        player.wait(generation, "dropped")
        assert rig.events("DROP")[-1].ns - asked < 50_000_000
    heard = np.frombuffer(rig.heard(), np.int16)
    stopped = rig.events("DROP")[0].heard
    # A draining device is stopped for a pause; see the device that cannot pause.
    repeated = next(k for k in range(25) if np.array_equal(heard[stopped:][:99], pcm[stopped - k :][:99]))
    np.testing.assert_array_equal(heard[:stopped], pcm[:stopped])
    np.testing.assert_array_equal(heard[stopped:], pcm[stopped - repeated :][: len(heard) - stopped])


def test_a_machine_that_slept_loses_nothing(paced_rig: PacedRig) -> None:
    rig = paced_rig(state="SUSPENDED", state_at=9000)
    pcm = noise(24_000)
    with Player() as player:
        sink = AlsaSink("rig")
        generation = player.say(sink, pcm)
        assert player.wait(generation, "finished", "device")[3] == len(pcm)
        assert sink.counters() == {"opens": 1, "xruns": 0, "suspends": 1}
        assert not player.named(generation, "underrun")
    heard = np.frombuffer(rig.heard(), np.int16)
    # The device cannot say any more where it stopped: what it played since the last look is heard again.
    repeated = len(heard) - len(pcm)
    assert 0 <= repeated <= 2 * 480
    np.testing.assert_array_equal(heard[:9000], pcm[:9000])
    np.testing.assert_array_equal(heard[9000:], pcm[9000 - repeated :])


def test_a_device_that_is_unplugged(paced_rig: PacedRig) -> None:
    rig = paced_rig(state="DISCONNECTED", state_at=6000)
    with Player() as player:
        sink = AlsaSink("rig")
        generation = player.say(sink, noise(24_000))
        assert player.wait(generation, "device", "finished")[3] == -errno.ENODEV
        assert [e[0] for e in player.named(generation)] == ["started", "device"]
        assert not sink.in_use
        assert rig.events("CLOSE"), "other programs may have it back"


def test_a_thousand_utterances_leave_nothing_behind(exact_rig: Rig) -> None:
    def usage() -> tuple[int, int]:
        gc.collect()
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return len(os.listdir("/proc/self/fd")), memory

    pcm = noise(2400)
    with Player() as player:
        sinks = [AlsaSink("rig"), AlsaSink("rig", device_rate=48_000, channels=2, keep_open_ms=0)]

        def speak(n: int) -> None:
            for i in range(n):
                # Every tenth one opens and closes the device anew, every third one is aborted.
                generation = player.say(sinks[i % 10 == 0], pcm)
                if i % 3:
                    player.wait(generation, "finished")
                player.seen.clear()
            player.wait(player.say(sinks[0], pcm), "finished")

        speak(100)
        fds, memory = usage()
        speak(1000)
        assert usage()[0] == fds
        assert usage()[1] - memory < 1 << 20


def test_a_plug_device_leaves_the_rate_to_us(paced_rig: PacedRig) -> None:
    # ALSA's own converter would be taken otherwise; channels and format are its to adapt.
    rig = paced_rig(speed=4, rate=48_000, channels=2, sample_format="S32_LE")
    conf = Path(rig.env["ALSA_CONFIG_PATH"])
    conf.write_text(conf.read_text() + 'pcm.plugged { type plug slave.pcm "rig" }\n')
    pcm = tone(24_000)
    with Player() as player:
        sink = AlsaSink("plugged", buffer_ms=1000)
        generation = player.say(sink, pcm)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert sink.info()["converts_rate"]
    frames = np.frombuffer(rig.heard(), np.int32).reshape(-1, 2)
    np.testing.assert_array_equal(frames[:, 0], frames[:, 1])
    assert_tone(frames[:, 0], 48_000, 48_000, 2.0**31)
