"""The real engine: the utterance queue on the loop, the pipeline's threads behind it.

One utterance is in the pipeline at a time. Starting one makes a new generation live; ending one early makes
the next generation live, whereupon every thread throws away what belongs to the old one, and the playout
thread reports when the device is silent. All methods run on the loop; nothing here waits for a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from cython_kernels.pipe import SinkHandle
from edgettsd import messages
from edgettsd.audio import open_sink
from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request, State, Voice
from edgettsd.engine.delivery import Deliveries, Delivery
from edgettsd.engine.job import Job
from edgettsd.engine.light import LIGHT_BYTES, single_threads, weight_bytes
from edgettsd.engine.loader import REFUSALS, describe, in_loader
from edgettsd.engine.parts import Parts
from edgettsd.engine.pipeline import Pipeline, Work
from edgettsd.engine.queue import Entry
from edgettsd.engine.turns import TurnTaking
from edgettsd.errors import ModelInvalidError, NotReadyError
from edgettsd.hw import Plan, adapt, calibration, load_profile, own_isa
from edgettsd.hw.cache import cache_folder
from edgettsd.hw.placement import Cpus
from edgettsd.hw.rearrange import Stage, Stages
from edgettsd.metrics import StepStatistics

log = logging.getLogger(__name__)

# An aborted utterance ends after this many seconds even if the playout thread, which reports silence within
# milliseconds, says nothing.
SILENCE_TIMEOUT = 2.0


def load_bundle_parts(config: Config) -> Parts:
    """The parts of the configured model bundle; raises ModelInvalidError."""
    from edgettsd.engine.bundle_parts import BundleParts

    return BundleParts.load(config)


class Engine(TurnTaking):
    """Speaks with the model of `config`. `load` makes the model's parts, in a thread of its own."""

    def __init__(
        self,
        config: Config,
        *,
        load: Callable[[Config], Parts] = load_bundle_parts,
        sink: SinkHandle | None = None,
        plan: Plan | None = None,
    ) -> None:
        super().__init__(config)
        self._load = load
        self._plan = plan
        self._planned = config
        self._rate, self._costs = 1.0, dict[int, float]()
        # `_failure` is why nothing is accepted any more; by `_handover` a loading thread and stop() agree on
        # who closes the parts.
        self._failure = ""
        self._loading = False
        self._handover = threading.Lock()
        self._given_sink = sink
        self._parts: Parts | None = None
        self._deliveries: Deliveries | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: asyncio.Event | None = None
        self._last: dict[str, Any] = {}

    @property
    def model_name(self) -> str:
        """Name of the loaded model, empty before."""
        return self._parts.info.name if self._parts else ""

    @property
    def sample_rate(self) -> int:
        """Rate of the model's audio in Hz, 0 before it is loaded."""
        return self._parts.info.sample_rate if self._parts else 0

    @property
    def samples_per_frame(self) -> int:
        """Samples of a frame of the loaded model, 0 without one."""
        return self._parts.info.samples_per_frame if self._parts else 0

    @property
    def voices(self) -> tuple[Voice, ...]:
        """Voices of the loaded model."""
        return self._parts.info.voices if self._parts else ()

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that options may name."""
        return self._parts.info.languages if self._parts else ()

    async def load(self) -> None:
        """Read what the model is, not its weights; raises ModelInvalidError. What is then said waits."""
        self._loop = asyncio.get_running_loop()
        await self._in_loader(self._open_parts)
        self._events.changed()

    async def start(self) -> None:
        """Load the weights and start the threads.

        Raises ModelInvalidError or ConfigError, after ending what waits.
        """
        try:
            if self._parts is None:
                await self.load()
            await self._in_loader(self._start_pipeline)
        except Exception as error:
            self._failure = describe(error)
            for entry in self._queue.clear():
                self._end(entry, Reason.ERROR, self._failure)
            # The signals of these ends are only scheduled; they must leave before the caller of start() ends
            # the bus.
            await asyncio.sleep(0)
            raise
        if self._pipeline is None or self._loop is None or self._stopping():
            return
        self._loop.add_reader(self._pipeline.pipe.loop_fd, self._on_events)
        if self._deliveries is not None:
            self._deliveries.ended = self._delivered
            self._deliveries.left = lambda delivery: self._queue.left(delivery.owner)
            self._deliveries.changed = lambda delivery: self._next()
            self._deliveries.start()
        self._pipeline.pipe.set_paused(self._paused)
        self._phase = State.IDLE
        self._next()
        self._events.changed()

    def _stopping(self) -> bool:
        return self._phase is State.STOPPING

    async def _in_loader(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread of its own; raises ModelInvalidError for what keeps a model from loading."""
        try:
            await in_loader(work)
        except REFUSALS as error:
            raise ModelInvalidError(f"model {self._config.model.path}: {describe(error)}") from error

    def _open_parts(self) -> None:
        plan = self._plan = self._plan or adapt(load_profile(), self._config)
        config = plan.applied(self._config)
        if known := calibration.known(load_profile(), self._config, cache_folder()):
            config, self._rate = known.best.split.applied(config), known.best.rate
            self._costs = known.best.costs()
        elif weight_bytes(self._config.model.path) < LIGHT_BYTES:
            config = single_threads(config, self._config)
        self._planned = config
        parts = self._load(config)
        with self._handover:
            stopped = self._stopping()
            if not stopped:
                self._parts = parts
        if stopped:
            parts.close()

    def _start_pipeline(self) -> None:
        with self._handover:
            parts, plan = self._parts, self._plan
            if self._stopping() or parts is None or plan is None:
                return
            self._loading = True
        pipeline: Pipeline | None = None
        started = False
        try:
            sink = self._given_sink
            if sink is None:
                sink = open_sink(self._config.audio, parts.info.sample_rate)
            deliveries = Deliveries(self._config.delivery)
            pipeline = Pipeline(self._planned, parts, sink, self._generated, self._rate, self._costs)
            pipeline.stall_seconds = plan.stall_seconds
            pipeline.start()
            started = True
        finally:
            with self._handover:
                self._loading = False
                stopped = self._stopping()
                if started and not stopped:
                    self._pipeline, self._deliveries = pipeline, deliveries
            if stopped:
                # stop() came while the model was loading, and left the closing to this thread.
                if pipeline is not None:
                    pipeline.stop()
                parts.close()

    async def stop(self) -> None:
        """End every utterance as aborted, then the threads; idempotent."""
        if self._phase is State.STOPPING:
            return
        with self._handover:
            self._phase = State.STOPPING
            loading = self._loading
        pipeline, loop = self._pipeline, asyncio.get_running_loop()
        self.abort_all()
        # The ends of what waited are only scheduled; one of a render that stood back waits for its delivery.
        await self._told()
        if self._busy():
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), SILENCE_TIMEOUT + 1)
        await self._told()
        if pipeline is not None:
            loop.remove_reader(pipeline.pipe.loop_fd)
            if self._deliveries is not None:
                self._deliveries.close()
            await loop.run_in_executor(None, pipeline.stop)
        if self._parts is not None and not loading:
            self._parts.close()
        self._events.changed()

    def speak(self, request: Request) -> int:
        """Queue an utterance; raises NotReadyError, UnknownVoiceError, InvalidOptionError, QueueFullError."""
        if self._failure:
            raise NotReadyError(self._failure)
        if self._phase is State.STOPPING or self._parts is None:
            raise NotReadyError(f"the engine is {self._phase.value}")
        options = request.options
        self._parts.check(options)
        seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(6), "little")
        return self._put(Job(request, time.monotonic(), seed))

    def set_speed(self, speed: float) -> None:
        """The CPUs run at this share of their full clock; see Pipeline.set_speed."""
        if self._pipeline is not None:
            self._pipeline.set_speed(speed)

    @property
    def stages(self) -> Stages | None:
        """CPUs and threads of generator and decoder as planned; None while they are not pinned."""
        if self._pipeline is None:
            return None
        engine, given = self._planned.engine, self._config.engine
        if not engine.cpus_generator or not engine.cpus_decoder:
            return None
        return Stages(
            Stage(engine.cpus_generator, engine.threads_generator, bool(given.cpus_generator)),
            Stage(engine.cpus_decoder, engine.threads_decoder, bool(given.cpus_decoder)),
        )

    def move(self, generator: Cpus, decoder: Cpus) -> tuple[Cpus, Cpus]:
        """Let the stages run on these CPUs from now on, also what is being spoken; see Pipeline.move."""
        return (generator, decoder) if self._pipeline is None else self._pipeline.move(generator, decoder)

    def heartbeat(self) -> bool:
        """True while every thread makes progress."""
        return self._pipeline is None or self._pipeline.alive()

    @property
    def generation(self) -> int:
        """Number of the last utterance in the pipeline, as step records carry it; 0 before the first."""
        return self._pipeline.pipe.generation if self._pipeline else 0

    @property
    def steps(self) -> StepStatistics:
        """Times by stage of recent utterances; empty where steps are not recorded."""
        return self._pipeline.recorder.steps if self._pipeline else StepStatistics()

    def stats(self) -> Mapping[str, Any]:
        """Counters since the start, and the figures of the last utterance."""
        result: dict[str, Any] = {**self._counts(), "underruns": 0, "isa": own_isa()}
        if self._pipeline is not None:
            result.update(self._pipeline.counters())
        if self._deliveries is not None:
            result.update(self._deliveries.stats())
        result.update({f"last_{key}": value for key, value in self._last.items()})
        if self._pipeline is not None:
            result.update(self._pipeline.recorder.report())
        return result

    def _hold(self, paused: bool) -> None:
        if self._pipeline is not None:
            self._pipeline.pipe.set_paused(paused)

    def _end(self, entry: Entry[Job], reason: Reason, detail: str = "") -> None:
        job = entry.item
        if job.ending is not None:
            return
        job.ending, job.detail = reason, detail
        assert self._loop is not None
        if job.delivery is not None:
            job.delivery.cancel()
        if job.outcome is not None:
            # Only the utterance's delivery goes on, and tells when it is over.
            return
        if entry is self._queue.active and self._pipeline is not None:
            self._pipeline.pipe.next_generation()
            job.timeout = self._loop.call_later(SILENCE_TIMEOUT, self._give_up, entry)
        else:
            self._loop.call_soon(self._conclude, entry, reason)

    def _give_up(self, entry: Entry[Job]) -> None:
        log.error("utterance %d: the sound device did not fall silent in time", entry.id)
        self._finished(entry, entry.item.ending or Reason.ERROR)

    def _next(self) -> None:
        """Give the next utterance to the pipeline when it is free."""
        if self._paused or self._phase is not State.IDLE or self._pipeline is None:
            return
        entry = self._take()
        if entry is None:
            return
        job, pipeline, info = entry.item, self._pipeline, self._parts.info if self._parts else None
        assert info is not None
        seconds = min(
            job.request.options.max_seconds or self._config.engine.max_seconds,
            self._config.engine.max_seconds,
        )
        try:
            self._begin_delivery(entry, info.sample_rate)
        except (OSError, ValueError) as error:
            job.detail = describe(error)
            asyncio.get_running_loop().call_soon(self._finished, entry, Reason.ERROR)
            return
        pipeline.playout.set_sink(job.delivery.spool if job.delivery else pipeline.sink)
        job.begun = job.begun or time.monotonic()
        job.underruns_before = pipeline.pipe.counters()["underruns"]
        job.work = self._work(job, pipeline, max(1, round(seconds / info.frame_seconds)))
        pipeline.submit(job.work)

    def _begin_delivery(self, entry: Entry[Job], rate: int) -> None:
        """Give a render its spool; raises OSError, ValueError."""
        request = entry.item.request
        if request.fd is not None and entry.item.delivery is None and self._deliveries is not None:
            entry.item.delivery = self._deliveries.begin(entry, request.fd, request.format, rate)

    def _active_of(self, generation: int) -> Entry[Job] | None:
        """The active utterance when it is the one of `generation`."""
        entry = self._queue.active
        work = entry.item.work if entry is not None else None
        return entry if work is not None and work.generation == generation else None

    def _on_events(self) -> None:
        """Events of the playout and decoder threads."""
        assert self._pipeline is not None
        for name, generation, reason, value, t_ns in self._pipeline.pipe.events():
            entry = self._active_of(generation)
            if entry is None:
                continue
            job = entry.item
            if name == "started":
                if not job.started:
                    job.started = t_ns / 1e9
                    self._announce(entry)
            elif name == "sentence":
                self._sentence_ended(entry, *value)
            elif name == "underrun":
                # One event may stand for several underruns, because its value counts all of the utterance.
                job.underruns = value
                log.warning("utterance %d: underrun %d", entry.id, job.underruns)
            elif name == "finished":
                job.samples = value
                if job.ending is None and (why := job.explain(Reason(reason))):
                    log.warning("utterance %d: %s: %s", entry.id, reason, why)
                self._finished(entry, job.ending or Reason(reason))
            elif name == "dropped" and job.place.leaving and job.ending is None:
                self._stood_back(entry)
            elif name == "dropped":
                job.samples = value
                self._finished(entry, job.ending or Reason.ERROR)
            elif name == "device":
                self._device_failed(entry, -value)
            elif name == "decoder":
                self._end(entry, Reason.ERROR, f"decoder failed ({value})")

    def _device_failed(self, entry: Entry[Job], code: int) -> None:
        """The playout thread gave up on the sink; that is the last it says of this generation."""
        assert self._pipeline is not None
        job = entry.item
        if job.ending is None:
            self._pipeline.pipe.next_generation()
            if job.device_failed(code) is Reason.DEVICE:
                log.error(
                    "utterance %d: sound output failed: %s",
                    entry.id,
                    job.detail,
                    extra={"message_id": messages.DEVICE_ERROR},
                )
        self._finished(entry, job.ending or Reason.DEVICE)

    def _announce(self, entry: Entry[Job]) -> None:
        job = entry.item
        voices = self.voices
        default = self._config.engine.voice or (voices[0].id if voices else "")
        self._events.started(
            entry.id,
            {
                "voice": job.request.options.voice or default,
                "seed": job.seed,
                "ttfa_ms": round((job.started - job.accepted) * 1000, 1),
            },
        )

    def _generated(self, work: Work, reason: Reason, error: Exception | None) -> None:
        """In the generator thread: an utterance's last code is in the pipe, or its generation failed."""
        if self._loop is not None and error is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._generation_failed, work, error)

    def _generation_failed(self, work: Work, error: Exception) -> None:
        entry = self._active_of(work.generation)
        if entry is None:
            return
        log.error("utterance %d: %s", entry.id, describe(error))
        self._end(entry, Reason.ERROR, describe(error))

    def _finished(self, entry: Entry[Job], reason: Reason) -> None:
        """The active utterance is over and silent."""
        job = entry.item
        if job.timeout is not None:
            job.timeout.cancel()
        if self._queue.active is not entry:
            return
        if job.work is not None and job.delivery is None and self._pipeline is not None:
            # The counter is read, because events of the last underruns may not have come.
            job.underruns = self._pipeline.pipe.counters()["underruns"] - job.underruns_before
        self._conclude(entry, reason)
        self._next()
        self._events.changed()

    def _conclude(self, entry: Entry[Job], reason: Reason) -> None:
        """The pipeline has done with an utterance; what its reader still has to take goes on without it."""
        job = entry.item
        if job.delivery is not None and not job.delivery.over:
            job.outcome = reason
            self._queue.deliver(entry)
            left = job.delivery.spool.frames - job.delivery.spool.delivered // 2
            job.delivery.made(left / max(1, self.sample_rate))
            return
        if entry is self._queue.active:
            self._queue.finish()
        self._report(entry, reason)
        self._check_idle()

    def _delivered(self, delivery: Delivery) -> None:
        """A reader has got what it gets."""
        entry: Entry[Job] = delivery.owner
        job = entry.item
        if delivery.failure is not None and job.ending is None:
            if delivery.failure[0] is not Reason.ABORTED:
                log.warning("utterance %d: %s", entry.id, delivery.failure[1])
            if entry in self._queue.waiting:
                self._queue.remove(entry.id)
            self._end(entry, *delivery.failure)
        if job.outcome is None:
            # The utterance's end in the pipeline is still to come.
            return
        self._queue.delivered(entry)
        self._report(entry, job.ending or job.outcome)
        self._check_idle()
        self._events.changed()

    def _busy(self) -> bool:
        return self._queue.active is not None or bool(self._queue.delivering)

    def _check_idle(self) -> None:
        if self._idle is not None and not self._busy():
            self._idle.set()

    def _report(self, entry: Entry[Job], reason: Reason) -> None:
        """Tell the client, once, and release what the utterance held."""
        job = entry.item
        job.release()
        if job.delivery is not None and not job.delivery.spool.over:
            self._queue.linger(entry)
        self._ended[reason.value] += 1
        stats = job.figures(self._parts.info if self._parts else None)
        if job.work is not None:
            self._last = stats
            if self._pipeline is not None:
                work = job.work
                self._pipeline.recorder.ended(
                    work.generation,
                    work.accepted_ns,
                    work.begun_ns,
                    job.timeline(),
                    # Of a render that stood back the steps of its beginning are those of another generation.
                    0 if job.place.was_away else int(job.started * 1e9),
                )
        self._events.finished(entry.id, reason, stats)
