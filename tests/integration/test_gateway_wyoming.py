"""Wyoming as Home Assistant drives it, with the same package, against the real gateway and daemon."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.gateway_rig import Gateway, serving
from integration.harness import Client, PrivateBus, System, running, until
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH
from edgettsd.client import render

TEXT = "Good morning. The kettle is ready."
LONG = "One sentence of many words that is said again. " * 40
SECONDS = 20


class Rig:
    """A daemon and a gateway on one bus."""

    def __init__(self, bus: PrivateBus, gateway: Gateway) -> None:
        self.bus = bus
        self.port = gateway.wyoming_port
        self.gateway = gateway

    def client(self) -> AsyncTcpClient:
        """A client as Home Assistant makes one for each request."""
        return AsyncTcpClient("127.0.0.1", self.port)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    folders = [Path(tempfile.mkdtemp(prefix="edgettsd-")) for _ in range(2)]
    bus = PrivateBus(folders[0])
    try:
        with running(System(bus, folders[1])), serving(Gateway(bus, folders[0])) as gateway:
            yield Rig(bus, gateway)
    finally:
        bus.close()
        for path in folders:
            shutil.rmtree(path)


def run(test: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(test(), 60)

    return asyncio.run(bounded())


async def event(client: AsyncTcpClient) -> Event:
    found = await asyncio.wait_for(client.read_event(), SECONDS)
    assert found is not None, "the connection was closed"
    return found


async def described(client: AsyncTcpClient) -> Info:
    await client.write_event(Describe().event())
    return Info.from_event(await event(client))


async def spoken(client: AsyncTcpClient, end: type) -> tuple[list[str], bytes, int]:
    """Types of the events up to one of type `end`, the samples, and their rate."""
    kinds, audio, rate = [], b"", 0
    while True:
        found = await event(client)
        kinds.append(found.type)
        if AudioStart.is_type(found.type):
            rate = AudioStart.from_event(found).rate
        elif AudioChunk.is_type(found.type):
            chunk = AudioChunk.from_event(found)
            assert (chunk.width, chunk.channels, chunk.rate) == (2, 1, rate)
            assert chunk.timestamp == len(audio) * 1000 // (2 * rate)
            audio += chunk.audio
        elif end.is_type(found.type):
            return kinds, audio, rate


async def direct(bus: PrivateBus, text: str) -> bytes:
    async with render(False, bus.address, text, {"priority": "message"}) as speech:
        return b"".join([piece async for piece in speech])


def test_it_tells_what_it_can(rig: Rig) -> None:
    async def test() -> None:
        async with rig.client() as client:
            info = await described(client)
            (program,) = info.tts
            assert program.installed and program.supports_synthesize_streaming
            assert program.voices and all(voice.installed and voice.languages for voice in program.voices)
            await client.write_event(Ping("x").event())
            assert Pong.from_event(await event(client)).text == "x"

    run(test)


def test_a_text_is_said_as_a_whole(rig: Rig) -> None:
    async def test() -> None:
        async with rig.client() as client:
            name = (await described(client)).tts[0].voices[0].name
            for voice in (None, SynthesizeVoice(name=name), SynthesizeVoice(language="en")):
                await client.write_event(Synthesize(TEXT, voice=voice).event())
                kinds, audio, rate = await spoken(client, AudioStop)
                assert kinds[0] == "audio-start" and set(kinds[1:-1]) == {"audio-chunk"}
                assert rate == 24000 and audio == await direct(rig.bus, TEXT)

    run(test)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_text_that_is_still_written(rig: Rig, size: int) -> None:
    """Chunks do not lie on word boundaries, and the whole text comes once more at the end."""

    async def test() -> None:
        async with rig.client() as client:
            await client.write_event(SynthesizeStart().event())
            for at in range(0, len(TEXT), size):
                await client.write_event(SynthesizeChunk(TEXT[at : at + size]).event())
            await client.write_event(Synthesize(TEXT).event())
            await client.write_event(SynthesizeStop().event())
            kinds, audio, _ = await spoken(client, SynthesizeStopped)
            assert kinds.count("audio-start") == kinds.count("audio-stop") == 1
            assert audio == await direct(rig.bus, TEXT)

    run(test)


def test_a_stream_without_text_ends(rig: Rig) -> None:
    async def test() -> None:
        async with rig.client() as client:
            for _ in range(2):
                await client.write_event(SynthesizeStart().event())
                await client.write_event(SynthesizeStop().event())
                kinds, _, _ = await spoken(client, SynthesizeStopped)
                assert kinds.count("audio-start") == 1 and "error" not in kinds

    run(test)


def test_what_cannot_be_said_is_an_error_and_an_end(rig: Rig) -> None:
    async def test() -> None:
        async with rig.client() as client:
            wrong = SynthesizeVoice(name="nobody")
            await client.write_event(Synthesize(TEXT, voice=wrong).event())
            error = Error.from_event(await event(client))
            assert "nobody" in error.text
            kinds, audio, _ = await spoken(client, AudioStop)
            assert kinds == ["audio-start", "audio-stop"] and not audio
            await client.write_event(SynthesizeStart(voice=wrong).event())
            await client.write_event(SynthesizeChunk(TEXT).event())
            await client.write_event(SynthesizeStop().event())
            kinds, _, _ = await spoken(client, SynthesizeStopped)
            assert "error" in kinds
            # The connection still serves.
            await client.write_event(Synthesize(TEXT).event())
            assert (await spoken(client, AudioStop))[1]

    run(test)


def test_unknown_events_are_ignored_and_markdown_is_not_read(rig: Rig) -> None:
    async def test() -> None:
        async with rig.client() as client:
            await client.write_event(Event("transcribe", {"language": "en"}, b"some bytes"))
            await client.write_event(SynthesizeChunk("before any start").event())
            await client.write_event(SynthesizeStop().event())
            await client.write_event(
                Synthesize("# Good morning\n\n**The kettle** is ready \U0001f600").event()
            )
            kinds, audio, _ = await spoken(client, AudioStop)
            assert kinds[0] == "audio-start"
            assert audio == await direct(rig.bus, "Good morning.\nThe kettle is ready.")

    run(test)


def test_describe_is_answered_without_a_daemon(bus: PrivateBus, folder: Path) -> None:
    with serving(Gateway(bus, folder)) as gateway:

        async def test() -> None:
            client = AsyncTcpClient("127.0.0.1", gateway.wyoming_port)
            async with client:
                began = time.monotonic()
                (program,) = (await described(client)).tts
                assert time.monotonic() - began < 1
                (voice,) = program.voices
                assert voice.languages and voice.name == "default"
                await client.write_event(Synthesize(TEXT).event())
                assert Error.from_event(await event(client)).text
                assert (await spoken(client, AudioStop))[0] == ["audio-start", "audio-stop"]
                # The name that was told then still means something later.
                (folder / "daemon").mkdir()
                with running(System(bus, folder / "daemon")):
                    voice_wanted = SynthesizeVoice(name="default")
                    await client.write_event(Synthesize(TEXT, voice=voice_wanted).event())
                    assert (await spoken(client, AudioStop))[1]

        run(test)


def test_describe_is_answered_while_the_model_loads(bus: PrivateBus, folder: Path) -> None:
    (folder / "daemon").mkdir()
    system = System(bus, folder / "daemon", engine="scripted:load_us=3000000", wait=False)
    with running(system), serving(Gateway(bus, folder)) as gateway:

        async def test() -> None:
            async with AsyncTcpClient("127.0.0.1", gateway.wyoming_port) as client:
                began = time.monotonic()
                assert (await described(client)).tts[0].voices
                assert time.monotonic() - began < 1
                assert "READY=1" not in system.notifications()
                # What is to be said waits for the model.
                await client.write_event(Synthesize(TEXT).event())
                kinds, audio, rate = await spoken(client, AudioStop)
                assert "error" not in kinds and audio and rate >= 8000

        where = ("get-property", BUS_NAME, OBJECT_PATH, INTERFACE, "State")
        until(lambda: "starting" in bus.busctl(*where).stdout, "a daemon that loads")
        run(test)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_client_that_leaves_frees_the_engine(bus: PrivateBus, folder: Path, streaming: bool) -> None:
    (folder / "daemon").mkdir()
    with running(System(bus, folder / "daemon", engine="fake:1")), serving(Gateway(bus, folder)) as gateway:

        async def test() -> None:
            async with Client(bus.address) as witness:
                client = AsyncTcpClient("127.0.0.1", gateway.wyoming_port)
                await client.connect()
                if streaming:
                    await client.write_event(SynthesizeStart().event())
                    await client.write_event(SynthesizeChunk(LONG).event())
                    await client.write_event(SynthesizeStop().event())
                else:
                    await client.write_event(Synthesize(LONG).event())
                assert (await event(client)).type == "audio-start"
                assert (await event(client)).type == "audio-chunk"
                closed = time.monotonic()
                await client.disconnect()
                ended = await witness.until(
                    lambda: [s for s in witness.signals if s[0] == "Finished"], "the utterance's end"
                )
                assert ended[0][1][1] == "aborted"
                # The bound is 50 ms; the machine may have other things to do.
                assert time.monotonic() - closed < 1.0

        run(test)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type": "describe", "data_length": 99999999999}\n',
        b'{"type": "describe", "data_length": -1}\n',
        b'{"type": "describe", "data_length": "5"}\n',
        b'{"type": "describe", "payload_length": 1000000000}\n',
        b'{"type": "synthesize", "data": []}\n',
        b'{"type": "synthesize", "data": {"text": 5}}\n',
        b'{"type": "synthesize", "data": {"text": "a\\u0000"}}\n',
        b'{"type": "synthesize", "data_length": 3}\n[1]',
        b'{"type": 5}\n',
        b"[]\n",
        b"\xff\xfe\n",
        b"x" * 200_000,
        b"[" * 60_000 + b"\n",
        json.dumps({"type": "synthesize", "data": {"text": "a" * 100_001}}).encode() + b"\n",
    ],
)
def test_what_is_no_event_ends_the_connection(rig: Rig, line: bytes) -> None:
    with socket.create_connection(("127.0.0.1", rig.port), timeout=SECONDS) as sock:
        said = b""
        try:
            sock.sendall(line)
            while data := sock.recv(4096):
                said += data
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert not said or b'"type": "error"' in said


def test_random_bytes_and_many_connections_do_no_harm(rig: Rig) -> None:
    random = np.random.default_rng(2)
    for size in (1, 100, 10_000, 300_000):
        with socket.create_connection(("127.0.0.1", rig.port), timeout=SECONDS) as sock:
            try:
                sock.sendall(random.bytes(size))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
    idle = [socket.create_connection(("127.0.0.1", rig.port), timeout=SECONDS) for _ in range(20)]
    try:
        # Sixteen are served; each above that is closed at once.
        assert sum(_is_closed(sock) for sock in idle) >= 4
    finally:
        for sock in idle:
            sock.close()

    async def test() -> None:
        # The places of those that left are free again.
        for _ in range(100):
            try:
                async with rig.client() as client:
                    await described(client)
                    return
            except (AssertionError, ConnectionError):
                await asyncio.sleep(0.05)
        raise AssertionError("no place became free")

    run(test)


def _is_closed(sock: socket.socket) -> bool:
    sock.settimeout(0.3)
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
