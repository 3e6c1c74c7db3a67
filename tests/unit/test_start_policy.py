"""When playing starts, measured on a whole engine of scripted kernels and on the decode loop alone."""

from __future__ import annotations

import dataclasses
import threading
import time

import model_files
import pytest
from engine_rig import Rig, drive, with_config

from cython_kernels.fake import FakeDecoder
from cython_kernels.fake_sink import FakeSink
from cython_kernels.frame_loop import DecodeLoop
from cython_kernels.pipe import ITEM_FRAME, ITEM_SEG_BEGIN, Pipe
from edgettsd.config import ModelConfig
from edgettsd.engine._api import Reason
from edgettsd.engine.bundle_parts import BundleParts
from edgettsd.engine.parts import FakeParts

# A frame takes 15 + 9 ms to generate and 10 ms to decode, of 80.
PACED = {"step_us": 15_000, "substep_us": 600, "groups": 16, "decode_us": 10_000}


def spoken(text: str, parts: FakeParts, **engine: object) -> dict[str, float]:
    """Figures of the second of two utterances in real time."""
    figures = {}

    async def test(rig: Rig) -> None:
        for _ in range(2):
            number = rig.say(text)
            assert await rig.ended(number) is Reason.COMPLETED
            figures.update(rig.stats[number])

    drive(test, parts=parts, sink=FakeSink(speed=1), config=with_config(**engine))
    return figures


@pytest.mark.parametrize("threads", [(2, 2), (1, 1)])
def test_on_a_fast_enough_machine_sound_comes_with_the_first_frame(threads: tuple[int, int]) -> None:
    generator, decoder = threads
    stats = spoken(
        "Two dozen frames of speech.",
        FakeParts(eos_after=30, **PACED),
        schedule="adaptive",
        chunks=(1, 4, 8),
        threads_generator=generator,
        threads_decoder=decoder,
        cpus_generator=(0,),
        cpus_decoder=(1,),
    )
    assert stats["underruns"] == 0
    # Prefill, predictor, one chunk: 34 ms and the machine's own delays.
    assert stats["ttfa_ms"] < 160


@pytest.mark.parametrize("schedule", ["ramp", "adaptive"])
def test_more_speech_than_estimated_leaves_no_gap(schedule: str) -> None:
    stats = spoken("Hi.", FakeParts(eos_after=45, **PACED), schedule=schedule, chunks=(1, 4, 8))
    assert stats["frames"] == 45
    assert stats["underruns"] == 0


def test_where_stages_take_turns_a_chunk_does_not_wait_for_the_talkers_next_step() -> None:
    figures = {}

    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say("Good day.")) is Reason.COMPLETED
        figures.update(rig.engine.stats()["first_audio"])

    shared = {"threads_generator": 2, "threads_decoder": 2, "cpus_generator": (0, 1), "cpus_decoder": (0, 1)}
    config = with_config(schedule="fixed", chunks=(1,), step_statistics=True, **shared)
    drive(test, parts=FakeParts(eos_after=3, step_us=200_000, decode_us=5_000), config=config)
    assert figures["handover"] < 100


def decode(work_us: list[int]) -> DecodeLoop:
    """A decode loop that was told what each frame took to generate."""
    pipe = Pipe(4, 1920, pcm_seconds=60, backpressure_seconds=60)
    loop = DecodeLoop(pipe, FakeDecoder(4, 1920, (1, 4, 8)), kind="fixed", chunks=(1,))
    thread = threading.Thread(target=loop.run)
    thread.start()
    generation = pipe.next_generation()
    pipe.push_item(generation, ITEM_SEG_BEGIN)
    for us in work_us:
        pipe.push_item(generation, ITEM_FRAME, arg=us, codes=[1, 2, 3, 4])
    deadline = time.monotonic() + 5
    while pipe.counters()["frames_decoded"] < len(work_us) and time.monotonic() < deadline:
        time.sleep(0.001)
    pipe.stop()
    thread.join()
    return loop


def test_costs_are_what_the_frames_say_and_the_spread_how_much_they_differ() -> None:
    steady, restless = decode([40_000] * 24), decode([20_000, 60_000] * 12)
    assert steady.costs[0] == pytest.approx(0.5, rel=0.01)
    assert restless.costs[0] == pytest.approx(0.5, rel=0.2)
    assert steady.spread < 0.02
    assert restless.spread > 0.3


def test_one_late_frame_is_remembered_for_a_while() -> None:
    # 0.5 of a frame's duration each, and one that took 1.25.
    steady, stalled = decode([40_000] * 40), decode([40_000] * 30 + [100_000] + [40_000] * 9)
    assert steady.late < 0.15
    assert 0.4 < stalled.late < 0.75
    longer = decode([40_000] * 30 + [100_000] + [40_000] * 100)
    assert longer.late < 0.15


def test_what_was_measured_before_is_expected() -> None:
    loop = DecodeLoop(
        Pipe(4, 1920),
        FakeDecoder(4, 1920, (1, 4, 8)),
        chunks=(1, 4, 8),
        expect={0: 0.04, 1: 0.032, 4: 0.08, 8: 0.16},
    )
    assert loop.costs == pytest.approx({0: 0.5, 1: 0.4, 4: 1.0, 8: 2.0})
    # Side by side the slower of the two sets the pace.
    assert loop.rate == pytest.approx(0.5)
    for wrong in ({3: 0.1}, {1: 0.0}, {0: -1.0}):
        with pytest.raises(ValueError, match="allowed is above 0 s, for 0 and the decoder's sizes"):
            DecodeLoop(Pipe(4, 1920), FakeDecoder(4, 1920, (1, 4, 8)), expect=wrong)


@pytest.mark.parametrize(
    "chunks, sizes", [((), (1, 4, 8)), ((1, 4), (1, 4)), ((4,), (1, 4)), ((1,), (1,)), ((16,), (1, 4, 8))]
)
def test_only_the_chunk_sizes_that_can_be_used_are_loaded(
    chunks: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    model = ModelConfig(path=str(model_files.bundle()))
    parts = BundleParts.load(dataclasses.replace(with_config(chunks=chunks), model=model))
    assert parts._sizes() == sizes
