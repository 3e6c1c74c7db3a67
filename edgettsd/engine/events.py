"""What an engine tells of its utterances, to as many listeners as there are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgettsd.engine._api import OnChanged, OnFinished, OnStarted, Reason

log = logging.getLogger(__name__)

Unsubscribe = Callable[[], None]


class Listeners:
    """Calls every listener in the order in which they came; one that raises is logged, and harms nobody.

    Everything happens on the loop. Who subscribes while an event is told hears of the next one; who
    unsubscribes is not called any more from that moment on.
    """

    def __init__(self) -> None:
        self._started: dict[object, OnStarted] = {}
        self._finished: dict[object, OnFinished] = {}
        self._changed: dict[object, OnChanged] = {}

    def subscribe(
        self,
        *,
        started: OnStarted | None = None,
        finished: OnFinished | None = None,
        changed: OnChanged | None = None,
    ) -> Unsubscribe:
        """Add a listener for the events that it names; returns what ends it, which may be called twice."""
        key = object()
        if started is not None:
            self._started[key] = started
        if finished is not None:
            self._finished[key] = finished
        if changed is not None:
            self._changed[key] = changed

        def unsubscribe() -> None:
            for table in (self._started, self._finished, self._changed):
                table.pop(key, None)

        return unsubscribe

    def started(self, utterance: int, info: Mapping[str, Any]) -> None:
        """The first sample of an utterance is at the sound device, or its first byte in the stream."""
        self._tell(self._started, utterance, info)

    def finished(self, utterance: int, reason: Reason, stats: Mapping[str, Any]) -> None:
        """An utterance is over; once for each."""
        self._tell(self._finished, utterance, reason, stats)

    def changed(self) -> None:
        """State, active or queue_length may have changed."""
        self._tell(self._changed)

    @staticmethod
    def _tell(table: Mapping[object, Callable[..., None]], *event: Any) -> None:
        for key, listener in list(table.items()):
            if key not in table:
                continue
            try:
                listener(*event)
            except Exception:
                log.exception("a listener of the engine failed")
