"""Where sound stops or goes on in the middle of loud samples it fades: aborts, pauses, ends.

On the paced device every sample that was heard is compared: what came before the fade is untouched, the
fade has the gains it should have, and after it there is silence and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from audio_rigs import Player, Rig, noise, tone, with_tail

from cython_kernels.playout import AlsaSink
from cython_kernels.probe_audio import SAMPLE_FORMATS, faded

pytest_plugins = ("audio_rigs",)

PacedRig = Callable[..., Rig]
# Frames of a fade at 24 kHz.
FADE = 120


def fall(pcm: npt.NDArray[np.int16], n: int = FADE) -> npt.NDArray[np.int16]:
    """The samples fading out over their length."""
    return np.frombuffer(faded(pcm.tobytes(), n), np.int16)


def rise(pcm: npt.NDArray[np.int16], n: int = FADE) -> npt.NDArray[np.int16]:
    """The samples fading in over the first n of them."""
    return np.frombuffer(faded(pcm.tobytes(), n, rising=True), np.int16)


def steps(pcm: npt.NDArray[np.int16]) -> int:
    """The largest step between two samples."""
    return int(np.abs(np.diff(pcm.astype(np.int32))).max())


@pytest.mark.parametrize("rate", [24_000, 48_000])
@pytest.mark.parametrize("wait_ms", [0, 35, 150])
def test_an_aborted_tone_fades(paced_rig: PacedRig, wait_ms: int, rate: int) -> None:
    rig = paced_rig(rate=rate)
    pcm = tone(48_000, 200.0)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
        player.wait(generation, "started")
        time.sleep(wait_ms / 1000)
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        dropped = player.wait(generation, "dropped")
    heard = np.frombuffer(rig.heard(), np.int16)
    # A step from any level to nothing would be up to 29,000; the tone alone has steps of 1,518.
    assert steps(np.append(heard, 0)) <= steps(tone(24_000, 200.0)) + 60
    drop = rig.events("DROP")[0]
    assert drop.ns - asked < 100_000_000
    # It is silent before the device is stopped.
    silent = dropped[3] * rate // 24_000
    assert not heard[silent + 1 :].any()
    assert heard[: silent - rate // 100].any()


def test_a_pause_fades_out_and_in_and_loses_nothing(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = tone(36_000, 200.0)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
        player.wait(generation, "started")
        for _ in range(3):
            time.sleep(0.1)
            asked = time.monotonic_ns()
            player.pipe.set_paused(True)
            time.sleep(0.2)
            drop = rig.events("DROP")[-1]
            assert drop.ns - asked < 100_000_000
            size = len(rig.heard())
            time.sleep(0.05)
            assert len(rig.heard()) == size
            player.pipe.set_paused(False)
        assert player.wait(generation, "finished")[3] == len(pcm)
        assert not player.named(generation, "underrun")
    heard = np.frombuffer(rig.heard(), np.int16)
    assert steps(heard) <= steps(pcm) + 60
    at, expected = 0, pcm.copy()
    parts = []
    for drop in rig.events("DROP")[:3]:
        played = heard[at : at + drop.heard]
        parts.append(played)
        at += drop.heard
    parts.append(heard[at:])
    # Each part is cut before the silence that the device played until it was stopped.
    done = 0
    for i, part in enumerate(parts[:-1]):
        n = next(n for n in range(len(part), 0, -1) if part[n - 1] != 0)
        # The last sample of a fade may round to zero.
        end = next(e for e in range(n, n + 3) if matches(part, expected[done : done + e], i > 0))
        assert not part[end:].any()
        done += end
    last = expected[done:]
    np.testing.assert_array_equal(
        parts[-1], np.concatenate([rise(last), np.frombuffer(with_tail(pcm), np.int16)[len(pcm) :]])
    )


def matches(part: npt.NDArray[np.int16], samples: npt.NDArray[np.int16], risen: bool) -> bool:
    """Whether what was heard is the samples, fading at its end and, when risen, at its beginning."""
    if len(part) < len(samples):
        return False
    expected = rise(samples) if risen else samples
    expected = np.concatenate([expected[:-FADE], fall(expected[-FADE:])])
    return np.array_equal(part[: len(samples)], expected)


def test_a_resume_during_the_fade_pauses_for_a_moment(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = tone(24_000, 200.0)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
        player.wait(generation, "started")
        for _ in range(20):
            time.sleep(0.015)
            player.pipe.set_paused(True)
            player.pipe.set_paused(False)
            time.sleep(0.001)
            player.pipe.set_paused(True)
            time.sleep(0.003)
            player.pipe.set_paused(False)
        assert player.wait(generation, "finished")[3] == len(pcm)
    heard = np.frombuffer(rig.heard(), np.int16)
    assert steps(heard) <= steps(pcm) + 60
    # Every sample was heard once; between them lies silence.
    assert len(heard) >= len(pcm) + FADE
    assert len(heard) - len(pcm) - FADE <= 20 * 480


@pytest.mark.parametrize("first", ["pause", "abort"])
def test_an_abort_during_the_fade_of_a_pause(paced_rig: PacedRig, first: str) -> None:
    rig = paced_rig()
    pcm, after = tone(24_000, 200.0), noise(4800)
    with Player() as player:
        sink = AlsaSink("rig")
        generation = player.say(sink, pcm)
        player.wait(generation, "started")
        time.sleep(0.1)
        if first == "pause":
            player.pipe.set_paused(True)
            time.sleep(0.002)
            player.pipe.next_generation()
        else:
            player.pipe.next_generation()
            time.sleep(0.002)
            player.pipe.set_paused(True)
        dropped = player.wait(generation, "dropped")
        player.pipe.set_paused(False)
        player.wait(player.say(sink, after), "finished")
        assert [e[0] for e in player.named(generation)] == ["started", "dropped"]
    end, size = dropped[3], rig.events("DROP")[0].heard
    heard = np.frombuffer(rig.heard(), np.int16)
    np.testing.assert_array_equal(heard[: end - FADE], pcm[: end - FADE])
    np.testing.assert_array_equal(heard[end - FADE : end], fall(pcm[end - FADE : end]))
    assert not heard[end:size].any()
    assert heard[size:].tobytes() == with_tail(after)


def test_what_the_device_has_fetched_is_left_alone(paced_rig: PacedRig) -> None:
    # It has read the next 2 ms before it is asked to change them.
    rig = paced_rig(fetch=48)
    pcm = noise(24_000)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
        player.wait(generation, "started")
        time.sleep(0.1)
        player.pipe.next_generation()
        end = player.wait(generation, "dropped")[3]
    heard = np.frombuffer(rig.heard(), np.int16)
    np.testing.assert_array_equal(heard[: end - FADE], pcm[: end - FADE])
    faded = fall(pcm[end - FADE : end])
    # The device goes on reading between the question where it is and the change: 0.1 ms at most.
    np.testing.assert_array_equal(heard[end - FADE + 3 : end], faded[3:])
    for place in range(3):
        assert heard[end - FADE + place] in (faded[place], pcm[end - FADE + place])
    assert not heard[end:].any()


@pytest.mark.parametrize(("rewinds", "bound_ms"), [(0, 60), (2, 30)])
def test_a_device_that_cannot_change_what_it_has_is_cut(
    paced_rig: PacedRig, rewinds: int, bound_ms: int
) -> None:
    # It rewinds its counter, not what it was given.
    rig = paced_rig(rewinds=rewinds)
    pcm, after = noise(24_000), noise(4800, 1)
    with Player() as player:
        sink = AlsaSink("rig")
        generation = player.say(sink, pcm)
        player.wait(generation, "started")
        time.sleep(0.1)
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        player.wait(generation, "dropped")
        drop = rig.events("DROP")[0]
        assert drop.ns - asked < bound_ms * 1_000_000
        player.wait(player.say(sink, after), "finished")
    assert rig.heard() == pcm[: drop.heard].tobytes() + with_tail(after)


def test_a_pause_of_a_device_that_cannot_change_what_it_has(paced_rig: PacedRig) -> None:
    rig = paced_rig(rewinds=2)
    pcm = noise(24_000)
    with Player() as player:
        generation = player.say(AlsaSink("rig"), pcm)
        player.wait(generation, "started")
        for _ in range(3):
            time.sleep(0.1)
            player.pipe.set_paused(True)
            time.sleep(0.1)
            player.pipe.set_paused(False)
        assert player.wait(generation, "finished")[3] == len(pcm)
    assert rig.heard() == with_tail(pcm)


@pytest.mark.parametrize("fail_ms", [0, 1, 3, 6, 9, 12, 50])
def test_a_device_that_runs_dry_around_the_fade_of_a_pause(paced_rig: PacedRig, fail_ms: int) -> None:
    # The producer is late: what the device has ends before, during or after the fade.
    rig = paced_rig()
    pcm = tone(12_000, 200.0)
    with Player(start_ms=20) as player:
        sink = AlsaSink("rig", stall_ms=1000)
        generation = player.begin(sink)
        player.push(generation, pcm[:4800])
        player.wait(generation, "started")
        until = time.monotonic() + 0.2 - fail_ms / 1000
        time.sleep(max(0.0, until - time.monotonic()))
        player.pipe.set_paused(True)
        time.sleep(0.05)
        player.push(generation, pcm[4800:])
        player.pipe.push_end(generation)
        player.pipe.set_paused(False)
        assert player.wait(generation, "finished", "device")[:4] == ("finished", 1, "completed", len(pcm))
    heard = np.frombuffer(rig.heard(), np.int16)
    assert len(heard) >= len(pcm) + FADE
    assert heard[-FADE - 4800 : -FADE].tobytes() == pcm[-4800:].tobytes()


def test_without_a_fade_it_is_cut(paced_rig: PacedRig) -> None:
    rig = paced_rig()
    pcm = noise(24_000)
    with Player() as player:
        generation = player.say(AlsaSink("rig", fade_ms=0), pcm)
        player.wait(generation, "started")
        time.sleep(0.1)
        asked = time.monotonic_ns()
        player.pipe.next_generation()
        dropped = player.wait(generation, "dropped")
    drop = rig.events("DROP")[0]
    assert drop.ns - asked < 50_000_000
    assert abs(dropped[3] - drop.heard) <= 24
    assert rig.heard() == pcm[: drop.heard].tobytes()


def test_a_device_behind_plugins_fades(paced_rig: PacedRig) -> None:
    # Channels and format are adapted by ALSA, and the fade goes through that, too.
    rig = paced_rig(rate=24_000, channels=2, sample_format="S32_LE")
    conf = rig.log.parent / "asound.conf"
    conf.write_text(conf.read_text() + 'pcm.plugged { type plug slave.pcm "rig" }\n')
    pcm = tone(24_000, 200.0)
    with Player() as player:
        generation = player.say(AlsaSink("plugged"), pcm)
        player.wait(generation, "started")
        time.sleep(0.1)
        player.pipe.next_generation()
        end = player.wait(generation, "dropped")[3]
    heard = (np.frombuffer(rig.heard(), np.int32) >> 16).astype(np.int16)[::2]
    np.testing.assert_array_equal(heard[: end - FADE], pcm[: end - FADE])
    assert steps(np.append(heard, 0)) <= steps(pcm) + 60
    assert not heard[end:].any()


def test_a_device_that_drains_still_fades(paced_rig: PacedRig) -> None:
    # All is written long before it is heard; a device that was told to drain could not be changed any more.
    rig = paced_rig()
    pcm = tone(9_600, 200.0)
    with Player() as player:
        generation = player.say(AlsaSink("rig", drain=True, buffer_ms=500), pcm)
        player.wait(generation, "started")
        time.sleep(0.15)
        assert player.pipe.buffered == 0
        player.pipe.next_generation()
        end = player.wait(generation, "dropped")[3]
    heard = np.frombuffer(rig.heard(), np.int16)
    assert 0 < end < len(pcm) - 2400
    np.testing.assert_array_equal(heard[end - FADE : end], fall(pcm[end - FADE : end]))
    assert not heard[end:].any()


@pytest.mark.parametrize(("reason", "name"), [(1, "completed"), (4, "runaway"), (5, "limit")])
def test_a_loud_end_fades_and_nothing_of_it_is_changed(paced_rig: PacedRig, reason: int, name: str) -> None:
    rig = paced_rig(speed=4)
    pcm = tone(5_030, 200.0)
    with Player(start_ms=20) as player:
        generation = player.say(AlsaSink("rig", buffer_ms=400), pcm, reason=reason)
        assert player.wait(generation, "finished")[2:4] == (name, len(pcm))
    heard = np.frombuffer(rig.heard(), np.int16)
    assert abs(int(pcm[-1])) > 15_000
    assert heard.tobytes() == with_tail(pcm)
    assert steps(np.append(heard, 0)) <= steps(pcm) + 60


def test_a_quiet_end_is_left_as_it_is(paced_rig: PacedRig) -> None:
    rig = paced_rig(speed=4)
    pcm = np.concatenate([tone(4800), np.full(10, 63, np.int16)])
    with Player(start_ms=20) as player:
        player.wait(player.say(AlsaSink("rig", buffer_ms=400), pcm), "finished")
    assert rig.heard() == pcm.tobytes()


@pytest.mark.parametrize("samples", [1, 2, 50])
def test_an_utterance_shorter_than_a_fade(paced_rig: PacedRig, samples: int) -> None:
    rig = paced_rig()
    pcm = noise(samples)
    pcm[-1] = 20_000
    with Player(start_ms=1) as player:
        assert player.wait(player.say(AlsaSink("rig"), pcm), "finished")[3] == samples
    heard = np.frombuffer(rig.heard(), np.int16)
    assert len(heard) == samples + FADE
    # What there is of it is mirrored, then it is silent.
    mirrored = np.concatenate([pcm[-2::-1] if samples > 1 else pcm[:0], np.zeros(FADE, np.int16)])[:FADE]
    np.testing.assert_array_equal(heard, np.concatenate([pcm, fall(mirrored)]))


@pytest.mark.parametrize("form", SAMPLE_FORMATS)
@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_gains_of_a_fade(form: str, rising: bool, channels: int) -> None:
    n, full = 100, {"S16": 2**15, "S32": 2**31, "S24": 2**23, "S24_3": 2**23, "F32": 1}[form]
    values = np.random.default_rng(3).uniform(-1, 1, (n + 20, channels)) * (full - 1)
    angle = np.pi * np.arange(1, n + 1) / (n + 1)
    gains = np.append((1 - np.cos(angle)) / 2 if rising else (1 + np.cos(angle)) / 2, np.ones(20))
    if form == "F32":
        frames = values.astype(np.float32)
        got = np.frombuffer(
            faded(frames.tobytes(), n, rising=rising, format=form, channels=channels), np.float32
        )
        np.testing.assert_allclose(got.reshape(-1, channels), frames * gains[:, None], rtol=1e-5, atol=1e-7)
        return
    whole = np.rint(values).astype(np.int64)
    kind = {"S16": np.int16, "S32": np.int32, "S24": np.int32, "S24_3": np.int32}[form]
    data = whole.astype(kind).tobytes()
    if form == "S24_3":
        data = whole.astype("<i4").reshape(-1, 1).view(np.uint8)[:, :3].tobytes()
    out = faded(data, n, rising=rising, format=form, channels=channels)
    assert len(out) == len(data)
    if form == "S24_3":
        padded = np.zeros((len(out) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(out, np.uint8).reshape(-1, 3)
        got = (padded.view("<i4")[:, 0] >> 8).astype(np.int64)
    else:
        got = np.frombuffer(out, kind).astype(np.int64)
    # Gains are single precision: the last bits of 32 are not all theirs.
    allowed = 1 + full * 1e-7
    assert np.abs(got.reshape(-1, channels) - whole * gains[:, None]).max() <= allowed
    np.testing.assert_array_equal(got.reshape(-1, channels)[n:], whole[n:])
