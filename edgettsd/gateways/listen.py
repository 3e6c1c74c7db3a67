"""Sockets to serve: those that systemd passes by name, else own ones."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

# The first descriptor that systemd passes (sd_listen_fds).
_FIRST = 3


class ListenError(Exception):
    """There is no socket to serve; the message says why."""


def passed(environment: MutableMapping[str, str] = os.environ) -> dict[str, list[socket.socket]]:
    """Listening sockets from systemd by FileDescriptorName; the variables go, so that no child has them.

    Raises ListenError where what was passed is not a listening stream socket.
    """
    pid, count, names = (environment.pop(f"LISTEN_{name}", "") for name in ("PID", "FDS", "FDNAMES"))
    if pid != str(os.getpid()) or not count.isdecimal():
        return {}
    given = names.split(":") if names else []
    found: dict[str, list[socket.socket]] = {}
    for index in range(int(count)):
        name = given[index] if index < len(given) else "unknown"
        try:
            os.set_inheritable(_FIRST + index, False)
            sock = socket.socket(fileno=_FIRST + index)
            listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        except OSError as error:
            raise ListenError(f"descriptor {_FIRST + index} ({name}) of systemd: {error.strerror}") from error
        if not listens or sock.type != socket.SOCK_STREAM:
            raise ListenError(f"descriptor {_FIRST + index} ({name}) of systemd is not a listening socket")
        sock.setblocking(False)
        found.setdefault(name, []).append(sock)
    return found


def bound(host: str, port: int) -> list[socket.socket]:
    """Sockets listening on every address of `host`; raises ListenError."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ListenError(f"cannot listen on {host}: {error.strerror}") from error
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(addresses):
            sock = socket.create_server(address, family=family, backlog=64)
            sock.setblocking(False)
            sockets.append(sock)
    except OSError as error:
        for sock in sockets:
            sock.close()
        raise ListenError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return sockets


def host_of(sock: socket.socket) -> str:
    """The address that a socket listens on; that of a UNIX socket is "localhost"."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return "localhost"
    return str(sock.getsockname()[0])


def name_of(sock: socket.socket) -> str:
    """Address and port of a socket, for people."""
    name = sock.getsockname()
    if not isinstance(name, tuple):
        return str(name)
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
