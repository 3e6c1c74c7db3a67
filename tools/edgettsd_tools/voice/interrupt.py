"""A training stops between two steps when it is asked to, so that nothing it learned is lost."""

from __future__ import annotations

import signal
from types import FrameType


class Asked:
    """True once SIGINT or SIGTERM came; the second one has its usual effect."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._set)

    def _set(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        signal.signal(number, signal.SIG_DFL)

    def __bool__(self) -> bool:
        return self._asked
