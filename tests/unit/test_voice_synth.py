"""The teacher's phones keep to the grid of the text stream."""

from __future__ import annotations

import random

import numpy as np
import pytest
from edgettsd_tools.voice.synth import TEACHER_HOP, TEACHER_RATE, on_grid


@pytest.mark.parametrize("seed", range(20))
def test_every_phone_ends_at_its_slot(seed: int) -> None:
    rng = random.Random(seed)
    counts = [rng.choice((0, 1, 1, 2, 5)) for _ in range(30)]
    owner = np.array([phone for phone in range(30) for _ in range(rng.randrange(1, 5))])
    own = np.array([float(rng.choice((0, 1, 2, 3, 9))) for _ in owner])
    got = on_grid(own, owner, counts)
    assert (got >= 0).all() and got.shape == owner.shape
    ends = np.cumsum(np.bincount(owner, got, 30))
    assert np.abs(ends * TEACHER_HOP / TEACHER_RATE - np.cumsum(counts) * 0.04).max() <= 0.0059
    for phone, count in enumerate(counts):
        assert count or not got[owner == phone].any()


def test_what_changes_is_spread_in_proportion() -> None:
    # 1 + 3 frames become the 7 of two slots; 40 ms are 3.4 frames.
    assert on_grid(np.array([1.0, 3.0]), np.array([0, 0]), [2]).tolist() == [2, 5]
