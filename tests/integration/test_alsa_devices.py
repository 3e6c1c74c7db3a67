"""Sound devices of many kinds: converted, busy, missing, unplugged, draining, kept open and closed."""

from __future__ import annotations

import errno
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from audio_rigs import Player, Rig, assert_tone, noise, tone, with_tail

from cython_kernels.playout import AlsaSink

pytest_plugins = ("audio_rigs",)

PacedRig = Callable[..., Rig]


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
        sink = AlsaSink("rig", fade_ms=0)
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
    assert rig.heard() == with_tail(pcm) * 2


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
    assert rig.heard() == bytes(2 * 6000) + with_tail(pcm) + bytes(2 * 2400)


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
        sink = AlsaSink("rig", drain=True, fade_ms=0)
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
    # So slow that its last 30 ms, when it is told to drain, take 300.
    rig = paced_rig(speed=0.1)
    pcm = noise(1_440)
    with Player(start_ms=10) as player:
        sink = AlsaSink("rig", drain=True, buffer_ms=400, fade_ms=0)
        generation = player.say(sink, pcm)
        until = time.monotonic() + 10
        while not rig.events("DRAIN") and time.monotonic() < until:
            time.sleep(0.01)
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
        sink = AlsaSink("rig", fade_ms=0)
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
        sink = AlsaSink("plugged", buffer_ms=1000, fade_ms=0)
        generation = player.say(sink, pcm)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert sink.info()["converts_rate"]
    frames = np.frombuffer(rig.heard(), np.int32).reshape(-1, 2)
    np.testing.assert_array_equal(frames[:, 0], frames[:, 1])
    assert_tone(frames[:, 0], 48_000, 48_000, 2.0**31)
