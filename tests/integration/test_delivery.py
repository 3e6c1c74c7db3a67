"""SynthesizeToFd against readers of every kind, over the bus: nobody else notices them.

The real daemon with scripted kernels; a sentence of 25 frames is 96,000 bytes.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import socket
import termios
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Variant
from integration.delivery_rig import ERROR, IMPORTANT, QUIET, SENTENCE, Start, began, pipe, text
from integration.harness import Client, PrivateBus, System, refused, with_client

# --- what is taken ----------------------------------------------------------------------------------------


def test_descriptors_of_other_kinds_are_refused_by_name(start: Start, tmp_path: Path) -> None:
    system = start(engine="scripted", config=QUIET)
    master, terminal = pty.openpty()
    a, b = socket.socketpair(type=socket.SOCK_SEQPACKET)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()
    kinds = {
        "a terminal": terminal,
        "a character device": os.open("/dev/null", os.O_WRONLY),
        "of no kind that has a name": os.eventfd(0),
        "not open for writing": os.open(tmp_path, os.O_RDONLY),
        "a socket that is no stream": a.fileno(),
        "a socket that is not connected": listening.fileno(),
    }

    async def test(client: Client) -> None:
        before = system.fd_count()
        for what, fd in kinds.items():
            name, words = await refused(client.to_fd("Hello.", fd))
            assert name == ERROR + "InvalidOption"
            assert what in words and "allowed: a pipe, a connected stream socket or a regular file" in words
        # A thread closes what may take long.
        async with asyncio.timeout(5):
            while system.fd_count() > before:
                await asyncio.sleep(0.01)
        memory = os.memfd_create("memory")
        assert await client.finished(await client.to_fd("Hello.", memory)) == "completed"
        assert os.fstat(memory).st_size == SENTENCE
        os.close(memory)

    with_client(system, test)
    for fd in (master, *kinds.values()):
        if fd not in (a.fileno(), listening.fileno()):
            os.close(fd)
    for each in (a, b, listening):
        each.close()


# --- nobody waits for a reader ----------------------------------------------------------------------------


def test_a_reader_that_takes_a_page_now_and_then_holds_nobody(start: Start) -> None:
    """reader_seconds = 2 is satisfied by 4 KiB every 0.8 s; delivery_seconds ends it."""
    limits = "[delivery]\nreader_seconds = 2\ndelivery_seconds = 2\n"
    system = start(engine="scripted", config=QUIET + limits)
    stop = threading.Event()

    def sip(fd: int) -> None:
        while not stop.wait(0.8):
            os.read(fd, 4096)

    async def test(client: Client) -> None:
        with pipe() as (reader, writer):
            utterance = await client.to_fd(text(2), writer)
            thread = threading.Thread(target=sip, args=(reader,))
            thread.start()
            await client.started(utterance)
            # Its last sample is made; else it would stand back for the other one first.
            while await client.get("Active"):
                await asyncio.sleep(0.01)
            asked = time.monotonic()
            important = await client.speak("Hello.", **IMPORTANT)
            assert await began(client, important) < 1.0
            assert await client.finished(utterance) == "device"
            # 2 s, and 4.2 s that it takes to play what was left.
            assert 5.5 < time.monotonic() - asked < 7.5
            detail = client.of("Finished", utterance)[0][2]["detail"].value
            assert detail == "the reader did not take everything within 6 s"
            stop.set()
            os.close(writer)
            await asyncio.to_thread(thread.join)

    with_client(system, test)


@pytest.mark.parametrize("seconds", [1.0, 2.0])
def test_a_reader_that_never_reads_is_given_up_in_time_and_holds_nobody(start: Start, seconds: float) -> None:
    """More text than pipe and memory hold, so that today's playout would stand still."""
    limits = f"[delivery]\nreader_seconds = {seconds}\nspool_memory_kib = 64\n"
    system = start(engine="scripted", config=QUIET + limits)

    async def test(client: Client) -> None:
        with pipe() as (_, writer):
            asked = time.monotonic()
            utterance = await client.to_fd(text(5), writer)
            await client.started(utterance)
            assert await began(client, await client.speak("Hello.", **IMPORTANT)) < 1.0
            assert not client.of("Finished", utterance), "the other one began meanwhile"
            assert await client.finished(utterance) == "device"
            assert seconds - 0.05 <= time.monotonic() - asked < seconds + 0.5
            body = client.of("Finished", utterance)[0][2]
            assert body["detail"].value == "the reader does not read"
            # What was delivered is in the pipe: its one page, or most of it.
            assert 0 < body["audio_seconds"].value <= 4096 / 48_000

    with_client(system, test)


