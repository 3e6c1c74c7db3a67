"""Random calls and faults against the engine, over scripted kernels and a scripted device.

Whatever happens: an accepted utterance finishes exactly once, the engine's state fits what is accepted and
not finished, and the device heard each utterance from its beginning, in order, without a hole, and nothing
after its end. EDGETTSD_LONG=1 runs many thousand steps.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from engine_rig import DEVICE, Rig, heard_as_told, with_config, with_delivery
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from render_reader import Reader, read_as_told

from cython_kernels.fake_sink import FakeSink
from edgettsd.engine._api import Priority, State
from edgettsd.engine.callers import NOBODY
from edgettsd.engine.parts import FakeParts
from edgettsd.errors import NotFoundError, QueueFullError

LONG = bool(os.environ.get("EDGETTSD_LONG"))
CLIENTS = ("a", "b", "c")
FRAMES = 8
LIMIT = 6
PAUSE = 960


class EngineMachine(RuleBasedStateMachine):
    """Calls, waits and faults in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.accepted: dict[int, tuple[str, float, int]] = {}
        self.heard_at_end: dict[int, int] = {}
        self.pauses: set[str] = set()
        self.readers: dict[int, Reader] = {}

    @initialize(
        xrun_at=st.integers(-1, 40_000),
        fail_at=st.integers(-1, 40_000),
        pace=st.sampled_from([0, 200, 2000]),
        open_fails=st.integers(0, 2),
        fade_ms=st.sampled_from([0, 5, 20]),
        max_wait_ms=st.sampled_from([0, 5, 1000]),
    )
    def begin(
        self, xrun_at: int, fail_at: int, pace: int, open_fails: int, fade_ms: int, max_wait_ms: int
    ) -> None:
        self.fade_ms, self.xrun_at = fade_ms, xrun_at
        sink = FakeSink(
            speed=60.0,
            buffer=DEVICE,
            capture=1 << 22,
            xrun_at=xrun_at,
            fail_at=fail_at,
            fail_times=1,
            open_errno=16 if open_fails else 0,
            open_fails=open_fails,
            fade_ms=fade_ms,
        )
        config = with_config(
            queue_limit=LIMIT,
            client_limit=LIMIT - 2,
            sentence_pause_ms=PAUSE * 1000 // 24_000,
            max_wait_ms=max_wait_ms,
        )
        config = with_delivery(config, spool_memory_kib=64, spool_mib=0)
        self.rig = Rig(FakeParts(eos_after=FRAMES, step_us=pace), sink, config)
        self.run(self.rig.engine.start())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    # Calls

    @rule(
        client=st.sampled_from(CLIENTS),
        priority=st.sampled_from(list(Priority)),
        interrupt=st.booleans(),
        bound=st.booleans(),
        sentences=st.integers(0, 2),
        reads=st.sampled_from([None, None, (0.0, 1 << 30), (0.002, 1 << 30), (0.0, 10_000)]),
    )
    def speak(
        self,
        client: str,
        priority: Priority,
        interrupt: bool,
        bound: bool,
        sentences: int,
        reads: tuple[float, int] | None,
    ) -> None:
        # The volume tells apart what was heard.
        volume = 1.0 - 0.004 * (len(self.accepted) % 200)
        waiting = self.rig.engine.queue_length + self.rig.engine.stats()["deliveries"]
        reader = Reader(reads[0], most=reads[1]) if reads else None

        async def call() -> int:
            return self.rig.say(
                " ".join(["Hello there."] * sentences) or "...",
                client=client,
                priority=priority,
                interrupt=interrupt,
                client_bound=bound,
                volume=volume,
                fd=reader.writer if reader else None,
            )

        try:
            utterance = self.run(call())
        except QueueFullError:
            assert waiting >= LIMIT - 2
            if reader:
                os.close(reader.writer)
                assert reader.all() == b""
            return
        assert utterance not in self.accepted
        self.accepted[utterance] = (client, volume, sentences)
        if reader:
            self.readers[utterance] = reader

    @rule(client=st.sampled_from(CLIENTS), back=st.integers(-1, 12))
    def abort(self, client: str, back: int) -> None:
        utterance = max(0, len(self.accepted) - back)

        async def call() -> bool | None:
            try:
                return self.rig.engine.abort(utterance, client)
            except NotFoundError:
                return None

        ended = utterance in self.rig.stats
        answer = self.run(call())
        owner = self.accepted[utterance][0] if utterance in self.accepted else ""
        assert (answer is None) == (owner != client)
        if ended and answer is not None:
            assert answer is False

    @rule()
    def abort_all(self) -> None:
        self.run(self._call(self.rig.engine.abort_all))

    @rule(client=st.sampled_from((NOBODY, *CLIENTS)))
    def pause(self, client: str) -> None:
        self.run(self._call(lambda: self.rig.engine.pause(client)))
        self.pauses.add(client)
        assert self.rig.engine.state is State.PAUSED

    @rule(client=st.sampled_from((NOBODY, *CLIENTS)))
    def resume(self, client: str) -> None:
        self.run(self._call(lambda: self.rig.engine.resume(client)))
        self.pauses.discard(client if client in self.pauses else NOBODY)

    @rule()
    def resume_all(self) -> None:
        self.run(self._call(self.rig.engine.resume_all))
        self.pauses.clear()
        assert self.rig.engine.state is not State.PAUSED

    @rule(client=st.sampled_from(CLIENTS))
    def client_gone(self, client: str) -> None:
        self.run(self._call(lambda: self.rig.engine.client_gone(client)))
        self.pauses.discard(client)

    @rule(broken=st.booleans())
    def break_the_model(self, broken: bool) -> None:
        self.rig.parts.segment_error = RuntimeError("broken on purpose") if broken else None

    @rule(ms=st.integers(0, 30))
    def wait(self, ms: int) -> None:
        self.run(asyncio.sleep(ms / 1000))

    @staticmethod
    async def _call(function: Any) -> Any:
        return function()

    # What must always hold

    @invariant()
    def state_is_consistent(self) -> None:
        if not hasattr(self, "rig"):
            return
        engine, rig = self.rig.engine, self.rig
        ids = [utterance for utterance, _ in rig.finished]
        assert len(ids) == len(set(ids))
        assert set(ids) <= set(self.accepted)
        assert set(rig.started) <= set(self.accepted)
        # A render that stands back was accepted before.
        assert engine.queue_length <= LIMIT + 1
        assert set(engine.paused_by) == self.pauses
        assert (engine.state is State.PAUSED) == bool(self.pauses)
        open_ones = set(self.accepted) - set(ids)
        if engine.active:
            assert engine.active in open_ones
            assert engine.state in (State.SPEAKING, State.PAUSED)
        assert engine.queue_length + bool(engine.active) <= len(open_ones)
        if engine.state is State.IDLE:
            assert not engine.active and not engine.queue_length

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            self.loop.close()
            return
        rig = self.rig

        async def finish() -> None:
            rig.engine.resume_all()
            self.pauses.clear()
            await rig.until(lambda: len(rig.finished) == len(self.accepted), 30.0)
            assert rig.engine.state is State.IDLE
            assert rig.engine.heartbeat()
            await rig.engine.stop()

        try:
            self.run(finish())
            self.state_is_consistent()
            self.check_what_was_heard()
        finally:
            self.run(rig.engine.stop())
            self.loop.close()

    def check_what_was_heard(self) -> None:
        told = {}
        reasons = dict(self.rig.finished)
        for utterance, (_, volume, sentences) in self.accepted.items():
            told[utterance] = (volume, 0 if utterance in self.readers else sentences)
            if reader := self.readers.get(utterance):
                reason = reasons[utterance]
                assert read_as_told(reader, reason, volume, sentences, FRAMES, PAUSE) == ""
        assert heard_as_told(self.rig, told, FRAMES, PAUSE, self.fade_ms, self.xrun_at) == ""


TestEngineStates = EngineMachine.TestCase
TestEngineStates.settings = settings(
    max_examples=300 if LONG else 12,
    stateful_step_count=80 if LONG else 30,
    derandomize=not LONG,
    print_blob=True,
)
