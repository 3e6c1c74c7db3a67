"""Notifications to systemd, the watchdog's pace and the journal's severities."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import socket
from typing import Any

import pytest

from edgettsd import log, watchdog
from edgettsd.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def receiver(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if request.param == "path":
        # pytest's folders can be too long for a socket address, so the name is relative to /proc.
        sock.bind("notify")
        folder = os.open(tmp_path, os.O_PATH)
        address = f"/proc/self/fd/{folder}/notify"
    else:
        folder = None
        sock.bind(f"\0edgettsd-notify-{os.getpid()}")
        address = f"@edgettsd-notify-{os.getpid()}"
    sock.setblocking(False)
    yield sock, address
    sock.close()
    if folder is not None:
        os.close(folder)


def test_fields_arrive_as_lines(receiver):
    sock, address = receiver
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.send(READY="1", STATUS="Bereit: ü")
    assert sock.recv(4096).decode() == "READY=1\nSTATUS=Bereit: ü"
    notifier.close()
    notifier.close()
    notifier.send(READY="1")
    with pytest.raises(BlockingIOError):
        sock.recv(4096)


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative"])
def test_without_a_usable_socket_nothing_happens(address):
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.send(READY="1")
    notifier.close()


def test_a_full_or_missing_socket_never_blocks_or_raises(receiver, caplog):
    sock, address = receiver
    notifier = Notifier({"NOTIFY_SOCKET": address})
    for _ in range(5000):
        notifier.send(WATCHDOG="1")
    assert "cannot notify systemd" in caplog.text
    sock.close()
    caplog.clear()
    notifier.send(READY="1")
    assert "cannot notify systemd" in caplog.text
    notifier.close()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
    ],
)
def test_the_watchdog_time(environment, seconds):
    assert Notifier(environment).watchdog_seconds == seconds


class Sent(Notifier):
    """Counts what would be sent."""

    def __init__(self, seconds: float | None) -> None:
        super().__init__({})
        self.watchdog_seconds = seconds
        self.fields: list[dict[str, str]] = []

    def send(self, **fields: str) -> None:
        self.fields.append(fields)


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose time is made up: it jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            ready = select(0)
            if not ready and timeout is not None:
                self.now += timeout
            return ready

        self._selector.select = jump

    def time(self) -> float:
        return self.now


def test_feeding_stops_with_the_engine_and_resumes(caplog):
    # In made-up time, so that it is exact however busy the machine is.
    notifier, times = Sent(2.0), []
    states = {0.0: True, 30.5: False, 60.5: True}

    async def body() -> None:
        loop = asyncio.get_running_loop()

        def alive() -> bool:
            is_alive = states[max(t for t in states if t <= loop.time())]
            if is_alive:
                times.append(round(loop.time(), 3))
            return is_alive

        task = asyncio.create_task(watchdog.feed(notifier, alive))
        await asyncio.sleep(90.5)
        task.cancel()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(body())
    # At half its time, while the engine is alive.
    assert times == [float(t) for t in [*range(31), *range(61, 91)]]
    assert notifier.fields == [{"WATCHDOG": "1"}] * len(times)
    assert caplog.text.count("the engine makes no progress") == 1


def test_where_nobody_watches_an_engine_that_stands_still_is_told():
    notifier, looks = Sent(None), iter([True] * 20 + [False])

    async def body() -> float:
        with pytest.raises(watchdog.StalledError, match="the engine makes no progress"):
            await watchdog.feed(notifier, lambda: next(looks), 10.0)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert runner.run(body()) == 200.0
    assert notifier.fields == []


def record(level: int, text: str) -> logging.LogRecord:
    return logging.LogRecord("edgettsd", level, "f", 1, text, (), None)


def test_every_line_has_its_severity():
    formatter = log.JournalFormatter("%(name)s: %(message)s")
    assert formatter.format(record(logging.WARNING, "a\nb")) == "<4>edgettsd: a\n<4>b"
    assert formatter.format(record(logging.ERROR, "")) == "<3>edgettsd: "
    assert formatter.format(record(15, "x")) == "<6>edgettsd: x"


@pytest.mark.parametrize(("journal", "start"), [(True, "<6>edgettsd: hello"), (False, "20")])
def test_severities_only_for_the_journal(tmp_path, journal, start):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    path = tmp_path / "log"
    try:
        with path.open("w") as stream:
            status = os.fstat(stream.fileno())
            name = f"{status.st_dev}:{status.st_ino + (not journal)}"
            log.set_up("info", stream, {"JOURNAL_STREAM": name})
            logging.getLogger("edgettsd").info("hello")
            logging.getLogger("edgettsd").debug("quiet")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    text = path.read_text()
    assert text.startswith(start)
    assert text.count("\n") == 1


def test_a_stream_without_a_descriptor_is_not_the_journal():
    assert not log._is_journal(io.StringIO(), "1:2")
