"""The utterance queue: order, limits, priorities and ownership, without any I/O.

One utterance is active at a time; the others wait by priority, then speech for the device before renders
(what goes into a client's descriptor), then first come first served. What an arriving utterance for the
device does to the others of the device follows speech-dispatcher's classes:

============  ======================================================================================
important     Goes first. Never replaced by another utterance, not even by one with `interrupt`.
message       Waits for important ones and earlier messages. The default.
text          Reading text: only the newest one is kept. Waits for important ones and messages.
notification  Spoken only when nothing of a higher class is active or waiting; otherwise it is dropped.
              A newer notification takes the place of an older one.
progress      Waits for everything else; only the newest waiting one is kept, the one being spoken ends
              by itself.
============  ======================================================================================

An arriving important, message or text ends an active text, notification or progress and drops waiting
notifications; an important or message leaves a waiting text or progress where it is. `interrupt` also ends
everything active or waiting of its own or a lower class. All of these end with reason "replaced".

Nobody hears a render, so its class is its place in the order and nothing else: renders and speech for the
device never end each other, and a render ends no other. With `interrupt` it ends its own caller's renders of
its own or a lower class, important ones excepted.

A render that is made but not yet taken by its reader is neither active nor waiting: it is being delivered.
Any number of these go on at a time. The limits count them for further renders, not for speech.

Both engines use this module, so a client sees the same behaviour from either.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from edgettsd.engine._api import Priority
from edgettsd.engine.callers import Caller
from edgettsd.errors import NotFoundError, QueueFullError

T = TypeVar("T")

# How many ended utterances Abort still tells apart from ones that never existed.
HISTORY = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Generic[T]):
    """One accepted utterance; `item` is the engine's own data."""

    id: int
    client: Caller
    priority: Priority
    item: T
    render: bool = False

    @property
    def place(self) -> tuple[Priority, bool, int]:
        """Its place in the order: the lower one goes first."""
        return self.priority, self.render, self.id


