"""Telling systemd how the daemon is: the sd_notify datagrams.

Without systemd's library for the reason that `edgettsd.log` gives: a full socket must not stop the loop.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)


class Notifier:
    """Sends to the socket that NOTIFY_SOCKET names; without one every call does nothing."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if self._address.startswith(("/", "@")):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        self.watchdog_seconds = _watchdog_seconds(environment)

    def send(self, **fields: str) -> None:
        """Send fields, such as READY="1"; a full or missing socket is logged, never raised."""
        if self._socket is None:
            return
        # A leading @ stands for the NUL byte of an abstract address.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        text = "\n".join(f"{name}={value}" for name, value in fields.items())
        try:
            self._socket.sendto(text.encode(), address)
        except OSError as error:
            log.warning("cannot notify systemd: %s", error)

    def close(self) -> None:
        """Close the socket; idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """The watchdog's timeout in seconds; None when systemd does not watch this process."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or int(microseconds) == 0:
        return None
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(microseconds) / 1e6
