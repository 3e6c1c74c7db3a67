"""What every engine does with its queue: who is heard next, who is aborted, what state that makes."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import Counter
from typing import Any, Generic, Protocol, TypeVar

from edgettsd.config import Config
from edgettsd.engine._api import OnChanged, OnFinished, OnStarted, Reason, Request, State
from edgettsd.engine.callers import NOBODY, Caller
from edgettsd.engine.events import Listeners, Unsubscribe
from edgettsd.engine.pauses import Pauses
from edgettsd.engine.queue import Entry, UtteranceQueue


class Utterance(Protocol):
    """What an engine keeps of an utterance, as far as the queue cares."""

    @property
    def request(self) -> Request:
        """As the client asked for it."""
        ...

    @property
    def ending(self) -> Reason | None:
        """Why it ends early, None while it does not."""
        ...


Job = TypeVar("Job", bound=Utterance)


class QueueingEngine(Generic[Job]):
    """Queue, states and aborts of an engine; how it speaks is up to the subclass."""

    def __init__(self, config: Config) -> None:
        self._events = Listeners()
        self._config = config
        self._queue: UtteranceQueue[Job] = UtteranceQueue(
            config.engine.queue_limit, config.engine.client_limit
        )
        # STARTING, IDLE (ready) or STOPPING.
        self._phase = State.STARTING
        self._pauses = Pauses()
        self._ended: Counter[str] = Counter()

    def subscribe(
        self,
        *,
        started: OnStarted | None = None,
        finished: OnFinished | None = None,
        changed: OnChanged | None = None,
    ) -> Unsubscribe:
        """Call these from now on; returns what ends that."""
        return self._events.subscribe(started=started, finished=finished, changed=changed)

    @property
    def state(self) -> State:
        """What the engine does now; paused wins over speaking."""
        if self._phase is not State.IDLE:
            return self._phase
        if self._paused:
            return State.PAUSED
        return State.SPEAKING if self._queue.active or len(self._queue) else State.IDLE

    @property
    def active(self) -> int:
        """Id of the utterance being spoken, 0 when there is none."""
        return self._queue.active.id if self._queue.active else 0

    @property
    def queue_length(self) -> int:
        """How many utterances wait."""
        return len(self._queue)

    def abort(self, utterance: int, client: Caller) -> bool:
        """Abort an utterance of `client`; raises NotFoundError."""
        entry = self._queue.find(utterance, client)
        if entry is None or entry.item.ending is not None:
            return False
        self._abort(entry)
        self._events.changed()
        return True

    def abort_all(self) -> int:
        """Abort everything queued or spoken; returns how many."""
        entries = self._queue.clear()
        for entry in entries:
            self._end(entry, Reason.ABORTED)
        count, active = len(entries), self._queue.active
        running = [*self._queue.delivering, *([active] if active is not None else [])]
        for entry in running:
            if entry.item.ending is None:
                count += 1
                self._end(entry, Reason.ABORTED)
        self._events.changed()
        return count

    def client_gone(self, client: Caller) -> None:
        """Abort the client_bound utterances of a client that has left, and end its pause."""
        for entry in self._queue.of_client(client):
            if entry.item.request.options.client_bound:
                self._abort(entry)
        self._pauses.gone(client)
        self._follow_pauses()

    @property
    def paused_by(self) -> tuple[Caller, ...]:
        """Whose pauses are in force, the oldest first; NOBODY for the one that outlives its caller."""
        return self._pauses.owners

    def pause(self, client: Caller = NOBODY) -> None:
        """Hold the speech where it is, for `client`; nothing new starts."""
        self._pauses.add(client)
        self._follow_pauses()

    def resume(self, client: Caller = NOBODY) -> None:
        """End the pause of `client`, or that of NOBODY if it has none; goes on when no other is in force."""
        self._pauses.release(client)
        self._follow_pauses()

    def resume_all(self) -> None:
        """End everybody's pause."""
        self._pauses.clear()
        self._follow_pauses()

    @property
    def _paused(self) -> bool:
        return bool(self._pauses)

    def _follow_pauses(self) -> None:
        self._hold(self._paused)
        if not self._paused:
            self._next()
        self._events.changed()

    def _put(self, job: Job) -> int:
        """Queue an utterance, in place of others if it interrupts; its id. Raises QueueFullError."""
        request = job.request
        options = request.options
        new, replaced = self._queue.put(
            request.client,
            options.priority,
            job,
            interrupt=options.interrupt,
            render=request.fd is not None,
        )
        for entry in replaced:
            self._end(entry, Reason.REPLACED)
        self._next()
        self._events.changed()
        return new.id

    def _abort(self, entry: Entry[Job]) -> None:
        if entry in self._queue.waiting:
            self._queue.remove(entry.id)
        self._end(entry, Reason.ABORTED)

    def _counts(self) -> dict[str, Any]:
        """How many utterances ended, by reason, and who holds the speech."""
        counts: dict[str, Any] = {f"ended_{reason}": n for reason, n in sorted(self._ended.items())}
        return {**counts, "paused_by": list(self._pauses.owners)}

    async def _told(self) -> None:
        """Finished calls of waiting utterances are scheduled, not made, by abort_all."""
        await asyncio.sleep(0)

    @abstractmethod
    def _end(self, entry: Entry[Job], reason: Reason) -> None:
        """End an utterance early: the active one when it is silent, one that is delivered when its reader
        gets no more, a waiting one after the caller's reply. The first reason counts."""

    @abstractmethod
    def _next(self) -> None:
        """Begin the next utterance if none is spoken and nothing holds it back."""

    @abstractmethod
    def _hold(self, paused: bool) -> None:
        """Hold what is spoken where it is, or let it go on."""
