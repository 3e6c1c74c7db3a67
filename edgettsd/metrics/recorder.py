"""What the engine tells of its time: the last utterance's attribution, and step statistics where recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from cython_kernels.pipe import Pipe
from edgettsd.metrics.attribution import attribution
from edgettsd.metrics.steps import StepStatistics


class Recorder:
    """Figures of one pipe's utterances. Called on the loop; the threads only write their rings."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._attribution: dict[str, float] = {}
        self._first_audio: dict[str, float] = {}
        self.steps = StepStatistics()

    def ended(
        self,
        generation: int,
        accepted_ns: int,
        begun_ns: int,
        segments: Sequence[Mapping[str, Any]],
        started_ns: int,
    ) -> None:
        """An utterance has ended; started_ns 0: nothing of it was heard."""
        self._attribution = attribution(accepted_ns, begun_ns, segments, time.monotonic_ns())
        if self._pipe.tracing:
            self.steps.add(self._pipe.steps())
            if started_ns:
                self._first_audio = self.steps.first_audio(generation, accepted_ns, started_ns)

    def report(self) -> dict[str, Any]:
        """attribution and first_audio of the last utterance, steps over the recent ones."""
        result: dict[str, Any] = {"attribution": self._attribution, "step_statistics": self._pipe.tracing}
        if self._pipe.tracing:
            self.steps.add(self._pipe.steps())
            result["first_audio"] = self._first_audio
            result["steps"] = self.steps.report()
            result["steps_lost"] = self._pipe.steps_lost
        return result
