"""Cancel to event over the bus, with the built-in voice."""

from __future__ import annotations

import asyncio

import pytest
from integration.abort_latency import KINDS, daemon, measure, quantile


@pytest.mark.parametrize("kind", KINDS)
def test_from_abort_to_finished(kind: str) -> None:
    """Against what a call takes on this machine now; the figures for people are printed."""
    with daemon() as system:
        aborts, calls = asyncio.run(measure(system.bus.address, kind, 15))
    print(f"{kind}: Abort to Finished {quantile(aborts, 0.5):.1f} ms, a call {quantile(calls, 0.5):.1f} ms")
    # The fade takes 8 ms of it; a poll or a wait of 200 ms somewhere would show.
    assert quantile(aborts, 0.5) < 60 + 10 * quantile(calls, 0.5)
