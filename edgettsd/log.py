"""Logging for the journal and for terminals.

The journal's native protocol is written here, because systemd's library waits where the daemon must not: its
sockets block, and its Python binding holds the interpreter's lock meanwhile. With a journal that does not
read, after 11 entries no thread of the process runs any more, the loop and the watchdog included; without a
journal entries are lost in silence. Here both go to the stream.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

JOURNAL_SOCKET = Path("/run/systemd/journal/socket")
# syslog severities, as systemd's journal reads them from a <N> at the start of a line.
_SEVERITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
# Longer entries go to the stream line by line, because the journal would want them in a memory file.
_LONGEST = 100_000


class JournalFormatter(logging.Formatter):
    """Every line starts with <N>, so that a traceback keeps its severity."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines, each with its severity."""
        prefix = f"<{_severity(record)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines() or [""])


class JournalHandler(logging.StreamHandler[TextIO]):
    """Gives each record to the journal as one entry with fields: PRIORITY, MESSAGE_ID (a record's
    `message_id`), LOGGER and where in the code it was made.

    What the journal's socket does not take goes to the stream, which the journal reads too.
    """

    def __init__(self, stream: TextIO, path: Path = JOURNAL_SOCKET, program: str = "edgettsd") -> None:
        super().__init__(stream)
        self.setFormatter(JournalFormatter("%(name)s: %(message)s"))
        self._entry = logging.Formatter("%(name)s: %(message)s")
        self._path = str(path)
        self._program = program
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record."""
        try:
            data = journal_entry(record, self._entry.format(record), self._program)
            if len(data) <= _LONGEST:
                self._socket.sendto(data, self._path)
                return
        except OSError:
            # The journal's socket is full or gone for a restart; the entry goes to the stream, because the
            # loop must not wait.
            pass
        except Exception:
            self.handleError(record)
            return
        super().emit(record)

    def close(self) -> None:
        """Close the socket; idempotent."""
        self._socket.close()
        super().close()


def journal_entry(record: logging.LogRecord, text: str, program: str) -> bytes:
    """A datagram of the journal's native protocol; values with line breaks are given with their length."""
    fields = {
        "MESSAGE": text,
        "PRIORITY": str(_severity(record)),
        "SYSLOG_IDENTIFIER": program,
        "LOGGER": record.name,
        "CODE_FILE": record.pathname,
        "CODE_LINE": str(record.lineno),
        "CODE_FUNC": record.funcName or "",
    }
    if message_id := getattr(record, "message_id", ""):
        fields["MESSAGE_ID"] = message_id
    parts = []
    for name, value in fields.items():
        data = value.encode("utf-8", "replace")
        if b"\n" in data:
            parts.append(name.encode() + b"\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            parts.append(name.encode() + b"=" + data + b"\n")
    return b"".join(parts)


def set_up(
    level: str,
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
    program: str = "edgettsd",
) -> None:
    """Log records of `level` ("debug" to "error") and above to `stream` (stderr by default).

    `program` is the journal's SYSLOG_IDENTIFIER.
    """
    stream = stream or sys.stderr
    handler: logging.StreamHandler[TextIO]
    if _is_journal(stream, environment.get("JOURNAL_STREAM", "")):
        handler = JournalHandler(stream, program=program)
    else:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _severity(record: logging.LogRecord) -> int:
    return _SEVERITY.get(record.levelno, 6)


def _is_journal(stream: TextIO, journal_stream: str) -> bool:
    """Whether `stream` is the journal: JOURNAL_STREAM is device:inode, and is inherited by children."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return journal_stream == f"{status.st_dev}:{status.st_ino}"
