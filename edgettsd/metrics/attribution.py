"""The wall time of one utterance, shared out among the stages so that the shares add up to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Shares of a segment's own time, by the frame loop's name for them.
PARTS = {
    "prefill": "prefill_ns",
    "talker": "talker_ns",
    "predictor": "predictor_ns",
    "sampling": "sample_ns",
    "wait": "wait_ns",
    "turns": "turn_ns",
    "text": "text_ns",
    "network": "network_ns",
    "away": "away_ns",
}
SHARES = ("queued", "front_end", *PARTS, "loop", "tail")


def attribution(
    accepted_ns: int, begun_ns: int, segments: Sequence[Mapping[str, Any]], ended_ns: int
) -> dict[str, float]:
    """Milliseconds by share of the generator's timeline, and "wall", which is their sum.

    `segments` are results of `FrameSource.segment`. queued: before the utterance's turn; front_end: text and
    prompts; wait: enough was buffered; turns: the decoder computed, where both stages share CPUs; text:
    waited for text that still grows; network: waited for frames that come from elsewhere; away: a render
    stood back for others; loop: what is in no other share of the frame loop; tail: from the last frame to the
    end, in which the rest is decoded
    and heard. Times are CLOCK_MONOTONIC; begun_ns 0: never begun.
    """
    shares = dict.fromkeys(SHARES, 0)
    if not begun_ns:
        shares["queued"] = ended_ns - accepted_ns
    else:
        shares["queued"] = begun_ns - accepted_ns
        at = begun_ns
        for segment in segments:
            shares["front_end"] += segment["begin_ns"] - at
            at = segment["begin_ns"] + segment["wall_ns"]
            for share, key in PARTS.items():
                shares[share] += segment.get(key, 0)
            shares["loop"] += segment["wall_ns"] - sum(segment.get(key, 0) for key in PARTS.values())
        shares["tail"] = ended_ns - at
    result = {share: round(ns / 1e6, 3) for share, ns in shares.items()}
    result["wall"] = round((ended_ns - accepted_ns) / 1e6, 3)
    return result
