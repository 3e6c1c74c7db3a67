"""Attribution of an utterance's wall time, and statistics of step records."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from engine_rig import Rig, drive, with_config

from cython_kernels import pipe as p
from edgettsd.ctl._stats import table
from edgettsd.engine._api import Reason
from edgettsd.engine.parts import FakeParts
from edgettsd.metrics import StepStatistics, attribution, quantiles

MS = 1_000_000


def segment(begin_ms: int, wall_ms: int, **parts: int) -> dict[str, Any]:
    result: dict[str, Any] = {"begin_ns": begin_ms * MS, "wall_ns": wall_ms * MS}
    for name in ("prefill", "talker", "predictor", "sample", "wait", "turn"):
        result[f"{name}_ns"] = parts.get(name, 0) * MS
    return result


def test_shares_add_up_to_the_wall_time():
    segments = [segment(130, 50, prefill=10, talker=20, predictor=15), segment(190, 30, talker=20, wait=4)]
    shares = attribution(100 * MS, 120 * MS, segments, 300 * MS)
    assert shares["queued"] == 20
    assert shares["front_end"] == 20
    assert (shares["talker"], shares["wait"]) == (40, 4)
    assert shares["loop"] == 11
    assert shares["tail"] == 80
    assert sum(ms for name, ms in shares.items() if name != "wall") == pytest.approx(shares["wall"]) == 200


def test_an_utterance_that_never_began_was_queued():
    shares = attribution(100 * MS, 0, [], 150 * MS)
    assert shares["queued"] == shares["wall"] == 50


def test_quantiles():
    assert quantiles([]) == {}
    assert quantiles([MS, 2 * MS, 9 * MS]) == {"count": 3, "median": 2.0, "p95": 8.3, "max": 9.0}


def frames(count: int, talker_ms: int, delay_ms: int = 0, generation: int = 1) -> Any:
    records = np.zeros(count, p.STEP_DTYPE)
    records["generation"], records["kind"], records["n"] = generation, p.STEP_FRAME, 2
    records["part_ns"][:, p.STEP_TALKER] = talker_ms * MS
    records["part_ns"][:, p.STEP_SUBSTEPS] = 3 * MS
    records["part_ns"][:, p.STEP_SUBSTEPS + 1] = 4 * MS
    records["part_ns"][:, p.STEP_WAIT] = 50 * MS
    records["wall_ns"] = (talker_ms + 58) * MS
    records["delay_ns"] = delay_ms * MS
    return records


def test_disturbed_frames_are_counted_and_not_averaged_in():
    steps = StepStatistics()
    steps.add(frames(6, 10))
    steps.add(frames(2, 500, delay_ms=480))
    report = steps.report()
    assert report["talker"] == {"count": 6, "median": 10.0, "p95": 10.0, "max": 10.0}
    assert report["frame"]["disturbed"] == 0.25
    assert report["frame"]["median"] == 18.0
    assert report["substeps"] == [3.0, 4.0]
    assert report["loop"]["median"] == 1.0
    only = StepStatistics()
    only.add(frames(2, 500, delay_ms=480))
    assert only.report()["frame"]["disturbed"] == 1.0
    assert only.report()["talker"]["median"] == 500.0


def test_memory_is_bounded_and_the_newest_stay():
    steps = StepStatistics(keep=5)
    for generation in range(1, 5):
        steps.add(frames(3, generation, generation=generation))
    kept = steps.records(p.STEP_FRAME)
    assert list(kept["generation"]) == [3, 3, 4, 4, 4]
    assert len(steps.records(p.STEP_FRAME, [3])) == 2


def test_the_engine_tells_where_the_time_went():
    parts = FakeParts(eos_after=20, step_us=2000, substep_us=100, decode_us=1000, groups=16)

    async def test(rig: Rig) -> None:
        assert await rig.ended(rig.say()) is Reason.COMPLETED
        stats = json.loads(json.dumps(rig.engine.stats()))
        shares = stats["attribution"]
        assert sum(ms for name, ms in shares.items() if name != "wall") == pytest.approx(
            shares["wall"], abs=0.01
        )
        assert shares["talker"] >= 20 * 2 and shares["predictor"] >= 20 * 1.5
        steps = stats["steps"]
        assert stats["steps_lost"] == 0
        assert steps["frame"]["count"] + round(steps["frame"]["disturbed"] * 20) >= 20
        assert steps["talker"]["median"] >= 2 and len(steps["substeps"]) == 15
        assert sum(e["count"] * int(size) for size, e in steps["decoder"].items()) <= 20
        assert steps["decoder"]["4"]["median"] >= 4
        first = stats["first_audio"]
        assert sum(ms for name, ms in first.items() if name != "total") == pytest.approx(
            first["total"], abs=0.01
        )
        assert all(ms >= 0 for ms in first.values())
        lines = "\n".join(table(stats))
        assert "predictor" in lines and "decoder, 4 frames" in lines and "first_decode" in lines

    drive(test, parts=parts, config=with_config(step_statistics=True))


def test_steps_are_not_recorded_by_default():
    async def test(rig: Rig) -> None:
        await rig.ended(rig.say())
        stats = rig.engine.stats()
        assert stats["step_statistics"] is False and "steps" not in stats
        assert stats["attribution"]["wall"] > 0
        assert "step_statistics = true" in table(stats)[-1]

    drive(test)


def test_tracing_is_off_until_it_is_asked_for():
    pipe = p.Pipe(2, 10, 24000)
    assert not pipe.tracing and len(pipe.steps()) == 0
    pipe.trace()
    assert pipe.tracing and pipe.steps_lost == 0 and pipe.steps().dtype == p.STEP_DTYPE
