"""Renders stand back for what goes before them, and go on where they were, with the same samples.

What goes before a render waits for the end of the sentence that is being made, and no longer than
`[engine] max_wait_ms`: then the sentence is given up, and made again later. While a render's spool is full,
others have the pipeline at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable

from cython_kernels.pipe import BEGINNING, Mark
from edgettsd.config import Config
from edgettsd.engine.base import QueueingEngine
from edgettsd.engine.job import Job
from edgettsd.engine.pipeline import Pipeline, Work
from edgettsd.engine.queue import Entry

# A spool that spills into its file is full for some milliseconds now and then: nobody stands back for that.
FULL_SECONDS = 0.05


class Turns:
    """Tells when the render in the pipeline stands back: `stand_back()` is called then.

    Something that goes first waits for the end of a sentence, and no longer than `longest` seconds.
    """

    def __init__(self, longest: float, stand_back: Callable[[], None]) -> None:
        self._longest = longest
        self._stand_back = stand_back
        self._timer: asyncio.TimerHandle | None = None

    def wait(self) -> None:
        """Something goes first; it waits from the first call on."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._longest, self.now)

    def nobody(self) -> None:
        """Nothing goes first (any more)."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def sentence_ended(self) -> None:
        """The render's sentence is whole."""
        if self._timer is not None:
            self.now()

    def now(self) -> None:
        """The render stands back at once."""
        self.nobody()
        self._stand_back()


class TurnTaking(QueueingEngine[Job]):
    """What an engine with a pipeline does so that renders stand back."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._pipeline: Pipeline | None = None
        self._turns = Turns(config.engine.max_wait_ms / 1000, self._stand_back)
        self._look_again: asyncio.TimerHandle | None = None

    def _look_who_goes_first(self) -> None:
        """The queue or a spool has changed: the render in the pipeline may have to stand back."""
        waits = self._waits_for_its_reader()
        if waits >= FULL_SECONDS:
            self._turns.now()
        elif self._may_stand_back() and self._queue.goes_first(_is_ready):
            self._turns.wait()
        else:
            self._turns.nobody()
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None
        if 0 <= waits < FULL_SECONDS:
            loop = asyncio.get_running_loop()
            self._look_again = loop.call_later(FULL_SECONDS - waits, self._look_who_goes_first)

    def _may_stand_back(self) -> bool:
        entry = self._queue.active
        if entry is None or not entry.render or self._paused:
            return False
        job = entry.item
        return job.work is not None and job.ending is None and not job.place.leaving

    def _waits_for_its_reader(self) -> float:
        """For how many seconds the render in the pipeline has, while others could go on; -1: it does not."""
        entry = self._queue.active
        delivery = entry.item.delivery if entry is not None else None
        since = delivery.spool.full_since if delivery is not None else 0
        if not since or not self._may_stand_back() or self._queue.first(_is_ready) is None:
            return -1.0
        return (time.monotonic_ns() - since) / 1e9

    def _stand_back(self) -> None:
        """Take the render off the pipeline, if it still must; playout tells when it is done with it."""
        entry, pipeline = self._queue.active, self._pipeline
        if entry is None or pipeline is None or not self._may_stand_back():
            return
        # What came first may have been aborted meanwhile.
        if self._waits_for_its_reader() >= FULL_SECONDS or self._queue.goes_first(_is_ready):
            entry.item.place.leaving = True
            pipeline.pipe.next_generation()

    def _stood_back(self, entry: Entry[Job]) -> None:
        """Playout is done with the render that stands back."""
        entry.item.place.left(time.monotonic_ns())
        self._queue.put_back()
        self._next()
        self._events.changed()

    def _sentence_ended(self, entry: Entry[Job], samples: int, mark: Mark) -> None:
        """The spool has a whole sentence of the render in the pipeline."""
        job = entry.item
        job.place.sentence_ended(samples, mark)
        script = job.work.script if job.work is not None else None
        # After the last one comes the end, at once.
        if script is not None and not (script.complete and mark[0] >= len(script)):
            self._turns.sentence_ended()

    def _take(self) -> Entry[Job] | None:
        """The next utterance for the pipeline, which is free then; None when there is none."""
        self._look_who_goes_first()
        return self._queue.take(_is_ready)

    @staticmethod
    def _work(job: Job, pipeline: Pipeline, max_frames: int) -> Work:
        """What the generator is to do, in a generation that is live from now on."""
        if job.work is None:
            mark = BEGINNING if job.delivery is not None else None
            accepted = int(job.accepted * 1e9)
            generation = pipeline.pipe.next_generation()
            return Work(job.request, generation, job.seed, max_frames, accepted_ns=accepted, mark=mark)
        if job.delivery is not None:
            spool = job.delivery.spool
            spool.skip(job.place.go_on(spool.frames, time.monotonic_ns()))
        generation = pipeline.pipe.next_generation()
        return dataclasses.replace(job.work, generation=generation, mark=job.place.mark, before=job.work)


def _is_full(job: Job) -> bool:
    """Whether it is a render whose reader has to take something before more can be made."""
    return job.delivery is not None and job.delivery.spool.full_since != 0


def _is_ready(job: Job) -> bool:
    """Whether it can use the pipeline."""
    return not _is_full(job)
