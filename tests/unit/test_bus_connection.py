"""Opening a connection to something that is not, or not yet, a message bus."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import pytest

from edgettsd.bus import BusError, Connection, _connection


def connect_to(serve: Callable[[socket.socket], None]) -> str:
    """Connect to a server that does `serve` with its end; returns why that failed."""
    name = f"edgettsd-test-{os.getpid()}"

    async def body() -> str:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0" + name)
            server.listen()
            opening = asyncio.create_task(Connection.open(address=f"unix:abstract={name}"))
            server.setblocking(False)
            peer, _ = await asyncio.get_running_loop().sock_accept(server)
            with peer:
                serve(peer)
                with pytest.raises(BusError) as caught:
                    await opening
            return str(caught.value)

    return asyncio.run(body())


def test_a_server_that_closes_at_once():
    assert "cannot connect to unix:abstract=" in connect_to(lambda peer: peer.close())


def test_a_server_that_ends_the_login():
    reason = connect_to(lambda peer: peer.shutdown(socket.SHUT_WR))
    assert reason.endswith("the bus closed the connection during the login")


def test_a_server_that_talks_nonsense():
    assert "cannot connect" in connect_to(lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n"))


def test_a_server_that_sends_without_end():
    assert "cannot connect" in connect_to(lambda peer: peer.sendall(b"x" * 50_000))


def test_a_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(_connection, "CONNECT_SECONDS", 0.2)
    assert connect_to(lambda peer: None).endswith("no answer in 0.2 s")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("unix:path=/nonexistent/bus", "No such file"),
        ("unix:path=/dev/null", "cannot connect to unix:path=/dev/null: "),
        ("carrier:pigeon=1", "cannot connect to carrier:pigeon=1: "),
        ("nonsense", "cannot connect to nonsense: "),
        ("unix:", "cannot connect to unix:: "),
        ("tcp:host=localhost,port=x", "cannot connect to tcp:host=localhost,port=x: "),
    ],
)
def test_addresses_that_lead_nowhere(address, reason):
    with pytest.raises(BusError) as caught:
        asyncio.run(Connection.open(address=address))
    assert reason in str(caught.value)


def test_no_session_bus(monkeypatch):
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(BusError, match="cannot connect to the session bus: "):
        asyncio.run(Connection.open("session"))
