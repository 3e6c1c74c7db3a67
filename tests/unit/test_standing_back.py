"""Renders stand back for what goes before them, and go on with exactly the same samples."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
import threading
import time
from typing import Any

import pytest
from engine_rig import Rig, drive, with_config, with_delivery
from hypothesis import given, settings
from hypothesis import strategies as st
from render_reader import Reader

from cython_kernels.fake_sink import FakeSink
from cython_kernels.pipe import BEGINNING
from edgettsd.config import Config
from edgettsd.engine._api import Priority, Reason, SpeakOptions
from edgettsd.engine.parts import FakeParts, Segment
from edgettsd.engine.place import Place, timeline
from edgettsd.metrics import attribution

SPF = 1920
MS = 1_000_000
# Loudness of the frames of every sentence: quiet ends, so that pauses depend on the sentence before; and the
# samples depend on how many frames are decoded at once, as those of some int8 decoders do.
LEVELS = [12, *[0] * 9, 9, 12]


class Sentences(FakeParts):
    """A sentence says how many frames it has: "Number 12."; "Number 0." has none."""

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        found = re.search(r"\d+", text)
        frames = int(found[0]) if found else 10
        # Not super(): a dataclass with slots is another class than the one that was written.
        segment = FakeParts.segment(self, text, options)
        return dataclasses.replace(segment, drop_frames=1, end_frames=frames + 1)


def parts(**options: Any) -> FakeParts:
    return Sentences(levels=LEVELS, by_chunk=True, **options)


def text(frames: list[int]) -> str:
    return " ".join(f"Number {n}." for n in frames)


def configuration(max_wait_ms: int = 1000, **delivery: Any) -> Config:
    return with_delivery(with_config(max_wait_ms=max_wait_ms, sentence_pause_ms=200), **delivery)


async def rendered(rig: Rig, utterance: int, reader: Reader) -> bytes:
    assert await rig.ended(utterance, 30) is Reason.COMPLETED
    return await asyncio.to_thread(reader.all)


def alone(frames: list[int], **options: Any) -> bytes:
    """What a render of these sentences is when nothing comes between."""
    got: list[bytes] = []

    async def test(rig: Rig) -> None:
        reader = Reader()
        got.append(await rendered(rig, rig.say(text(frames), fd=reader.writer, **options), reader))

    drive(test, parts=parts(), config=configuration())
    return got[0]


@given(
    frames=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    pace=st.sampled_from([0, 300, 2000]),
    max_wait_ms=st.sampled_from([0, 5, 1000]),
    speech=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(list(Priority))), max_size=6),
    reader_pause=st.sampled_from([0.0, 0.003]),
    memory=st.sampled_from([64, 256]),
)
@settings(max_examples=300 if os.environ.get("EDGETTSD_LONG") else 15)
def test_whatever_comes_between_a_render_has_the_same_samples(
    frames: list[int],
    pace: int,
    max_wait_ms: int,
    speech: list[tuple[int, Priority]],
    reader_pause: float,
    memory: int,
) -> None:
    expected = alone(frames, volume=0.5)

    async def test(rig: Rig) -> None:
        reader = Reader(reader_pause)
        render = rig.say(text(frames), fd=reader.writer, volume=0.5, priority=Priority.TEXT)
        spoken = []
        for wait, priority in speech:
            await asyncio.sleep(wait / 1000)
            spoken.append(rig.say("Number 3.", priority=priority))
        assert await rendered(rig, render, reader) == expected
        for utterance in spoken:
            await rig.ended(utterance)
        assert rig.started.count(render) <= 1

    drive(
        test,
        parts=parts(step_us=pace),
        sink=FakeSink(speed=60, buffer=9600, capture=1 << 22),
        config=configuration(max_wait_ms, spool_memory_kib=memory, spool_mib=0),
    )


def test_speech_waits_for_the_end_of_a_sentence() -> None:
    frames = [12, 12, 12, 12, 12, 12]
    expected = alone(frames)

    async def test(rig: Rig) -> None:
        reader = Reader()
        render = rig.say(text(frames), fd=reader.writer)
        await rig.until(lambda: render in rig.started)
        speech = rig.say("Number 3.", priority=Priority.IMPORTANT)
        assert await rig.ended(speech) is Reason.COMPLETED
        assert render not in rig.stats and rig.engine.active in (0, render)
        assert await rendered(rig, render, reader) == expected
        # No sentence was given up, but for a frame or two of the next one.
        assert 6 * 13 + 4 <= rig.engine.stats()["frames_generated"] <= 6 * 13 + 4 + 6
        assert rig.stats[render]["frames"] == 6 * 13 and rig.stats[render]["sentences"] == 6
        assert 0 < rig.stats[render]["away_seconds"] < rig.stats[render]["wall_seconds"]
        assert "away_seconds" not in rig.stats[speech]
        assert rig.stats[render]["queued_seconds"] < 1 and rig.stats[render]["underruns"] == 0

    drive(test, parts=parts(step_us=3000), config=configuration(20_000))


def test_a_sentence_that_takes_too_long_is_given_up_and_made_again() -> None:
    frames = [30, 30]
    expected = alone(frames)

    async def test(rig: Rig) -> None:
        reader = Reader()
        render = rig.say(text(frames), fd=reader.writer)
        await rig.until(lambda: render in rig.started)
        asked = time.monotonic()
        speech = rig.say("Number 3.", priority=Priority.IMPORTANT)
        await rig.until(lambda: rig.engine.active == speech)
        assert time.monotonic() - asked >= 0.05
        assert await rig.ended(speech) is Reason.COMPLETED
        assert await rendered(rig, render, reader) == expected
        assert rig.engine.stats()["frames_generated"] > 2 * 31 + 4, "a part of it twice"
        assert rig.stats[render]["frames"] == 2 * 31 and rig.stats[render]["sentences"] == 2
        shares = dict(rig.engine.stats()["attribution"])
        wall = shares.pop("wall")
        assert sum(shares.values()) == pytest.approx(wall, abs=0.1)
        assert shares["away"] / 1000 == pytest.approx(rig.stats[render]["away_seconds"], abs=0.1)

    drive(test, parts=parts(step_us=20_000), config=configuration(50))


def test_while_a_spool_is_full_others_go_on_whatever_their_priority() -> None:
    frames = [30, 30, 30]
    expected, short = alone(frames), alone([5])

    async def test(rig: Rig) -> None:
        begin = threading.Event()
        reader, other_reader = Reader(begin=begin), Reader()
        stuck = rig.say(text(frames), fd=reader.writer, priority=Priority.IMPORTANT)
        await rig.until(lambda: stuck in rig.started)
        other = rig.say(text([5]), fd=other_reader.writer, priority=Priority.PROGRESS)
        speech = rig.say("Number 3.", priority=Priority.PROGRESS)
        assert await rig.ended(speech) is Reason.COMPLETED
        assert await rendered(rig, other, other_reader) == short
        assert stuck not in rig.stats
        begin.set()
        assert await rendered(rig, stuck, reader) == expected

    drive(test, parts=parts(), config=configuration(spool_memory_kib=64, spool_mib=0))


def test_several_renders_stand_back_and_go_on() -> None:
    frames = [20, 9, 14]
    expected = alone(frames)

    async def test(rig: Rig) -> None:
        renders = []
        for priority in reversed(Priority):
            reader = Reader()
            render = rig.say(text(frames), fd=reader.writer, priority=priority)
            renders.append((render, reader))
            await rig.until(lambda render=render: render in rig.started)
        for render, reader in renders:
            assert await rendered(rig, render, reader) == expected
        away = [rig.stats[render].get("away_seconds", 0) for render, _ in renders]
        assert away == sorted(away, reverse=True) and away[-1] == 0
        assert rig.started == [render for render, _ in renders]

    drive(test, parts=parts(step_us=2000), config=configuration(5))


@pytest.mark.parametrize("fault", ["abort", "leave", "reader", "model", "stop"])
def test_a_render_that_stood_back_ends_once(fault: str) -> None:
    async def test(rig: Rig) -> None:
        begin = threading.Event()
        # One that leaves closes its end after the first piece.
        reader = Reader(begin=begin, most=1 if fault == "reader" else 1 << 30)
        render = rig.say(text([30] * 5), fd=reader.writer, client="b", client_bound=True)
        await rig.until(lambda: render in rig.started)
        speech = rig.say("Number 20.", priority=Priority.IMPORTANT)
        await rig.until(lambda: rig.engine.active == speech)
        begin.set()
        if fault == "abort":
            assert rig.engine.abort(render, "b")
        elif fault == "leave":
            rig.engine.client_gone("b")
        elif fault == "model":
            rig.parts.segment_error = RuntimeError("on purpose")
        elif fault == "stop":
            await rig.engine.stop()
        expected = Reason.ERROR if fault == "model" else Reason.ABORTED
        assert await rig.ended(render) is expected
        await asyncio.to_thread(reader.all)
        assert (await rig.ended(speech)) in (Reason.COMPLETED, Reason.ABORTED)

    drive(test, parts=parts(step_us=2000), config=configuration(0))


def test_a_render_that_waits_alone_ends_with_the_engine() -> None:
    """It stood back and speech is held, so nothing is active; but its delivery has still to end."""

    async def test(rig: Rig) -> None:
        reader = Reader()
        render = rig.say(text([30] * 5), fd=reader.writer)
        await rig.until(lambda: render in rig.started)
        speech = rig.say("Number 20.", priority=Priority.IMPORTANT)
        await rig.until(lambda: rig.engine.active == speech)
        rig.engine.pause()
        rig.engine.abort(speech, "a")
        await rig.ended(speech)
        assert (rig.engine.active, rig.engine.queue_length) == (0, 1)
        await rig.engine.stop()
        assert dict(rig.finished).get(render) is Reason.ABORTED
        await asyncio.to_thread(reader.all)

    drive(test, parts=parts(step_us=2000), config=configuration(0))


def test_runaway_and_limit_are_the_same_after_standing_back() -> None:
    results: list[list[Any]] = []
    for between in (False, True):

        async def test(rig: Rig, between: bool = between) -> None:
            ends: list[Any] = []
            for options in ({}, {"max_seconds": 1.2}):
                reader = Reader()
                render = rig.say(text([20, 12]) if options else text([12, 160]), fd=reader.writer, **options)
                await rig.until(lambda render=render: render in rig.started)
                # Each time the sentence is given up: for ever it would not end.
                for _ in range(4 if between else 0):
                    await rig.ended(rig.say("Number 1.", priority=Priority.IMPORTANT))
                ends += [await rig.ended(render), await asyncio.to_thread(reader.all)]
                ends.append(rig.stats[render]["frames"])
            results.append(ends)

        drive(test, parts=parts(step_us=500), config=configuration(20))
    assert results[0][0] is Reason.RUNAWAY and results[0][3] is Reason.LIMIT
    assert results[0][:2] == results[1][:2] and results[0][3:] == results[1][3:]


def test_a_place_counts_what_the_spool_has_already() -> None:
    place = Place()
    place.sentence_ended(1000, (1, 0.5, 10, 0))
    place.left(50)
    assert place.go_on(1300, 90) == 300, "made again from the mark on: 300 samples are there"
    place.sentence_ended(800, (2, 0.5, 10, 0))
    assert place.samples == 1800 and place.away(100) == [(50, 90)]
    place.left(120)
    assert place.go_on(1800, 130) == 0
    assert place.mark[0] == 2 and place.away(140) == [(50, 90), (120, 130)]
    assert Place().mark == BEGINNING


def test_the_time_away_is_a_share_of_its_own() -> None:
    def segment(begin: int, wall: int) -> dict[str, int]:
        return {"begin_ns": begin * MS, "wall_ns": wall * MS, "talker_ns": wall * MS}

    segments = timeline([segment(10, 20), segment(100, 30)], [(28 * MS, 90 * MS)])
    shares = attribution(0, 5 * MS, segments, 140 * MS)
    assert shares["away"] == 60 and shares["front_end"] == 15 and shares["tail"] == 10
    assert sum(value for share, value in shares.items() if share != "wall") == shares["wall"] == 140
