"""The chunk schedule and the start policy, and what they mean for a listener."""

from __future__ import annotations

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


@pytest.mark.parametrize("rate", [0.3, 0.8, 1.0, 1.3, 2.0])
@pytest.mark.parametrize("total", [10, 100, 700])
def test_started_by_the_policy_playing_never_runs_dry(rate: float, total: int) -> None:
    """Simulated listener: frame k is ready at k * rate; playing starts as soon as the policy allows."""
    start_at = next(k for k in range(1, total + 1) if k >= start_frames(total - k, rate, 1.0) or k == total)
    t0 = start_at * rate
    assert all(k * rate <= t0 + (k - 1) for k in range(1, total + 1))
    if rate < 0.9:
        assert start_at == 1


def test_bad_schedules_are_refused() -> None:
    with pytest.raises(ValueError, match="'weird'.*fixed, ramp, adaptive"):
        schedule_next("weird", [1], 0)
    for chunks in ([], [0], [33], [1] * 17):
        with pytest.raises(ValueError, match="allowed is 1 to 16 numbers from 1 to 32"):
            schedule_next("ramp", chunks, 0)
