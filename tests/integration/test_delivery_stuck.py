"""SynthesizeToFd where the kernel does not let a writer go: nobody else notices it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from dbus_fast import Variant
from integration.delivery_rig import ERROR, IMPORTANT, QUIET, Start, began, pipe, text
from integration.harness import CallFailed, Client, PrivateBus, System, refused, with_client


@pytest.fixture(scope="module")
def slow_write(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a daemon whose writers are held up; see the rig."""
    library = tmp_path_factory.mktemp("slow") / "slow_write.so"
    source = Path(__file__).parents[1] / "rigs" / "slow_write.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


def writer_sleeps_in_write(system: System) -> bool:
    """Whether the daemon's one writer is in a system call with a descriptor and a size of at most a page."""
    tasks = Path(f"/proc/{system.process.pid}/task").iterdir()
    (task,) = [task for task in tasks if (task / "comm").read_text() == "tts-delivery\n"]
    call = [int(word, 0) for word in (task / "syscall").read_text().split()[:4] if word != "running"]
    return len(call) == 4 and 0 < call[1] < 1000 and 0 < call[3] <= 4096


def test_a_second_writer_on_the_pipe_holds_nobody(start: Start, slow_write: dict[str, str]) -> None:
    """It fills the pipe between poll and write, so that the daemon's writer sleeps in write(2)."""
    system = start(engine="scripted", config=QUIET, env=slow_write)

    async def test(client: Client) -> None:
        with pipe() as (reader, writer):
            utterance = await client.to_fd(text(5), writer)
            await client.started(utterance)
            # The first page is in the pipe by now. It is taken, and the writer about to write the second one.
            await asyncio.sleep(0.5)
            os.read(reader, 4096)
            await asyncio.sleep(0.02)
            os.write(writer, bytes(4096))
            await asyncio.sleep(0.5)
            assert writer_sleeps_in_write(system)
            assert await began(client, await client.speak("Hello.", **IMPORTANT)) < 1.0
            asked = time.monotonic()
            await client.call("Abort", "t", utterance)
            assert await client.finished(utterance) == "aborted"
            assert time.monotonic() - asked < 0.5

    with_client(system, test)


def test_a_file_whose_server_is_gone_holds_nobody(
    start: Start, slow_write: dict[str, str], tmp_path: Path
) -> None:
    """Not even a signal ends that write: abort, the reader's bound and a stop go on without it."""
    config = QUIET + "[delivery]\nreader_seconds = 1\n[engine]\nclient_limit = 2\n"
    system = start(engine="scripted", config=config, env=slow_write)
    path = tmp_path / "speech.stuck"

    async def test(client: Client) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        for stuck in range(2):
            utterance = await client.to_fd(text(3), fd)
            await client.started(utterance)
            asked = time.monotonic()
            assert await began(client, await client.speak("Hello.", **IMPORTANT)) < 1.0
            if stuck == 0:
                asked = time.monotonic()
                await client.call("Abort", "t", utterance)
                assert await client.finished(utterance) == "aborted"
                assert time.monotonic() - asked < 0.5
            else:
                assert await client.finished(utterance) == "device"
                assert 1.0 <= time.monotonic() - asked < 1.6
        # What the kernel holds counts until it lets go; speech is not concerned.
        name, words = await refused(client.to_fd(text(1), fd))
        assert name == ERROR + "QueueFull" and "are being delivered" in words
        assert await client.finished(await client.speak("Hello.")) == "completed"
        path.with_name(path.name + ".go").touch()
        async with asyncio.timeout(5):
            while True:
                try:
                    utterance = await client.to_fd(text(1), fd)
                    break
                except CallFailed:
                    await asyncio.sleep(0.05)
        assert await client.finished(utterance) == "completed"
        os.close(fd)

    with_client(system, test)


def test_a_writer_that_cannot_leave_costs_nothing(
    start: Start, slow_write: dict[str, str], tmp_path: Path
) -> None:
    """Its render is aborted while memory and file are full: the store's thread finds nothing to do for it."""
    config = QUIET + "[delivery]\nspool_memory_kib = 64\nspool_mib = 1\n"
    system = start(engine="scripted", config=config, env=slow_write)

    def ticks() -> int:
        tasks = Path(f"/proc/{system.process.pid}/task").iterdir()
        (task,) = [task for task in tasks if (task / "comm").read_text() == "tts-spool\n"]
        return sum(map(int, (task / "stat").read_text().rpartition(")")[2].split()[11:13]))

    async def test(client: Client) -> None:
        fd = os.open(tmp_path / "speech.stuck", os.O_WRONLY | os.O_CREAT)
        utterance = await client.to_fd(text(20), fd)
        async with asyncio.timeout(10):
            while json.loads(await client.call("Stats"))["spool_file_bytes"] < 1 << 20:
                await asyncio.sleep(0.05)
        # The memory fills up, too.
        await asyncio.sleep(0.3)
        await client.call("Abort", "t", utterance)
        assert await client.finished(utterance) == "aborted"
        before = ticks()
        await asyncio.sleep(1.0)
        assert ticks() - before < 5
        (tmp_path / "speech.stuck.go").touch()
        os.close(fd)

    with_client(system, test)


def test_closing_a_file_whose_server_is_gone_holds_nobody(
    start: Start, slow_write: dict[str, str], tmp_path: Path
) -> None:
    """Closing a file waits for its server, too: refused, unwanted, aborted before its turn."""
    system = start(engine="scripted", config=QUIET + "[engine]\nclient_limit = 1\n", env=slow_write)

    async def test(client: Client) -> None:
        fd = os.open(tmp_path / "speech.stuck", os.O_WRONLY | os.O_CREAT)
        await client.call("Pause")
        utterance = await client.to_fd("Hello.", fd)
        asked = time.monotonic()
        for _ in range(20):
            await refused(client.to_fd("Hello.", fd, voice=Variant("s", "nobody")))
            await refused(client.to_fd("Hello.", fd))
            await refused(client.call("Speak", "sa{sv}", "Hello.", {}, fds=[fd, fd]))
        await client.call("Abort", "t", utterance)
        assert await client.finished(utterance) == "aborted"
        await client.call("Resume")
        assert await client.finished(await client.speak("Hello.")) == "completed"
        # Of which speaking takes 2 s.
        assert time.monotonic() - asked < 6
        assert len(list(Path(f"/proc/{system.process.pid}/task").iterdir())) < 40
        before = system.fd_count()
        (tmp_path / "speech.stuck.go").touch()
        async with asyncio.timeout(10):
            while system.fd_count() > before - 80:
                await asyncio.sleep(0.05)
        os.close(fd)

    with_client(system, test)


def test_a_stop_does_not_wait_for_a_file_whose_server_is_gone(
    bus: PrivateBus, folder: Path, slow_write: dict[str, str]
) -> None:
    system = System(bus, folder, engine="scripted", config=QUIET, env=slow_write)

    async def test(client: Client) -> None:
        fd = os.open(folder / "speech.stuck", os.O_WRONLY | os.O_CREAT)
        utterance = await client.to_fd(text(1), fd)
        await client.started(utterance)
        asked = time.monotonic()
        assert await asyncio.to_thread(system.stop) == 0
        assert time.monotonic() - asked < 3.0
        assert await client.finished(utterance) == "aborted"
        os.close(fd)

    with_client(system, test)
