"""Rounds of a soak over the bus: the real daemon, callers that come and go, readers of every kind.

One daemon with scripted kernels serves all rounds, so that what it loses shows in its memory and descriptors.
After each round every utterance must have finished once, and every reader have got what it should: all of a
render that completed, a beginning of any other.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import random
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbus_fast import Variant
from engine_rig import expected_pcm
from integration.harness import CallFailed, Client, PrivateBus, System

FRAMES = 4
SENTENCE = expected_pcm(FRAMES)
WAV_HEADER = 44
CALLERS = 3
# Kinds of readers; a terminal is refused.
KINDS = ("pipe", "small", "stalled", "closing", "socket", "file", "shared", "wav", "terminal")
PRIORITIES = ("important", "message", "text", "notification", "progress")
CONFIG = """
[audio]
sink = "fake"
[engine]
queue_limit = 12
client_limit = 8
sentence_pause_ms = 0
[delivery]
reader_seconds = 1
"""


class Reader:
    """Takes a render: `writer` is what the daemon gets. It reads in a thread, as its kind does.

    small, stalled: a pipe of one page, read slowly or not at all; closing: closed after a page; shared: the
    other end clears O_NONBLOCK of the daemon's description again and again.
    """

    def __init__(self, kind: str, rng: random.Random) -> None:
        self.kind, self.data = kind, bytearray()
        self._pace = rng.choice([0.0, 0.0, 0.001, 0.005])
        self._over = threading.Event()
        if kind == "socket":
            ours, theirs = socket.socketpair()
            self._fd, self.writer = ours.detach(), theirs.detach()
        elif kind == "file":
            self._fd = os.memfd_create("render")
            self.writer = os.dup(self._fd)
        elif kind == "terminal":
            self._fd, self.writer = pty.openpty()
        else:
            self._fd, self.writer = os.pipe()
        if kind in ("small", "stalled"):
            fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)
        # The daemon's description is this one, whose flags the thread changes.
        self._shared = os.dup(self.writer) if kind == "shared" else -1
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def given(self) -> None:
        """The daemon has its own copy, or has refused it."""
        os.close(self.writer)

    def all(self) -> bytes:
        """What it got, without a header; call it once the utterance is over, or was refused."""
        self._over.set()
        self._thread.join(30)
        if self._thread.is_alive():
            raise AssertionError(f"the daemon keeps the descriptor of a {self.kind}")
        return bytes(self.data)

    def _read(self) -> None:
        if self.kind in ("stalled", "file", "terminal"):
            self._over.wait()
        if self.kind == "file":
            self.data += os.pread(self._fd, 1 << 24, 0)
        elif self.kind != "terminal":
            self._take()
        os.close(self._fd)
        if self._shared >= 0:
            os.close(self._shared)

    def _take(self) -> None:
        os.set_blocking(self._fd, False)
        while True:
            if self._shared >= 0 and self._over.is_set():
                os.close(self._shared)
                self._shared = -1
            elif self._shared >= 0:
                os.set_blocking(self._shared, True)
            try:
                piece = os.read(self._fd, 4096)
            except BlockingIOError:
                time.sleep(0.002)
                continue
            if not piece:
                return
            self.data += piece
            if self.kind == "closing" and self.data:
                return
            time.sleep(self._pace)


@dataclass(slots=True)
class Account:
    """What the rounds over the bus have seen."""

    rounds: int = 0
    accepted: int = 0
    refused: int = 0
    left: int = 0
    bytes_read: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rss_kb: list[int] = field(default_factory=list)
    fds: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """For the JSON of the soak."""
        plain = {
            name: getattr(self, name) for name in ("rounds", "accepted", "refused", "left", "bytes_read")
        }
        return plain | {
            "reasons": dict(self.reasons),
            "readers": dict(self.kinds),
            "daemon_kb": self.rss_kb[-1:],
            "daemon_descriptors": self.fds[-1:],
        }


class Round:
    """Random calls of several callers for some seconds, then the account."""

    def __init__(self, system: System, account: Account, rng: random.Random) -> None:
        self._system, self._account, self._rng = system, account, rng
        self._clients: list[Client] = []
        # Utterances that their caller waits for, and every render: reader, sentences.
        self._owned: list[tuple[Client, int]] = []
        self._renders: list[tuple[Reader, Client, int, int]] = []

    async def run(self, seconds: float) -> None:
        """Do it; what is wrong is noted in the account."""
        for _ in range(CALLERS):
            self._clients.append(await Client(self._system.bus.address).__aenter__())
        try:
            for kind in self._rng.sample(KINDS, len(KINDS)):
                await self._render(kind)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                await self._call()
                await asyncio.sleep(self._rng.choice([0, 0.001, 0.01, 0.05]))
            for client in self._clients:
                await client.call("Resume")
            await self._settle()
        finally:
            for client in self._clients:
                await client.__aexit__()
        self._account.rounds += 1

    async def _call(self) -> None:
        rng, client = self._rng, self._rng.choice(self._clients)
        choice = rng.random()
        if choice < 0.45:
            await self._render(rng.choice(KINDS))
        elif choice < 0.65:
            options = {"priority": Variant("s", rng.choice(PRIORITIES))}
            options["interrupt"] = Variant("b", rng.random() < 0.2)
            options["client_bound"] = Variant("b", rng.random() < 0.3)
            await self._accepted(client, client.speak(self._text(rng.randrange(1, 3)), **options))
        elif choice < 0.80 and self._owned:
            owner, utterance = rng.choice(self._owned[-8:])
            try:
                await owner.call("Abort", "t", utterance)
            except CallFailed as error:
                self._expect(error.name.endswith(".NotFound"), f"Abort: {error}")
        elif choice < 0.805:
            await client.call("AbortAll")
        elif choice < 0.88:
            await client.call("Pause")
        elif choice < 0.985:
            await client.call("Resume")
        else:
            await self._leave()

    async def _leave(self) -> None:
        """One caller goes, perhaps with its pause, and another comes."""
        gone = self._clients.pop(self._rng.randrange(len(self._clients)))
        await gone.__aexit__()
        self._account.left += 1
        self._owned = [(client, utterance) for client, utterance in self._owned if client is not gone]
        self._clients.append(await Client(self._system.bus.address).__aenter__())

    @staticmethod
    def _text(sentences: int) -> str:
        return " ".join(["Hello there."] * sentences)

    async def _accepted(self, client: Client, call: Any) -> int:
        """The utterance's number; 0 when the queue was full."""
        try:
            utterance = int(await call)
        except CallFailed as error:
            self._expect(error.name.endswith(".QueueFull"), f"refused: {error.name}: {error}")
            self._account.refused += 1
            return 0
        self._account.accepted += 1
        self._owned.append((client, utterance))
        return utterance

    async def _render(self, kind: str) -> None:
        rng, client = self._rng, self._rng.choice(self._clients)
        reader, sentences = Reader(kind, rng), rng.randrange(1, 4)
        self._account.kinds[kind] += 1
        options = {"priority": Variant("s", rng.choice(PRIORITIES))}
        options["format"] = Variant("s", "wav" if kind == "wav" else "s16le")
        call = client.to_fd(self._text(sentences), reader.writer, **options)
        if kind == "terminal":
            try:
                await call
            except CallFailed as error:
                self._expect("a terminal" in str(error), f"a terminal was refused by {error}")
            else:
                self._wrong("a terminal was taken")
            utterance = 0
        else:
            utterance = await self._accepted(client, call)
        reader.given()
        if utterance:
            self._renders.append((reader, client, utterance, sentences))
        else:
            await asyncio.to_thread(reader.all)

    async def _settle(self) -> None:
        """Wait for every Finished and every reader, and compare."""
        for client, utterance in self._owned:
            try:
                reason = await client.finished(utterance)
            except AssertionError:
                self._wrong(f"utterance {utterance} never finished")
                continue
            self._account.reasons[reason] += 1
            if len(client.of("Finished", utterance)) != 1:
                self._wrong(f"utterance {utterance} finished more than once")
        for reader, client, utterance, sentences in self._renders:
            ended = client.of("Finished", utterance)
            reason = ended[0][1] if ended else "gone"
            got = await asyncio.to_thread(reader.all)
            if reader.kind == "wav":
                got = got[WAV_HEADER:]
            self._account.bytes_read += len(got)
            whole = SENTENCE * sentences
            if not whole.startswith(got):
                self._wrong(f"a {reader.kind} got {len(got)} bytes that are no beginning of the {len(whole)}")
            # What fits into a pipe counts as delivered, also where nobody reads it.
            if reason == "completed" and reader.kind != "closing" and len(got) != len(whole):
                self._wrong(f"a {reader.kind} got {len(got)} of {len(whole)} bytes")

    def _wrong(self, problem: str) -> None:
        self._account.wrong.append(f"bus round {self._account.rounds}: {problem}")

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            self._wrong(problem)


