"""The text of an utterance, which may still be written while it is spoken."""

from __future__ import annotations

import threading
from collections.abc import Callable

from edgettsd.errors import InvalidTextError


class TextSource:
    """A text that one thread writes and another one reads; nothing of it is computed where it is written.

    `limit` bounds its characters.
    """

    def __init__(self, text: str = "", *, limit: int = 1_000_000) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._length, self._limit = 0, limit
        self._closed = False
        self._grown: Callable[[], None] = lambda: None
        if text:
            self.append(text)

    @classmethod
    def whole(cls, text: str) -> TextSource:
        """A text that is complete."""
        source = cls(text, limit=len(text))
        source.close()
        return source

    @property
    def closed(self) -> bool:
        """Whether nothing more comes."""
        return self._closed

    def append(self, text: str) -> None:
        """Write more. Raises InvalidTextError beyond the limit, and after `close`."""
        with self._lock:
            if self._closed:
                raise InvalidTextError("the text is closed; nothing can be appended")
            if self._length + len(text) > self._limit:
                raise InvalidTextError(
                    f"the text would have {self._length + len(text)} characters; allowed: {self._limit}"
                )
            self._length += len(text)
            self._waiting.append(text)
        self._grown()

    def close(self) -> None:
        """The text is complete; idempotent."""
        with self._lock:
            self._closed = True
        self._grown()

    def on_grown(self, callback: Callable[[], None]) -> None:
        """Call this after every append and close from now on, in the writer's thread."""
        self._grown = callback

    def take(self) -> tuple[str, bool]:
        """What was written since the last call, and whether that was all; for one reader."""
        with self._lock:
            text, self._waiting = "".join(self._waiting), []
            return text, self._closed
