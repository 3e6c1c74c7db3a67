"""An utterance whose model finds no end is ended within seconds; slow speech is not touched."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
from engine_rig import SPF, Rig, drive, expected_pcm, with_config
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_kernels.fake_sink import FakeSink
from cython_kernels.probe import quiet_runaway, repeat_runaway
from edgettsd.engine._api import Reason
from edgettsd.engine.parts import FakeParts
from edgettsd.engine.plan import measure

LONG = "This text is long enough, so that its cap of many hundred frames is far from what is heard here. " * 3
TAIL = 3


def frame(level: float) -> np.ndarray:
    return np.full(480, level, np.float32)


# --- near-silence -----------------------------------------------------------------------------------------


def test_too_many_quiet_frames_after_speech() -> None:
    frames = [frame(0.3)] * 20 + [frame(0.001)] * 100
    assert quiet_runaway(frames, 37, 40.0) == 20 + 37
    assert quiet_runaway(frames, 0, 40.0) is None


def test_silence_before_any_speech_is_no_runaway() -> None:
    assert quiet_runaway([frame(0.0)] * 500, 37, 40.0) is None
    assert quiet_runaway([frame(0.0005)] * 500, 37, 40.0) is None


def test_what_is_not_a_number_is_not_speech() -> None:
    assert quiet_runaway([frame(0.3)] + [frame(float("nan"))] * 50, 37, 40.0) == 38


def test_quiet_is_relative_to_the_loudest_frame() -> None:
    whisper = [frame(0.01)] * 20
    assert quiet_runaway(whisper + [frame(0.001)] * 100, 37, 40.0) is None
    assert quiet_runaway([frame(0.5), *whisper] * 10, 37, 40.0) is None
    assert quiet_runaway([frame(0.5), *([frame(0.004)] * 40)], 37, 40.0) == 38


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 37)), min_size=1, max_size=20))
def test_pauses_up_to_the_limit_never_end_an_utterance(words: list[tuple[int, int]]) -> None:
    frames = [f for loud, quiet in words for f in [frame(0.2)] * loud + [frame(0.0)] * quiet]
    assert quiet_runaway(frames, 37, 40.0) is None


# --- repetition -------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.integers(0, 2047), max_size=100), st.integers(1, 25), st.randoms(use_true_random=False))
def test_any_pattern_that_repeats_is_found_in_time(head: list[int], period: int, rng: object) -> None:
    pattern = [rng.randrange(2048) for _ in range(period)]  # type: ignore[attr-defined]
    found = repeat_runaway(head + pattern * 60, 50, 25)
    assert found is not None
    assert found <= len(head) + 51 + period


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(4, 40), st.integers(0, 19)), max_size=30), st.integers(0, 2**32))
def test_slow_speech_with_the_same_silence_code_in_every_pause(
    words: list[tuple[int, int]], seed: int
) -> None:
    """Words of ever different codes, and pauses of 1.5 s that are one code."""
    rng = np.random.default_rng(seed)
    codes = [int(c) for n, gap in words for c in [*rng.integers(0, 2000, n), *([2001] * gap)]]
    assert repeat_runaway(codes, 50, 25) is None


def test_a_period_beyond_the_longest_is_not_looked_for() -> None:
    assert repeat_runaway(list(range(30)) * 20, 50, 25) is None
    assert repeat_runaway([7] * 500, 0, 25) is None


# --- the engine -------------------------------------------------------------------------------------------


def heard_frames(sink: FakeSink) -> int:
    return len(sink.heard()) // 2 // SPF


@pytest.mark.parametrize("chunks", [(1,), (1, 4, 8)])
@pytest.mark.parametrize("speed", [20.0, 200.0])
def test_endless_near_silence_ends_soon_and_is_cut_short(
    chunks: tuple[int, ...], speed: float, caplog: pytest.LogCaptureFixture
) -> None:
    """20 loud frames, then a tenth of a per mille of them for ever."""
    parts = FakeParts(eos_after=-1, levels=[0] * 20 + [13])

    async def test(rig: Rig) -> None:
        utterance = rig.say(LONG)
        assert await rig.ended(utterance) is Reason.RUNAWAY
        stats = rig.stats[utterance]
        assert "says nothing" in stats["detail"]
        # 3 s of silence are 38 frames; beyond that only 2 s that lay between the threads, and a chunk.
        assert 58 <= stats["frames"] <= 58 + 35
        assert 20 + TAIL <= round(stats["audio_seconds"] / 0.08) <= 58

    sink = FakeSink(speed=speed, buffer=4800, capture=1 << 20)
    with caplog.at_level(logging.WARNING):
        rig = drive(test, parts=parts, sink=sink, config=with_config(chunks=chunks))
    assert rig.sink.heard()[: 2 * 20 * SPF] == expected_pcm(20)
    assert "runaway" in caplog.text


def test_at_real_time_the_silence_that_was_not_played_is_not_played() -> None:
    """With everything generated at once the silence is cut to a quarter of a second."""

    async def test(rig: Rig) -> None:
        utterance = rig.say(LONG)
        assert await rig.ended(utterance) is Reason.RUNAWAY
        assert rig.stats[utterance]["audio_seconds"] == pytest.approx((20 + TAIL) * 0.08)

    parts = FakeParts(eos_after=-1, levels=[0] * 20 + [13])
    drive(test, parts=parts, sink=FakeSink(speed=1, capture=1 << 20), config=with_config(buffer_seconds=10.0))


@pytest.mark.parametrize("period", [1, 3, 25])
def test_codes_that_repeat_end_soon(period: int) -> None:
    script = [100 + 7 * k for k in range(20)] + [900 + 11 * k for k in range(period)]

    async def test(rig: Rig) -> None:
        utterance = rig.say(LONG)
        assert await rig.ended(utterance) is Reason.RUNAWAY
        stats = rig.stats[utterance]
        assert "repeats itself" in stats["detail"]
        assert stats["frames"] == 20 + period + 50
        # All of it is played: what repeats is speech.
        assert stats["audio_seconds"] == pytest.approx(stats["frames"] * 0.08)

    drive(test, parts=FakeParts(eos_after=-1, script=script, period=period))


def test_the_utterance_after_a_runaway_is_played_whole() -> None:
    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say(LONG)) is Reason.RUNAWAY
        parts.eos_after = 10
        utterance = rig.say("Hi.", max_seconds=0.8)
        assert await rig.ended(utterance) is Reason.LIMIT
        assert rig.stats[utterance]["frames"] == 10

    parts = FakeParts(eos_after=-1, levels=[0] * 20 + [13])
    rig = drive(test, parts=parts)
    assert rig.sink.heard().endswith(expected_pcm(10))


def test_slow_speech_is_never_cut() -> None:
    """12 frames a word, and a pause of 1.5 s after each: all of it is played, exact."""
    words = 30
    text = " ".join(["word"] * words) + "."
    levels = ([0] * 12 + [14] * 19) * words
    assert measure(text, 0.08).max_frames >= 12 * words

    async def test(rig: Rig) -> None:
        utterance = rig.say(text)
        reason = await rig.ended(utterance)
        assert reason in (Reason.COMPLETED, Reason.LIMIT)
        assert rig.stats[utterance]["audio_seconds"] == pytest.approx(rig.stats[utterance]["frames"] * 0.08)
        assert rig.stats[utterance]["frames"] >= 12 * words

    drive(
        test,
        parts=FakeParts(eos_after=12 * words + 10, levels=levels),
        sink=FakeSink(speed=100, buffer=1 << 16),
    )


def test_the_pause_between_sentences_does_not_count() -> None:
    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say("One here. Two here. Three here.")) is Reason.COMPLETED

    # Each sentence ends with 30 quiet frames and the next begins with 20: 4 s with the pause between.
    levels = [13] * 20 + [0] * 10 + [13] * 30
    drive(test, parts=FakeParts(eos_after=60, levels=levels), config=with_config(sentence_pause_ms=1000))


def read_by(
    test: Callable[[Rig, int], Awaitable[None]], parts: FakeParts, slow: float = 0, **engine: Any
) -> bytes:
    """What the reader of a descriptor gets, a piece every `slow` seconds."""
    reader, writer = os.pipe()
    got = bytearray()

    def read() -> None:
        with open(reader, "rb", buffering=0) as file:
            while piece := file.read(16_384):
                got.extend(piece)
                time.sleep(slow)

    async def with_reader(rig: Rig) -> None:
        thread = threading.Thread(target=read)
        thread.start()
        await test(rig, writer)
        await asyncio.to_thread(thread.join)

    drive(with_reader, parts=parts, config=with_config(**engine))
    return bytes(got)


@pytest.mark.parametrize("chunks", [(1,), (8,), (1, 4, 8)])
@pytest.mark.parametrize("buffer_seconds", [0.2, 2.0, 20.0])
def test_a_reader_gets_the_loud_part_and_half_a_second_of_silence(
    chunks: tuple[int, ...], buffer_seconds: float
) -> None:
    """What may be the silence of a runaway is held back until it is known, also where buffers are short."""

    async def test(rig: Rig, writer: int) -> None:
        utterance = rig.say(LONG, fd=writer)
        assert await rig.ended(utterance) is Reason.RUNAWAY
        assert rig.stats[utterance]["audio_seconds"] <= 26 * 0.08 + 0.001

    parts = FakeParts(eos_after=-1, levels=[0] * 20 + [13])
    got = read_by(test, parts, chunks=chunks, buffer_seconds=buffer_seconds)
    assert got.startswith(expected_pcm(20))
    assert len(got) in range(2 * SPF * (20 + TAIL), 2 * SPF * (20 + 6) + 1)


@pytest.mark.parametrize("slow", [0.0, 0.005])
@pytest.mark.parametrize("pause", [3, 7, 18, 37])
def test_a_reader_gets_every_pause_whole(pause: int, slow: float) -> None:
    """Silence after which speech goes on, or ends as it should, is silence that was meant."""
    levels = [0] * 10 + [13] * pause + [0] * 10 + [13] * pause

    async def test(rig: Rig, writer: int) -> None:
        utterance = rig.say(LONG, fd=writer)
        assert await rig.ended(utterance, 60) is Reason.COMPLETED

    parts = FakeParts(eos_after=20 + 2 * pause, levels=levels)
    got = read_by(test, parts, slow, buffer_seconds=0.2)
    # Three sentences; the silence that each ends in is more than the pause that was asked for.
    one = SPF * (20 + 2 * pause)
    for sentence in np.frombuffer(got, "<i2").reshape(3, one):
        loud = np.abs(sentence.reshape(-1, SPF)).max(axis=1) > 1000
        assert list(loud) == [level == 0 for level in levels]


def test_silence_longer_than_the_ring_is_not_held_back() -> None:
    """With detection after 60 s there is no telling; the reader gets it as it comes."""

    async def test(rig: Rig, writer: int) -> None:
        utterance = rig.say(LONG, fd=writer)
        assert await rig.ended(utterance) is Reason.COMPLETED

    parts = FakeParts(eos_after=420, levels=[0] * 10 + [13])
    got = read_by(test, parts, runaway_quiet_seconds=60.0, runaway_repeat_seconds=0.0)
    assert len(got) == 2 * 3 * SPF * 420


def test_both_detectors_can_be_switched_off() -> None:
    async def test(rig: Rig) -> None:
        utterance = rig.say("Hi there, you.")
        assert await rig.ended(utterance) is Reason.LIMIT
        assert "longest allowed" in rig.stats[utterance]["detail"]

    parts = FakeParts(eos_after=-1, script=[5], period=1, levels=[0, 13])
    drive(test, parts=parts, config=with_config(runaway_quiet_seconds=0.0, runaway_repeat_seconds=0.0))
