"""One accepted utterance of the real engine: where its sound goes, how it ended, its figures."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from dataclasses import dataclass, field
from typing import Any

from edgettsd.descriptors import close_later
from edgettsd.engine._api import Reason, Request
from edgettsd.engine.delivery import Delivery
from edgettsd.engine.parts import ModelInfo
from edgettsd.engine.pipeline import Work
from edgettsd.engine.place import Place, timeline
from edgettsd.errors import DeviceBusyError


@dataclass(slots=True)
class Job:
    """Times are of time.monotonic(), 0 for what has not happened; `samples` were heard."""

    request: Request
    accepted: float
    seed: int
    work: Work | None = None
    delivery: Delivery | None = None
    # How the utterance ended in the pipeline; its delivery may go on.
    outcome: Reason | None = None
    ending: Reason | None = None
    detail: str = ""
    error: str = ""
    begun: float = 0.0
    started: float = 0.0
    samples: int = 0
    underruns: int = 0
    underruns_before: int = 0
    timeout: asyncio.TimerHandle | None = None
    place: Place = field(default_factory=Place)

    def release(self) -> None:
        """Close the client's descriptor where no delivery has done it."""
        if self.delivery is None and self.request.fd is not None:
            close_later(self.request.fd)

    def explain(self, reason: Reason) -> str:
        """Set and return what is to be told of one that played to its end; empty when all is well."""
        if reason is Reason.RUNAWAY and self.work is not None:
            results = list(self.work.results)
            repeats = bool(results) and results[-1]["reason"] == "runaway" and results[-1]["error"] == "ok"
            self.detail = "the model repeats itself" if repeats else "the model says nothing and does not end"
        elif reason is Reason.LIMIT:
            self.detail = "the longest allowed speech for this text was reached"
        return self.detail

    def device_failed(self, code: int) -> Reason:
        """Set and return why it ends after error number `code` of its sink."""
        self.ending, self.detail = Reason.DEVICE, os.strerror(code)
        if code == errno.EBUSY:
            self.error = DeviceBusyError().dbus_name
        return self.ending

    def timeline(self) -> list[dict[str, Any]]:
        """Where the generator's time went, for the attribution."""
        results = list(self.work.results) if self.work is not None else []
        return timeline(results, self.place.away(time.monotonic_ns()))

    def figures(self, info: ModelInfo | None) -> dict[str, Any]:
        """What Finished tells of it."""
        stats: dict[str, Any] = {"seed": self.seed}
        if self.detail:
            stats["detail"] = self.detail
        if self.error:
            stats["error"] = self.error
        if self.work is None:
            return stats
        if self.delivery is not None:
            # Only what the reader has taken counts as heard.
            self.samples = self.delivery.spool.delivered // 2
        results = self.work.made
        frames = sum(r["frames"] for r in results)
        stats.update(
            frames=frames,
            sentences=len(results),
            audio_seconds=round(self.samples / info.sample_rate, 3) if info else 0.0,
            wall_seconds=round(time.monotonic() - self.accepted, 3),
            queued_seconds=round(self.begun - self.accepted, 3),
            underruns=self.underruns,
        )
        if self.place.was_away:
            away = self.place.away(time.monotonic_ns())
            stats["away_seconds"] = round(sum(end - begin for begin, end in away) / 1e9, 3)
        if self.started:
            stats["ttfa_ms"] = round((self.started - self.accepted) * 1000, 1)
        if frames and info:
            busy = sum(r["prefill_ns"] + r["talker_ns"] + r["predictor_ns"] + r["sample_ns"] for r in results)
            stats["generator_rtf"] = round(busy / 1e9 / (frames * info.frame_seconds), 4)
        return stats
