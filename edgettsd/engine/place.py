"""How far a render is, and where it can go on.

A render can go on from the end of any of its sentences (its mark), because sampler, talker and decoder begin
anew with every sentence. So it stands back by losing its generation, like one that is aborted: what its spool
has got since the mark stays there, and is thrown away when it is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cython_kernels.pipe import BEGINNING, Mark


@dataclass(slots=True)
class Place:
    """How far a render is. Samples count from its first one, times are CLOCK_MONOTONIC in ns."""

    # Where it can go on, and how many samples come before that.
    mark: Mark = BEGINNING
    samples: int = 0
    # It has been told to leave the pipeline.
    leaving: bool = False
    # Samples before the first one of its generation.
    _first: int = 0
    _left_ns: int = 0
    _away: list[tuple[int, int]] = field(default_factory=list)

    def sentence_ended(self, samples: int, mark: Mark) -> None:
        """A sentence is in the spool as a whole, after `samples` of this generation."""
        self.mark, self.samples = mark, self._first + samples

    def left(self, now_ns: int) -> None:
        """It is out of the pipeline."""
        self.leaving, self._left_ns = False, now_ns

    def go_on(self, in_spool: int, now_ns: int) -> int:
        """It comes back and is made from its mark on; how many samples of that the spool has already."""
        self._first = self.samples
        self._away.append((self._left_ns, now_ns))
        self._left_ns = 0
        return in_spool - self.samples

    @property
    def was_away(self) -> bool:
        """Whether it has stood back."""
        return bool(self._away or self._left_ns)

    def away(self, now_ns: int) -> list[tuple[int, int]]:
        """When it was out of the pipeline for others, from and to."""
        return [*self._away, *([(self._left_ns, now_ns)] if self._left_ns else [])]


def timeline(results: Sequence[dict[str, Any]], away: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Segments with the times between them that went to others, in order, for `attribution`."""
    spans = []
    for begin, end in away:
        # The generator notices a little later that it lost its generation.
        ends = [result["begin_ns"] + result["wall_ns"] for result in results if result["begin_ns"] < begin]
        begin = min(max([begin, *ends]), end)
        spans.append({"begin_ns": begin, "wall_ns": end - begin, "away_ns": end - begin})
    return sorted([*results, *spans], key=lambda span: span["begin_ns"])
