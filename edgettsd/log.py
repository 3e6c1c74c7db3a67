"""Logging for the journal and for terminals."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import TextIO

# syslog severities, as systemd's journal reads them from a <N> at the start of a line.
_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}


class JournalFormatter(logging.Formatter):
    """Every line starts with <N>, so that a traceback keeps its severity."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines, each with its severity."""
        prefix = f"<{_SEVERITY.get(record.levelno, 6)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines() or [""])


def set_up(level: str, stream: TextIO | None = None, environment: Mapping[str, str] = os.environ) -> None:
    """Log records of `level` ("debug" to "error") and above to `stream` (stderr by default)."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    if _is_journal(stream, environment.get("JOURNAL_STREAM", "")):
        handler.setFormatter(JournalFormatter("%(name)s: %(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _is_journal(stream: TextIO, journal_stream: str) -> bool:
    """Whether `stream` is the journal: JOURNAL_STREAM is device:inode, and is inherited by children."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return journal_stream == f"{status.st_dev}:{status.st_ino}"
