"""A full socket is not a lost bus.

dbus-fast's writer takes the EAGAIN of a full socket (a bus daemon that is stopped or slow for a moment) for
the end of the connection. It handles short writes, so the socket it writes to is wrapped: full means that
0 bytes were sent, and the writer waits until the socket is writable.

A bus that has gone is told by the reader, which sees the end of the stream: what is written by then is lost
anyway. Were the writer the first to fail, the reason would differ by chance and futures be left unread.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from dbus_fast.aio import MessageBus


class PatientSocket:
    """The two methods of a non-blocking socket that the writer uses."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        # The writer forgets a message's descriptors after its first sendmsg, so they are kept here.
        self._unsent: Sequence[Any] | None = None

    def send(self, data: memoryview) -> int:
        """Send what fits, in bytes; 0 when the socket is full."""
        if self._unsent is not None:
            return self.sendmsg([data], self._unsent)
        try:
            return self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except BrokenPipeError:
            return len(data)

    def sendmsg(self, buffers: Sequence[memoryview], ancillary: Sequence[Any]) -> int:
        """Send what fits with the descriptors, in bytes; 0 when the socket is full, descriptors included."""
        self._unsent = ancillary
        try:
            sent = self._sock.sendmsg(buffers, ancillary)
        except (BlockingIOError, InterruptedError):
            return 0
        except BrokenPipeError:
            sent = sum(len(buffer) for buffer in buffers)
        self._unsent = None
        return sent


def make_patient(bus: MessageBus) -> None:
    """Wrap the socket of a connected bus; right after connect(), before anything else is sent.

    The writer is private to dbus-fast, the same from 4.0 to 5.2; the stalled-bus test fails when it changes.
    """
    writer: Any = bus._writer
    writer.sock = PatientSocket(writer.sock)
