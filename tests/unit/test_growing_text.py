"""Text that is still written while it is spoken sounds like the whole text, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine_rig import SPF, Rig, drive, expected_pcm, with_config
from hypothesis import given
from hypothesis import strategies as st
from test_text_growing import TEXTS

from cython_kernels.fake_sink import FakeSink
from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request, SpeakOptions, State
from edgettsd.engine.callers import NOBODY
from edgettsd.engine.parts import FakeParts
from edgettsd.engine.plan import sentences
from edgettsd.engine.script import Script
from edgettsd.engine.text_source import TextSource
from edgettsd.errors import InvalidTextError
from edgettsd.families.qwen3_tts.parts import QwenParts
from edgettsd.models import default
from edgettsd.models.store import open_bundle

TEXT = "It was 98.6 degrees. Dr. Smith said so! And then? Nothing happened.\n\nThe end of it."
FRAME = 0.08


def say(rig: Rig, source: TextSource, **options: Any) -> int:
    return rig.engine.speak(Request("", SpeakOptions(**options), source=source))


async def write(source: TextSource, text: str, rng: random.Random) -> None:
    """Append the text in pieces, with pauses, and close."""
    while text:
        n = rng.randint(1, 12)
        source.append(text[:n])
        text = text[n:]
        await asyncio.sleep(rng.choice([0, 0, 0.001, 0.03]))
    source.close()


def heard(test: Callable[[Rig], Awaitable[None]], parts: FakeParts | QwenParts, config: Config) -> bytes:
    sink = FakeSink(speed=0, buffer=1 << 16, capture=1 << 22)
    return drive(test, parts=parts, sink=sink, config=config).sink.heard()


class Texts(FakeParts):
    """Scripted parts that keep what they were asked to say."""

    def segment(self, text: str, options: SpeakOptions) -> Any:
        said.append(text)
        return FakeParts.segment(self, text, options)


said: list[str] = []


@pytest.mark.parametrize(
    ("model", "seed"), [("scripted", 0), ("scripted", 1), ("scripted", 2), ("built-in", 0)]
)
def test_a_growing_text_sounds_like_the_whole_one(model: str, seed: int) -> None:
    """Over scripted kernels, and over the real talker, predictor and decoder of a small model."""
    # One thread each: with more, tests that run beside this one would take turns with every operator.
    config = with_config(threads_generator=1, threads_decoder=1)

    def parts() -> FakeParts | QwenParts:
        if model == "scripted":
            return Texts()
        return QwenParts(open_bundle(str(default.BUILT_IN)), config)

    async def whole(rig: Rig) -> None:
        utterance = rig.engine.speak(Request(TEXT, SpeakOptions(seed=11)))
        assert await rig.ended(utterance, 60) is Reason.COMPLETED

    async def growing(rig: Rig) -> None:
        source = TextSource()
        utterance = say(rig, source, seed=11)
        await write(source, TEXT, random.Random(seed))
        assert await rig.ended(utterance, 60) is Reason.COMPLETED
        assert rig.stats[utterance]["sentences"] == 5

    said.clear()
    expected = heard(whole, parts(), config)
    asked = said.copy()
    said.clear()
    assert heard(growing, parts(), config) == expected and len(expected) > 5 * 10 * SPF
    assert said == asked and (asked == [] or len(asked) == 5)


def test_speech_begins_before_the_text_ends_and_a_pause_of_the_writer_is_no_end() -> None:
    async def test(rig: Rig) -> None:
        source = TextSource("Hello there. And then")
        utterance = say(rig, source)
        await rig.until(lambda: utterance in rig.started)
        pipe = rig.engine._pipeline.pipe  # type: ignore[union-attr]
        await rig.until(lambda: rig.sink.counts()["heard"] >= 25 * SPF)
        beats = pipe.counters()["generator_beat"]
        await asyncio.sleep(0.7)
        assert rig.engine.heartbeat() and pipe.counters()["generator_beat"] >= beats + 2
        assert utterance not in rig.stats and rig.engine.state is State.SPEAKING
        assert pipe.counters()["frames_generated"] == 25, "only the first sentence is certain"
        source.append(" so")
        source.append("me more. ")
        source.close()
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.stats[utterance]["frames"] == 50
        assert rig.engine.stats()["attribution"]["text"] >= 500

    samples = drive(test).sink.heard()
    one = expected_pcm(25)
    assert samples.startswith(one) and samples.endswith(one) and len(samples) > 2 * len(one)


def test_a_slow_model_does_not_keep_what_it_has_until_the_text_ends() -> None:
    """Twice as slow as speech: what is certain is buffered, and heard while the writer thinks."""
    parts = FakeParts(eos_after=8, step_us=160_000)

    async def test(rig: Rig) -> None:
        source = TextSource("Hello there. And then")
        utterance = say(rig, source)
        await rig.until(lambda: utterance in rig.started, 30)
        await rig.until(lambda: rig.sink.counts()["heard"] >= 8 * SPF, 30)
        source.append(" it ends.")
        source.close()
        assert await rig.ended(utterance, 30) is Reason.COMPLETED
        assert rig.stats[utterance]["frames"] == 16

    drive(test, parts=parts, sink=FakeSink(speed=1, capture=1 << 20))


def test_an_abort_ends_the_wait_for_text_at_once_and_the_next_one_speaks() -> None:
    async def test(rig: Rig) -> None:
        source = TextSource("Hello there. And then")
        first, second = say(rig, source), rig.say()
        await rig.until(lambda: rig.sink.counts()["heard"] >= 25 * SPF)
        t0 = time.monotonic()
        rig.engine.abort(first, NOBODY)
        assert await rig.ended(first) is Reason.ABORTED
        assert await rig.ended(second) is Reason.COMPLETED
        assert time.monotonic() - t0 < 8
        # The writer does not know yet.
        source.append(" more of it.")
        source.close()
        await asyncio.sleep(0.1)
        assert rig.stats[second]["frames"] == 25

    drive(test)


def test_stopping_does_not_wait_for_text() -> None:
    async def test(rig: Rig) -> None:
        say(rig, TextSource())
        await asyncio.sleep(0.1)

    t0 = time.monotonic()
    drive(test)
    assert time.monotonic() - t0 < 8


@pytest.mark.parametrize("text", ["", "... \n !?"])
def test_a_text_that_turns_out_to_say_nothing_completes(text: str) -> None:
    async def test(rig: Rig) -> None:
        source = TextSource()
        utterance = say(rig, source)
        await asyncio.sleep(0.05)
        source.append(text)
        source.close()
        assert await rig.ended(utterance) is Reason.COMPLETED
        assert rig.stats[utterance]["frames"] == 0

    drive(test)


def test_max_seconds_ends_a_text_that_still_grows() -> None:
    async def test(rig: Rig) -> None:
        source = TextSource("One. Two. Three. Four. And then")
        utterance = say(rig, source, max_seconds=3.0)
        assert await rig.ended(utterance) is Reason.LIMIT
        source.append(" five.")

    drive(test)


# --- the script -------------------------------------------------------------------------------------------


def of(text: str, cuts: list[int], rate: float = 1.0) -> Script:
    """A script that was looked at after each piece."""
    source = TextSource()
    script = Script(source, FRAME, lambda part: 7 * len(part) % 50, rate)
    known: list[Any] = []
    for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(text)], strict=True):
        source.append(text[a:b])
        script.grow()
        assert not script.complete and [script[index] for index in range(len(known))] == known
        known = [script[index] for index in range(len(script))]
    source.close()
    script.grow()
    assert script.complete
    return script


@given(TEXTS, st.data())
def test_the_script_of_any_cuts_is_that_of_the_whole_text(text: str, data: st.DataObject) -> None:
    """Sentences, their lengths and their bounds."""
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    script = of(text, cuts, 1.3)
    whole = list(sentences(text, FRAME, lambda part: 7 * len(part) % 50, 1.3))
    assert [script[index] for index in range(len(script))] == whole
    assert script.expected_frames == sum(sentence.expected_frames for sentence in whole)


def test_what_is_expected_grows_with_what_is_known() -> None:
    source = TextSource("A first sentence. A second one. A th")
    script = Script(source, FRAME)
    assert (len(script), script.expected_frames, script.complete) == (0, 0, False)
    script.grow()
    assert len(script) == 2 and not script.complete
    before = script.expected_frames
    assert before == script[0].expected_frames + script[1].expected_frames
    source.append("ird one.")
    source.close()
    assert script.expected_frames == before, "nothing is read until it is asked for"
    script.grow()
    script.grow()
    assert len(script) == 3 and script.expected_frames > before and script.complete


def test_a_text_has_a_limit_and_an_end() -> None:
    source = TextSource("12345", limit=8)
    with pytest.raises(InvalidTextError, match=re.escape("the text would have 9 characters; allowed: 8")):
        source.append("6789")
    source.append("678")
    source.close()
    source.close()
    with pytest.raises(InvalidTextError, match="the text is closed"):
        source.append("")
    assert source.take() == ("12345678", True) and source.take() == ("", True)
    assert TextSource.whole("all").take() == ("all", True)
