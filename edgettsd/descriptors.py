"""Closing descriptors that came from others, without waiting for it.

close(2) of the last descriptor of a file waits for its file system, that of a socket may wait for its peer,
and either can be a client's own. Only pipes are closed at once; the rest is closed by a few threads, and what
these cannot close stays open until they can.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque

# Descriptors that can hang at the same time before others wait for one of them.
THREADS = 8


class Closer:
    """Closes descriptors in threads of its own, which are made when they are needed."""

    def __init__(self, most: int = THREADS) -> None:
        self._most = most
        self._changed = threading.Condition()
        self._fds: deque[int] = deque()
        self._threads = self._idle = 0

    def close(self, fd: int) -> None:
        """Close `fd`, now or later; never waits, never raises."""
        try:
            at_once = os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:")
        except OSError:
            at_once = False
        if at_once:
            os.close(fd)
            return
        with self._changed:
            self._fds.append(fd)
            more = self._idle < len(self._fds) and self._threads < self._most
            self._threads += more
            self._changed.notify()
        if more:
            # As daemons: the end of the process does not wait for them.
            threading.Thread(target=self._run, name="tts-closer", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._fds)
                self._idle -= 1
                fd = self._fds.popleft()
            with contextlib.suppress(OSError):
                os.close(fd)


_closer = Closer()


def close_later(fd: int) -> None:
    """Close a descriptor that came from a client; never waits, never raises."""
    _closer.close(fd)