def test_a_full_spool_holds_nobody_and_loses_nothing(start: Start) -> None:
    """No file, little memory: the render stands back until there is room, then goes on where it was."""
    limits = "[delivery]\nspool_mib = 0\nspool_memory_kib = 64\n"
    system = start(engine="scripted", config=QUIET + limits)

    async def test(client: Client) -> None:
        with pipe() as (reader, writer), pipe() as (other_reader, other_writer):
            utterance = await client.to_fd(text(4), writer, seed=Variant("t", 5))
            os.close(writer)
            await client.started(utterance)
            await asyncio.sleep(0.5)
            assert await began(client, await client.speak("Hello.", **IMPORTANT)) < 1.0
            other = await client.to_fd(text(1), other_writer)
            os.close(other_writer)
            got = bytearray(await asyncio.to_thread(os.read, other_reader, 4096))
            while piece := await asyncio.to_thread(os.read, other_reader, 65_536):
                got += piece
            assert len(got) == SENTENCE and await client.finished(other) == "completed"
            assert not client.of("Finished", utterance)
            first = bytes(got)
            got.clear()
            while piece := await asyncio.to_thread(os.read, reader, 65_536):
                got += piece
            assert await client.finished(utterance) == "completed"
            assert bytes(got) == bytes(9600).join([first] * 4)

    with_client(system, test)


def test_twenty_slow_readers_at_once(start: Start) -> None:
    """Each takes 40 kB a second; all get everything, and speech begins at once meanwhile."""
    system = start(engine="scripted", config=QUIET + "[delivery]\nspool_memory_kib = 64\n")
    got: dict[int, bytearray] = {}

    def read(number: int, fd: int) -> None:
        got[number] = bytearray()
        while piece := os.read(fd, 8192):
            got[number] += piece
            time.sleep(0.2)
        os.close(fd)

    async def test(client: Client) -> None:
        ids, threads = [], []
        before = system.fd_count()
        memory = system.resident_kb()
        for number in range(20):
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            ids.append(await client.to_fd(text(3), writer))
            os.close(writer)
            threads.append(threading.Thread(target=read, args=(number, reader)))
            threads[-1].start()
        await client.started(ids[-1])
        grown = system.resident_kb() - memory
        assert await began(client, await client.speak("Hello.", **IMPORTANT)) < 1.0
        assert [await client.finished(utterance) for utterance in ids] == ["completed"] * 20
        for thread in threads:
            await asyncio.to_thread(thread.join)
        sounds = {bytes(data) for data in got.values()}
        assert len(sounds) == 1 and len(sounds.pop()) == 3 * SENTENCE + 2 * 9600
        # The overflow file, and two of each of the last two spools, which playout still has in hand.
        assert system.fd_count() <= before + 5
        # 20 times 64 KiB, buffers and stacks; the spools hold 5.7 MB.
        assert grown < 4600

    with_client(system, test)


# --- the client plays with what it shares -----------------------------------------------------------------


def test_flags_that_the_client_changes_all_the_time_do_not_matter(start: Start) -> None:
    system = start(engine="scripted", config=QUIET)
    stop = threading.Event()

    def change(fd: int) -> None:
        while not stop.is_set():
            for blocking in (False, True):
                os.set_blocking(fd, blocking)

    async def test(client: Client) -> None:
        with pipe() as (reader, writer):
            thread = threading.Thread(target=change, args=(writer,))
            thread.start()
            utterance = await client.to_fd(text(1), writer)
            data = bytearray()
            while len(data) < SENTENCE:
                data += await asyncio.to_thread(os.read, reader, 1000)
            stop.set()
            thread.join()
            assert await client.finished(utterance) == "completed"
            assert len(data) == SENTENCE

    with_client(system, test)


