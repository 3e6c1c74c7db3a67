"""The engine's threads: generator, decoder and playout around one pipe.

Each thread pins itself first and makes its own kernel, so that the kernels' worker threads inherit its CPUs.
The loops themselves run in C without the GIL; Python touches only the start and the end of a sentence.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, field
from typing import Any

from cython_kernels.frame_loop import DecodeLoop
from cython_kernels.frames import doze
from cython_kernels.pipe import (
    ITEM_END,
    ITEM_PAUSE,
    ITEM_WAIT,
    REASON_NAMES,
    Mark,
    Pipe,
    SinkHandle,
    use_huge_pages,
)
from cython_kernels.playout import Playout
from cython_kernels.schedule import start_slower
from edgettsd import limits
from edgettsd.config import Config
from edgettsd.engine._api import Reason, Request
from edgettsd.engine.parts import Parts
from edgettsd.engine.plan import Sentence
from edgettsd.engine.script import Script
from edgettsd.engine.sources import FrameSource, Order
from edgettsd.engine.text_source import TextSource
from edgettsd.hw.placement import Cpus, ranges
from edgettsd.hw.threads import compute_priority, move_threads, name_thread, pin_thread
from edgettsd.metrics import Recorder

log = logging.getLogger(__name__)

# A thread that shows no progress for this long is dead; the longest single call is a prefill on a slow board.
STALL_SECONDS = 30.0
RT_PRIORITY = 20
# Utterances with fewer frames tell nothing about the rate of the generator.
_MEASURED_FRAMES = 12


@dataclass(slots=True)
class Work:
    """One utterance on its way through the generator thread."""

    request: Request
    generation: int
    seed: int
    max_frames: int
    results: list[dict[str, Any]] = field(default_factory=list)
    # The generator thread makes the script when the utterance's turn has come.
    script: Script | None = None
    # CLOCK_MONOTONIC nanoseconds.
    accepted_ns: int = 0
    begun_ns: int = 0
    # Waited for the text of the sentence that comes next.
    text_ns: int = 0
    # Where this generation of a render begins, which may be one of several; None: speech for the device.
    mark: Mark | None = None
    # The same render before it stood back. The generator thread takes the script from there, because it alone
    # knows whether one was made.
    before: Work | None = None

    @property
    def made(self) -> list[dict[str, Any]]:
        """Figures of the sentences, each once: of one that was made again those of the last time."""
        return [result for result in list(self.results) if not result.get("again")]

    def go_on(self) -> int:
        """Begin at the mark: what was made of later sentences is made again. The first sentence to make."""
        if self.before is not None:
            self.script, self.begun_ns, self.before = self.before.script, self.before.begun_ns, None
        self.begun_ns = self.begun_ns or time.monotonic_ns()
        first = self.mark[0] if self.mark is not None else 0
        for result in self.results:
            if result["sentence"] >= first:
                result["again"] = True
        return first


# Called in the generator thread with the work, how the work ended, and the error behind Reason.ERROR.
OnGenerated = Callable[[Work, Reason, Exception | None], None]


class Pipeline:
    """Threads and kernels of one loaded model. `sink` is where utterances go by default."""

    def __init__(
        self,
        config: Config,
        parts: Parts,
        sink: SinkHandle,
        on_generated: OnGenerated,
        rate: float = 1.0,
        costs: Mapping[int, float] | None = None,
    ) -> None:
        """What to expect of the first utterance: `rate`, the time of a frame over its duration.

        Better, `costs`: the seconds of a frame (0) and of a chunk of each size.
        """
        info = parts.info
        self._config = config
        self._parts = parts
        self._on_generated = on_generated
        self._rate, self._costs = rate, costs
        self._inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._generating = False
        self._beats: dict[str, tuple[int, float]] = {}
        self._threads: dict[threading.Thread, Future[None]] = {}
        self._source: FrameSource | None = None
        self._decode: DecodeLoop | None = None
        self.stall_seconds = STALL_SECONDS
        # The CPUs' clock as a share of the full one: now, and when the decode loop's rate was measured.
        self._speed = self._measured_speed = 1.0
        self._placed = {"generator": config.engine.cpus_generator, "decoder": config.engine.cpus_decoder}
        self.sink = sink
        self.pipe = Pipe(
            info.groups,
            info.samples_per_frame,
            info.sample_rate,
            pcm_seconds=max(30.0, 2 * config.engine.buffer_seconds),
            backpressure_seconds=config.engine.buffer_seconds,
        )
        if _shares_cpus(config):
            self.pipe.take_turns()
        if config.engine.step_statistics:
            self.pipe.trace()
        self.recorder = Recorder(self.pipe)
        self.playout = Playout(self.pipe, preroll_ms=config.audio.preroll_ms)

    def start(self) -> None:
        """Start the threads and wait until every kernel is made; raises what making one raised."""
        engine = self._config.engine
        # The decoder is first, because a decoder that cannot be loaded shows soonest.
        for name, target, cpus in (
            ("decoder", self._run_decoder, engine.cpus_decoder),
            ("generator", self._run_generator, engine.cpus_generator),
            ("playout", self._run_playout, engine.cpus_playout),
        ):
            future: Future[None] = Future()
            thread = threading.Thread(
                target=self._thread, args=(target, cpus, future), name=f"tts-{name}", daemon=True
            )
            self._threads[thread] = future
        # Kernels on shared CPUs are made one after the other, because all warm up with all their threads and
        # would spin for seconds.
        one_by_one = _shares_cpus(self._config)
        try:
            for thread, future in self._threads.items():
                thread.start()
                if one_by_one:
                    future.result()
            for future in wait(self._threads.values(), return_when=FIRST_EXCEPTION).done:
                future.result()
            log.debug("huge pages asked for: %d MB", use_huge_pages() >> 20)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the threads; the generator notices within one predictor sub-step.

        A thread that still makes its kernel is not waited for: it ends once that is made.
        """
        self.pipe.stop()
        self._inbox.put(None)
        for thread, ready in self._threads.items():
            if thread.ident is None or not ready.done():
                continue
            thread.join(10.0)
            if thread.is_alive():
                log.error("thread %s does not end", thread.name)
        self._threads.clear()

    def submit(self, work: Work) -> None:
        """Hand an utterance to the generator thread."""
        self._inbox.put(work)

    def alive(self) -> bool:
        """True while every thread lives and makes progress where it has something to do."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        if dead:
            log.error("%s has ended", ", ".join(dead))
            return False
        # Idle threads sleep for long; a wake-up makes their counters move until the next look.
        self.pipe.wake_all()
        now, counters = time.monotonic(), self.pipe.counters()
        for name in ("generator_beat", "decoder_beat", "playout_beat"):
            value, since = self._beats.get(name, (-1, now))
            if counters[name] != value or (name == "generator_beat" and not self._generating):
                self._beats[name] = (counters[name], now)
            elif now - since > self.stall_seconds:
                log.error("%s has stood still for %.0f s", name.removesuffix("_beat"), now - since)
                return False
        return True

    def set_speed(self, speed: float) -> None:
        """The CPUs now run at this share (above 0 to 1) of their full clock.

        From the next utterance on, playing starts as late as it must if frames take longer in proportion than
        when their rate was last measured.
        """
        self._speed = speed

    def move(self, generator: Cpus, decoder: Cpus) -> tuple[Cpus, Cpus]:
        """Let the stages and all their workers run on these CPUs from now on, where they do not already.

        Both or none: where one stage cannot go, the other does not take its place. Returns the CPUs where
        they run now.
        """
        before, moved = dict(self._placed), dict[str, int]()
        try:
            for name, cpus in (("generator", generator), ("decoder", decoder)):
                if cpus != self._placed[name]:
                    moved[name] = move_threads(f"tts-{name}", cpus)
                    self._placed[name] = cpus
        except ValueError as error:
            log.warning("%s stays on CPUs %s: %s", name, ranges(before[name]), error)
            self._put_back(moved, before)
        else:
            for name, count in moved.items():
                was, now = ranges(before[name]), ranges(self._placed[name])
                log.info("%s moved from CPUs %s to %s (%d threads)", name, was, now, count)
        return self._placed["generator"], self._placed["decoder"]

    def _put_back(self, names: Iterable[str], before: Mapping[str, Cpus]) -> None:
        """Undo the move of these stages."""
        for name in names:
            self._placed[name] = before[name]
            try:
                move_threads(f"tts-{name}", before[name])
            except ValueError as error:
                # The old CPUs are gone like the new ones, so the kernel has put the threads where it saw fit.
                log.warning("%s is not on CPUs %s any more: %s", name, ranges(before[name]), error)

    def counters(self) -> dict[str, Any]:
        """Counters of the pipe and of the decoder."""
        counters: dict[str, Any] = dict(self.pipe.counters())
        if self._decode is not None:
            counters.update(self._decode.counters(), rate=round(self._decode.rate, 3))
        return counters

    def _thread(
        self, target: Callable[[Future[None]], None], cpus: Sequence[int], ready: Future[None]
    ) -> None:
        try:
            # All of this is set before the kernel is made, because its workers inherit it.
            name_thread(threading.current_thread().name)
            if cpus:
                pin_thread(cpus)
            if target != self._run_playout:
                compute_priority()
            target(ready)
        except BaseException as error:
            if ready.done():
                log.exception("%s ended", threading.current_thread().name)
            else:
                ready.set_exception(error)

    def _run_decoder(self, ready: Future[None]) -> None:
        info, engine = self._parts.info, self._config.engine
        kind = engine.schedule or info.schedule
        chunks = engine.chunks or info.chunks
        self._decode = DecodeLoop(
            self.pipe,
            self._parts.decoder(),
            kind=kind,
            chunks=chunks,
            quiet_frames=round(engine.runaway_quiet_seconds / info.frame_seconds),
            quiet_db=engine.runaway_quiet_db,
            rate=self._rate,
            expect=self._costs,
        )
        ready.set_result(None)
        self._decode.run()

    def _run_playout(self, ready: Future[None]) -> None:
        # A refused priority is no error, because ordinary priority is enough on an idle machine.
        try:
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(RT_PRIORITY))
        except PermissionError:
            log.info("playout runs without real-time priority (LimitRTPRIO= is below %d)", RT_PRIORITY)
        ready.set_result(None)
        self.playout.run()

    def _run_generator(self, ready: Future[None]) -> None:
        self._source = self._parts.source(self.pipe)
        ready.set_result(None)
        try:
            while (work := self._inbox.get()) is not None:
                self._generating = True
                error: Exception | None = None
                try:
                    reason = self._generate(work)
                except Exception as exc:
                    reason, error = Reason.ERROR, exc
                self._generating = False
                self._on_generated(work, reason, error)
        finally:
            self._source.close()

    def _live(self, work: Work) -> bool:
        return self.pipe.generation == work.generation and not self.pipe.stopping

    def _generate(self, work: Work) -> Reason:
        """All sentences of an utterance, and its end, into the pipe."""
        index, made = work.go_on(), work.made
        script = work.script = work.script or self._script(work.request)
        reason = Reason(made[-1]["reason"]) if made else Reason.COMPLETED
        left = work.max_frames - sum(result["frames"] for result in made)
        if not self._known(work, script, index):
            return Reason.ABORTED
        prebuffer = self._config.audio.prebuffer_ms * self._parts.info.sample_rate // 1000
        expected = min(script.expected_frames, work.max_frames)
        self.pipe.set_plan(max(prebuffer, self._slower_start(expected)), expected)
        self.pipe.set_gain(work.request.options.volume)
        if work.mark is not None:
            self.pipe.push_render(work.generation, work.mark)
        while reason is Reason.COMPLETED and left > 0 and index < len(script):
            if index:
                self._pause(work)
            result = self._sentence(work, index, script[index], left)
            work.results.append({**_with_wait(result, work.text_ns), "sentence": index})
            work.text_ns = 0
            reason = Reason(result["reason"])
            left -= result["frames"]
            index += 1
            if reason is Reason.ERROR:
                raise RuntimeError(f"frame loop: {result['error']} at frame {result['frames']}")
            if reason is Reason.COMPLETED and left > 0:
                if not self._known(work, script, index):
                    return Reason.ABORTED
                self.pipe.set_expected(min(script.expected_frames, work.max_frames))
        if reason is Reason.COMPLETED and left <= 0:
            reason = Reason.LIMIT
        if left <= work.max_frames - _MEASURED_FRAMES:
            self._measured_speed = self._speed
        if reason is not Reason.ABORTED:
            self.pipe.push_item(work.generation, ITEM_END, reason=REASON_NAMES.index(reason.value))
        return reason

    def _script(self, request: Request) -> Script:
        """The utterance's sentences; more of its text wakes the generator thread."""
        options = request.options
        text = request.source or TextSource.whole(request.text)
        text.on_grown(self.pipe.wake_all)
        return Script(
            text,
            self._parts.info.frame_seconds,
            lambda part: self._parts.frames(part, options),
            options.rate or self._config.voice.rate,
        )

    def _known(self, work: Work, script: Script, index: int) -> bool:
        """Wait until it is certain what sentence `index` is; False when nobody wants it any more."""
        script.grow()
        began = time.monotonic_ns()
        if len(script) <= index and not script.complete:
            # What is there is heard meanwhile, because nobody knows when more comes.
            self.pipe.push_item(work.generation, ITEM_WAIT)
        while len(script) <= index and not script.complete:
            if not doze(self.pipe, work.generation):
                return False
            script.grow()
            work.text_ns = time.monotonic_ns() - began
        return self._live(work)

    def _slower_start(self, frames: int) -> int:
        """Samples to have ready for `frames` frames because the CPUs run slower than when last measured."""
        if self._decode is None:
            return 0
        slower = self._measured_speed / self._speed
        return start_slower(frames, self._decode.rate, slower) * self._parts.info.samples_per_frame

    def _pause(self, work: Work) -> None:
        samples = self._config.engine.sentence_pause_ms * self._parts.info.sample_rate // 1000
        self.pipe.push_item(work.generation, ITEM_PAUSE, arg=samples)

    def _sentence(self, work: Work, index: int, sentence: Sentence, left: int) -> dict[str, Any]:
        assert self._source is not None
        engine, frame_seconds = self._config.engine, self._parts.info.frame_seconds
        return self._source.segment(
            Order(
                work.generation,
                index,
                sentence,
                work.request.options,
                work.seed,
                left,
                repeat_frames=round(engine.runaway_repeat_seconds / frame_seconds),
                repeat_period=min(limits.MAX_PERIOD, round(engine.runaway_period_seconds / frame_seconds)),
            )
        )


def _with_wait(result: dict[str, Any], waited_ns: int) -> dict[str, Any]:
    """A segment's figures with the time before it in which its text was waited for."""
    moved = {"text_ns": waited_ns, "begin_ns": -waited_ns, "wall_ns": waited_ns}
    return result | {key: result.get(key, 0) + ns for key, ns in moved.items()}


def _shares_cpus(config: Config) -> bool:
    """Whether generator and decoder have more threads than they have CPUs together."""
    engine = config.engine
    here = tuple(os.sched_getaffinity(0))
    cpus = {*(engine.cpus_generator or here), *(engine.cpus_decoder or here)}
    return engine.threads_generator + engine.threads_decoder > len(cpus)
