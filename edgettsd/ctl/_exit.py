"""Exit statuses of edgettsctl."""

from __future__ import annotations

import enum

from edgettsd.engine._api import Reason


class Exit(enum.IntEnum):
    """What the exit status says; 3 to 8 tell how an utterance ended that was waited for."""

    OK = 0
    ERROR = 1
    ABORTED = 3
    REPLACED = 4
    RUNAWAY = 5
    LIMIT = 6
    DEVICE = 7
    FAILED = 8
    UNREACHABLE = 9
    DENIED = 10


OF_REASON = {
    Reason.COMPLETED: Exit.OK,
    Reason.ABORTED: Exit.ABORTED,
    Reason.REPLACED: Exit.REPLACED,
    Reason.RUNAWAY: Exit.RUNAWAY,
    Reason.LIMIT: Exit.LIMIT,
    Reason.DEVICE: Exit.DEVICE,
    Reason.ERROR: Exit.FAILED,
}

TABLE = """exit status:
  0   done; with -w or -o: spoken to the end
  1   usage, or the daemon refused the call
  3   aborted (Ctrl-C, stop, the daemon's end)
  4   replaced by another utterance
  5   runaway: the model found no end
  6   the longest allowed speech was reached
  7   the sound device failed
  8   something else failed; see the daemon's log
  9   the daemon cannot be reached; see edgettsctl doctor
  10  this user may not call the daemon; see edgettsctl doctor
"""


class CtlError(Exception):
    """The command ends with this message and status."""

    def __init__(self, message: str, status: Exit = Exit.ERROR) -> None:
        super().__init__(message)
        self.status = status
