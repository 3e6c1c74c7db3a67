"""A full socket means 0 bytes sent, and descriptors are kept for the next try."""

from __future__ import annotations

import array
import os
import re
import socket
from pathlib import Path

import pytest

from edgettsd.bus._socket import PatientSocket


@pytest.fixture
def pair():
    near, far = socket.socketpair()
    near.setblocking(False)
    yield near, far
    near.close()
    far.close()


def fill(sock: socket.socket) -> int:
    """Fill the socket to the last byte."""
    total = 0
    for size in (65536, 1024, 1):
        try:
            while True:
                total += sock.send(b"x" * size)
        except BlockingIOError:
            continue
    return total


def drain(sock: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(sock.recv(min(size, 1 << 20)))


def rights(fd: int) -> list:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]


def test_send_reports_zero_when_full_and_goes_on_later(pair):
    near, far = pair
    patient = PatientSocket(near)
    filled = fill(near)
    assert patient.send(memoryview(b"hello")) == 0
    drain(far, filled)
    assert patient.send(memoryview(b"hello")) == 5
    assert far.recv(10) == b"hello"


def test_descriptors_are_sent_exactly_once_with_the_first_byte(pair):
    near, far = pair
    patient = PatientSocket(near)
    reader, writer = os.pipe()
    filled = fill(near)
    assert patient.sendmsg([memoryview(b"hello")], rights(writer)) == 0
    # The writer has forgotten the descriptors now and goes on with send().
    assert patient.send(memoryview(b"hello")) == 0
    drain(far, filled)
    assert patient.send(memoryview(b"hello")) == 5
    data, fds, _, _ = socket.recv_fds(far, 10, 4)
    assert (data, len(fds)) == (b"hello", 1)
    assert patient.send(memoryview(b"again")) == 5
    data, more, _, _ = socket.recv_fds(far, 10, 4)
    assert (data, more) == (b"again", [])
    for fd in (reader, writer, *fds):
        os.close(fd)


def test_what_is_written_to_a_bus_that_has_gone_is_swallowed(pair):
    """The reader tells that the bus has gone, with one reason whichever comes first."""
    near, far = pair
    far.close()
    patient = PatientSocket(near)
    assert patient.send(memoryview(b"xyz")) == 3
    assert patient.sendmsg([memoryview(b"xyz")], rights(near.fileno())) == 3
    assert near.recv(1) == b""


def test_other_errors_are_passed_on(pair):
    near, _ = pair
    patient = PatientSocket(near)
    near.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        patient.send(memoryview(b"x"))


def test_the_library_is_bounded_to_what_is_tested():
    """The writer is private to dbus-fast: .ci/bus-oldest tests the lower bound, all else the highest."""
    root = Path(__file__).parents[2]
    low, high = re.search(r'"dbus-fast>=([\d.]+),<([\d.]+)"', (root / "pyproject.toml").read_text()).groups()
    locked = re.search(r"^dbus-fast==([\d.]+)", (root / "tools/requirements.lock").read_text(), re.M)[1]
    numbers = [tuple(map(int, version.split("."))) for version in (low, locked, high)]
    assert numbers == sorted(numbers)
    assert numbers[1][:2] == (numbers[2][0], numbers[2][1] - 1), (
        "the newest version allowed is not the locked one"
    )
