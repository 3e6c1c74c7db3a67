"""The soak of tests/soak.py for a few seconds; tools/soak runs it for hours."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak import soak


def test_a_short_soak() -> None:
    totals = soak(0.1, 5)
    assert totals.wrong == []
    assert totals.rounds >= 2
    assert totals.accepted > 50
    assert {"completed", "aborted"} <= set(totals.reasons)
    assert totals.samples > 100_000
