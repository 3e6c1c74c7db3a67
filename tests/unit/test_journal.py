"""Entries for the journal: native ones with fields, the stream when the socket does not take them."""

from __future__ import annotations

import io
import logging
import socket

import pytest

from edgettsd import log, messages


def record(text: str, **extra) -> logging.LogRecord:
    made = logging.LogRecord("edgettsd.engine", logging.ERROR, "/x/engine.py", 7, text, (), None, "speak")
    for name, value in extra.items():
        setattr(made, name, value)
    return made


def fields(data: bytes) -> dict[str, str]:
    """The fields of a datagram, read as the journal does."""
    found = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, sign, value = line.partition(b"=")
        if not sign:
            size = int.from_bytes(rest[:8], "little")
            value, data = rest[8 : 8 + size], rest[8 + size :]
            assert data[:1] == b"\n"
            data = data[1:]
        else:
            data = rest
        found[name.decode()] = value.decode()
    return found


@pytest.fixture
def journal(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "socket"))
        server.setblocking(False)
        yield server


@pytest.fixture
def handler(tmp_path):
    made = log.JournalHandler(io.StringIO(), tmp_path / "socket")
    yield made
    made.close()


def test_a_record_is_one_entry_with_fields(journal, handler):
    handler.emit(record("sound output failed", message_id=messages.DEVICE_ERROR))
    assert fields(journal.recv(10_000)) == {
        "MESSAGE": "edgettsd.engine: sound output failed",
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "edgettsd",
        "LOGGER": "edgettsd.engine",
        "CODE_FILE": "/x/engine.py",
        "CODE_LINE": "7",
        "CODE_FUNC": "speak",
        "MESSAGE_ID": messages.DEVICE_ERROR,
    }
    assert handler.stream.getvalue() == ""


@pytest.mark.parametrize("text", ["two\nlines", "PRIORITY=0\nX=1", "", "=\n=", "ü\n" * 100])
def test_line_breaks_do_not_make_fields(journal, handler, text):
    handler.emit(record(text))
    found = fields(journal.recv(10_000))
    assert found["MESSAGE"] == f"edgettsd.engine: {text}"
    assert found["PRIORITY"] == "3"
    assert "MESSAGE_ID" not in found


def test_without_a_journal_the_stream_has_it(handler):
    handler.emit(record("two\nlines"))
    assert handler.stream.getvalue() == "<3>edgettsd.engine: two\n<3>lines\n"


def test_too_long_an_entry_goes_to_the_stream(journal, handler):
    handler.emit(record("x" * 200_000))
    assert len(handler.stream.getvalue()) > 200_000
    with pytest.raises(BlockingIOError):
        journal.recv(10)


def test_a_full_journal_does_not_block(journal, handler):
    for number in range(2000):
        handler.emit(record(f"entry {number}"))
    read = 0
    while True:
        try:
            journal.recv(10_000)
        except BlockingIOError:
            break
        read += 1
    assert 0 < read < 2000
    assert read + handler.stream.getvalue().count("\n") == 2000
