"""One changing line on a terminal."""

from __future__ import annotations

import time
from typing import TextIO


class Progress:
    """Shows the latest text on a terminal, at most ten times a second; elsewhere nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shows = stream.isatty()
        self._next = 0.0
        self._width = 0

    def show(self, text: str) -> None:
        """Replace the line."""
        if not self._shows or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.1
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