class UtteranceQueue(Generic[T]):
    """Utterances waiting, plus the one being spoken.

    `limit` bounds how many wait altogether, `per_client` how many of one client wait; both >= 1.
    """

    def __init__(self, limit: int = 64, per_client: int = 32) -> None:
        if limit < 1 or per_client < 1:
            raise ValueError(f"limit={limit}, per_client={per_client}: both must be at least 1")
        self._limit = limit
        self._per_client = per_client
        self._waiting: list[Entry[T]] = []
        self._active: Entry[T] | None = None
        self._delivering: dict[int, Entry[T]] = {}
        self._lingering: dict[int, Entry[T]] = {}
        self._last_id = 0
        self._ended: OrderedDict[int, Caller] = OrderedDict()

    def __len__(self) -> int:
        """How many wait, without the active one."""
        return len(self._waiting)

    @property
    def active(self) -> Entry[T] | None:
        """The utterance taken by `take` and not yet reported by `finish`."""
        return self._active

    @property
    def delivering(self) -> tuple[Entry[T], ...]:
        """Renders that are made, or have ended, while their readers still take them; see `deliver`."""
        return tuple(self._delivering.values())

    @property
    def waiting(self) -> tuple[Entry[T], ...]:
        """What waits, in the order in which it will be spoken."""
        return tuple(self._waiting)

    def put(
        self, client: Caller, priority: Priority, item: T, *, interrupt: bool = False, render: bool = False
    ) -> tuple[Entry[T], list[Entry[T]]]:
        """Accept an utterance; returns it and every utterance that it ends with reason "replaced".

        Replaced waiting ones have left the queue. The active one, when listed, stays active until `finish`:
        the engine has to stop it. The new one itself is listed when it was dropped on arrival.
        Raises QueueFullError, and then nothing has changed.
        """
        new = Entry(self._last_id + 1, client, priority, item, render)
        dropped = not render and priority is Priority.NOTIFICATION and self._busy_above(priority)
        victims = [] if dropped else [entry for entry in self._all() if self._ends(new, interrupt, entry)]
        kept = [entry for entry in self._waiting if entry not in victims]
        if not dropped:
            self._check_room(kept, new)
        self._last_id = new.id
        if dropped:
            self._remember(new)
            return new, [new]
        for entry in self._waiting:
            if entry in victims:
                self._remember(entry)
        self._waiting = sorted([*kept, new], key=attrgetter("place"))
        return new, victims

    def first(self, ready: Callable[[T], bool] | None = None) -> Entry[T] | None:
        """The one that `take` with the same `ready` would take if none were active; None: nothing waits."""
        return next((entry for entry in self._waiting if ready is None or ready(entry.item)), None)

    def take(self, ready: Callable[[T], bool] | None = None) -> Entry[T] | None:
        """Make the first waiting utterance that is ready the active one; None when there is none, or one is
        active."""
        entry = self.first(ready)
        if self._active is not None or entry is None:
            return None
        self._waiting.remove(entry)
        self._active = entry
        return entry

    def goes_first(self, ready: Callable[[T], bool] | None = None) -> bool:
        """Whether something that is ready goes before the active utterance, a render: it has a higher
        priority, or is for the device with the same one. False when none or no render is active."""
        first = self.first(ready)
        if self._active is None or not self._active.render or first is None:
            return False
        return first.place[:2] < self._active.place[:2]

    def put_back(self) -> Entry[T]:
        """The active utterance waits again, in its old place, and goes on when it is taken anew; returns it.

        Raises RuntimeError when there is none.
        """
        if self._active is None:
            raise RuntimeError("put_back() without an active utterance")
        entry, self._active = self._active, None
        self._waiting = sorted([*self._waiting, entry], key=attrgetter("place"))
        return entry

    def finish(self) -> Entry[T]:
        """The active utterance has ended; returns it. Raises RuntimeError when there is none."""
        if self._active is None:
            raise RuntimeError("finish() without an active utterance")
        entry, self._active = self._active, None
        self._remember(entry)
        return entry

    def deliver(self, entry: Entry[T]) -> None:
        """The active render, or one that waits no more, is only delivered from now on, until `delivered`.

        The next utterance can be taken. Both limits count it.
        """
        if entry is self._active:
            self._active = None
        self._delivering[entry.id] = entry

    def delivered(self, entry: Entry[T]) -> None:
        """A render's delivery is over."""
        del self._delivering[entry.id]
        self._remember(entry)

    def linger(self, entry: Entry[T]) -> None:
        """The kernel still holds what delivered a render that has ended; the limits count it until `left`."""
        self._lingering[entry.id] = entry

    def left(self, entry: Entry[T]) -> None:
        """What lingered has gone."""
        self._lingering.pop(entry.id, None)

    def remove(self, utterance: int) -> Entry[T]:
        """Take a waiting utterance out of the queue; raises KeyError when it does not wait."""
        for index, entry in enumerate(self._waiting):
            if entry.id == utterance:
                self._remember(entry)
                return self._waiting.pop(index)
        raise KeyError(utterance)

    def clear(self) -> list[Entry[T]]:
        """Take every waiting utterance out; the active one stays until `finish`."""
        cleared, self._waiting = self._waiting, []
        for entry in cleared:
            self._remember(entry)
        return cleared

    def find(self, utterance: int, client: Caller) -> Entry[T] | None:
        """The active, waiting or delivered utterance of `client`; None when it has ended already.

        Raises NotFoundError when the client has no such utterance (or it ended very long ago).
        """
        for entry in self._all():
            if entry.id == utterance and entry.client == client:
                return entry
        if self._ended.get(utterance) == client:
            return None
        raise NotFoundError(f"utterance {utterance}: no such utterance of this caller")

    def of_client(self, client: Caller) -> list[Entry[T]]:
        """The active and waiting utterances of a client, and those being delivered."""
        return [entry for entry in self._all() if entry.client == client]

    def _all(self) -> list[Entry[T]]:
        active = [self._active] if self._active is not None else []
        return [*active, *self._delivering.values(), *self._waiting]

    def _busy_above(self, priority: Priority) -> bool:
        return any(entry.priority < priority for entry in self._all() if not entry.render)

    def _ends(self, new: Entry[T], interrupt: bool, old: Entry[T]) -> bool:
        """Whether the arriving utterance `new` ends `old`."""
        if old.priority is Priority.IMPORTANT or old.render is not new.render:
            return False
        interrupted = interrupt and old.priority >= new.priority
        if new.render:
            return interrupted and old.client == new.client
        return interrupted or self._replaces(new.priority, old)

    def _replaces(self, priority: Priority, old: Entry[T]) -> bool:
        """Whether an arriving utterance of class `priority` ends `old` even without `interrupt`."""
        active = old is self._active
        match priority:
            case Priority.IMPORTANT | Priority.MESSAGE:
                return (active and old.priority >= Priority.TEXT) or old.priority is Priority.NOTIFICATION
            case Priority.TEXT:
                return old.priority in (Priority.TEXT, Priority.NOTIFICATION) or (
                    active and old.priority is Priority.PROGRESS
                )
            case Priority.NOTIFICATION:
                return old.priority is Priority.NOTIFICATION
            case Priority.PROGRESS:
                return old.priority is Priority.PROGRESS and not active

    def _check_room(self, kept: list[Entry[T]], new: Entry[T]) -> None:
        """Slow readers keep renders out, never speech for the device."""
        what = "wait"
        if new.render and (readers := [*self._delivering.values(), *self._lingering.values()]):
            kept, what = kept + readers, "wait or are being delivered"
        if len(kept) >= self._limit:
            raise QueueFullError(f"{len(kept)} utterances {what} already; the limit is {self._limit}")
        own = sum(entry.client == new.client for entry in kept)
        if own >= self._per_client:
            raise QueueFullError(
                f"{own} utterances of this caller {what} already; "
                f"the limit for one caller is {self._per_client}"
            )

    def _remember(self, entry: Entry[T]) -> None:
        self._ended[entry.id] = entry.client
        while len(self._ended) > HISTORY:
            self._ended.popitem(last=False)