def test_a_terminal_cannot_stop_the_daemon(start: Start) -> None:
    """Nobody reads it, and it blocks: it is refused before anything is written."""
    system = start(engine="scripted", config=QUIET)

    async def test(client: Client) -> None:
        master, terminal = pty.openpty()
        mode = termios.tcgetattr(terminal)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(terminal, termios.TCSANOW, mode)
        name, _ = await refused(client.to_fd(text(5), terminal))
        os.set_blocking(terminal, True)
        assert name == ERROR + "InvalidOption"
        assert await began(client, await client.speak("Hello.", **IMPORTANT)) < 1.0
        os.close(master)
        os.close(terminal)

    with_client(system, test)


# --- ends -------------------------------------------------------------------------------------------------


def test_abort_and_leaving_end_what_is_only_delivered(start: Start) -> None:
    system = start(engine="scripted", config=QUIET)

    async def test(client: Client) -> None:
        with pipe() as (_, one), pipe() as (_, two), pipe() as (_, three):
            utterance = await client.to_fd(text(2), one)
            async with Client(system.bus.address) as other:
                bound = await other.to_fd(text(2), two, client_bound=Variant("b", True))
                all_of_them = await other.to_fd(text(2), three)
                # The next one speaks, so that these are made.
                await client.finished(await client.speak("Hello.", priority=Variant("s", "progress")))
                assert await client.get("Active") == 0
                assert await client.get("QueueLength") == 0
                asked = time.monotonic()
                assert await client.call("Abort", "t", utterance) is True
                assert await client.call("Abort", "t", utterance) is False
                assert await client.finished(utterance) == "aborted"
                assert time.monotonic() - asked < 0.5
                assert not client.of("Finished", bound)
            assert await client.finished(bound) == "aborted"
            assert await client.call("AbortAll") == 1
            assert await client.finished(all_of_them) == "aborted"
            order = [(name, body[0]) for name, body in client.signals if name in ("Started", "Finished")]
            assert len(order) == len(set(order)), "something was told twice"

    with_client(system, test)


def test_finished_comes_after_the_last_byte(start: Start) -> None:
    system = start(engine="scripted", config=QUIET)

    async def test(client: Client) -> None:
        with pipe() as (reader, writer):
            utterance = await client.to_fd(text(1), writer)
            os.close(writer)
            left = SENTENCE
            while left > 4096:
                left -= len(os.read(reader, 4096))
                assert not client.of("Finished", utterance)
            assert await client.finished(utterance) == "completed"
            assert os.read(reader, 8192) and os.read(reader, 1) == b""
            stats: dict[str, Any] = client.of("Finished", utterance)[0][2]
            assert stats["audio_seconds"].value == 2.0

    with_client(system, test)


def test_a_stop_does_not_wait_for_readers(bus: PrivateBus, folder: Path) -> None:
    system = System(bus, folder, engine="scripted", config=QUIET)

    async def test(client: Client) -> None:
        with pipe() as (_, one), pipe() as (_, two):
            ids = [await client.to_fd(text(3), one), await client.to_fd(text(3), two)]
            await client.started(ids[1])
            asked = time.monotonic()
            assert await asyncio.to_thread(system.stop) == 0
            assert time.monotonic() - asked < 3.0
            assert [await client.finished(utterance) for utterance in ids] == ["aborted"] * 2

    with_client(system, test)


def test_readers_are_counted_by_the_limits_for_renders_only(start: Start) -> None:
    system = start(engine="scripted", config=QUIET + "[engine]\nclient_limit = 2\n")

    async def test(client: Client) -> None:
        with pipe() as (reader, one), pipe() as (_, two), pipe() as (_, three):
            first = await client.to_fd(text(1), one)
            os.close(one)
            second = await client.to_fd(text(1), two)
            await client.started(second)
            await client.finished(await client.speak("Hello."))
            name, words = await refused(client.to_fd(text(1), three))
            assert name == ERROR + "QueueFull"
            assert "2 utterances of this caller wait or are being delivered" in words
            while os.read(reader, 65_536):
                pass
            assert await client.finished(first) == "completed"
            await client.to_fd(text(1), three)
            await client.call("AbortAll")

    with_client(system, test)