class DaemonSoak:
    """The daemon on its private bus; made by `started`."""

    def __init__(self, system: System) -> None:
        self._system = system
        self.account = Account()
        # Spools, their file and their thread come with the first renders, and stay.
        self._fds = 0

    def round(self, rng: random.Random, seconds: float) -> None:
        """One round, and what the daemon holds after it."""
        account, system = self.account, self._system
        asyncio.run(Round(system, account, rng).run(seconds))
        end = time.monotonic() + (10 if self._fds else 1)
        while system.fd_count() > self._fds and time.monotonic() < end:
            time.sleep(0.05)
        account.fds.append(system.fd_count())
        self._fds = self._fds or account.fds[0]
        if account.fds[-1] > self._fds:
            account.wrong.append(
                f"bus round {account.rounds}: {account.fds[-1]} descriptors, not {self._fds}"
            )
        if system.process.poll() is not None or "Traceback" in system.log:
            account.wrong.append(f"bus round {account.rounds}: the daemon: {system.log[-2000:]}")
        status = Path(f"/proc/{system.process.pid}/status").read_text()
        account.rss_kb.append(int(status.split("RssAnon:")[1].split()[0]))

    def cpu_seconds(self) -> float:
        """Of the daemon, since it was started."""
        fields = Path(f"/proc/{self._system.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def started() -> Iterator[DaemonSoak]:
    """A daemon for the whole soak; it must stop with status 0."""
    folder = Path(tempfile.mkdtemp(prefix="edgettsd-soak-"))
    bus_folder, own = folder / "bus", folder / "daemon"
    bus_folder.mkdir()
    own.mkdir()
    bus = PrivateBus(bus_folder, apart=True)
    try:
        system = System(bus, own, engine=f"scripted:frames={FRAMES},step_us=1000", config=CONFIG, apart=True)
        soak = DaemonSoak(system)
        try:
            yield soak
        finally:
            status = system.stop()
            if status != 0:
                soak.account.wrong.append(f"the daemon stopped with status {status}")
    finally:
        bus.close()
        shutil.rmtree(folder, ignore_errors=True)
