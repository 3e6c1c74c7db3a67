"""The chunk schedule and the start policy, and what they mean for a listener."""

from __future__ import annotations

import itertools

import pytest

from cython_kernels.frame_loop import schedule_next, start_frames


def test_fixed_and_ramp() -> None:
    assert [schedule_next("fixed", [4], i) for i in range(3)] == [4, 4, 4]
    assert [schedule_next("ramp", [1, 4, 8], i) for i in range(5)] == [1, 4, 8, 8, 8]


@pytest.mark.parametrize(
    "buffered, rate, chunk",
    [(0, 0.5, 1), (3.3, 0.5, 4), (5, 0.5, 4), (5.5, 0.5, 8), (5.5, 1.0, 4), (11, 1.0, 8)],
)
def test_adaptive_takes_the_largest_chunk_it_can_wait_for(buffered: float, rate: float, chunk: int) -> None:
    assert schedule_next("adaptive", [1, 4, 8], 0, buffered, rate) == chunk


def listener(kind: str, chunks: list[int], rate: float, total: int) -> tuple[float, int]:
    """Simulated: when playing starts, in frames of time, and how often it then runs dry.

    Frames are made one after another at `rate`; a chunk is heard of when its last frame is made.
    """
    made, arrivals, index = 0, [], 0
    while made < total:
        buffered = made - made * rate
        made = min(total, made + schedule_next(kind, chunks, index, buffered, rate))
        index += 1
        arrivals.append((made * rate, made, index))
    start = next(
        at
        for at, got, i in arrivals
        if got == total or got >= start_frames(kind, chunks, i, total - got, rate)
    )
    gaps = sum(
        after_at > start + got + 1e-9
        for (_, got, _), (after_at, _, _) in itertools.pairwise(arrivals)
        if after_at > start
    )
    return start, gaps


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("total", [2, 10, 100, 700])
@pytest.mark.parametrize(
    "kind, chunks", [("ramp", [1, 4, 8]), ("ramp", [1, 1, 1, 4, 8]), ("fixed", [8]), ("fixed", [1])]
)
def test_started_by_the_policy_playing_never_runs_dry(
    kind: str, chunks: list[int], rate: float, total: int
) -> None:
    start, gaps = listener(kind, chunks, rate, total)
    assert gaps == 0
    assert start <= total * rate


def test_a_fast_machine_starts_with_the_first_chunk_and_a_slow_one_waits_no_longer_than_needed() -> None:
    assert listener("ramp", [1, 4, 8], 0.1, 100)[0] == pytest.approx(0.1)
    assert listener("ramp", [1, 1, 1, 4, 8], 0.4, 100)[0] == pytest.approx(0.4)
    start, _ = listener("fixed", [1], 1.3, 100)
    # Without the margin 30 of 130 frames of time would do.
    assert 30 < start < 50


def test_bad_schedules_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'weird'.*fixed, ramp, adaptive"):
        schedule_next("weird", [1], 0)
    for chunks in ([], [0], [33], [1] * 17):
        with pytest.raises(ValueError, match="allowed is 1 to 16 numbers from 1 to 32"):
            schedule_next("ramp", chunks, 0)
