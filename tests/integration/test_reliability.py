"""The real daemon without a model (--engine scripted): load, faults and texts of every kind."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audio_rigs import make_exact_rig, make_paced_rig, with_tail
from dbus_fast import Variant
from engine_rig import frame as frame_codes
from hypothesis import given, settings
from hypothesis import strategies as st
from integration.harness import CallFailed, Client, PrivateBus, System, with_client

from cython_kernels.fake import frame_pcm
from edgettsd.bus import Connection, Limits, SpeechService
from edgettsd.config import Config
from edgettsd.engine import scripted
from edgettsd.supervisor import Supervisor

SPF = 1920
LONG_TEXT = "This text is long enough, so that its cap of many hundred frames is far from what is heard. " * 3

Start = Callable[..., System]


def sound(frames: int, volume: float = 1.0) -> bytes:
    """What one sentence of the script sounds like."""
    codes = [frame_codes(k) for k in range(frames)]
    pcm = np.concatenate([frame_pcm(code, k, SPF) for k, code in enumerate(codes)])
    scaled = np.rint(pcm * np.float32(volume) * 32768)
    return np.clip(scaled, -32768, 32767).astype("<i2").tobytes()


# --- load -------------------------------------------------------------------------------------------------


def test_fifty_clients_and_a_thousand_utterances(start: Start, tmp_path: Path) -> None:
    """All are spoken, whole, in the order of their acceptance; more than fit are refused."""
    rig = make_exact_rig(tmp_path / "rig")
    limits = "[engine]\nqueue_limit = 980\nclient_limit = 25\n"
    system = start(engine="scripted:frames=2", config=limits, env=rig.env)

    async def one(number: int, ids: dict[int, float], refused: list[str]) -> None:
        volume = round(1.0 - number * 0.01, 2)
        async with Client(system.bus.address) as client:
            for _ in range(20):
                try:
                    ids[await client.speak("Hello.", volume=Variant("d", volume))] = volume
                except CallFailed as error:
                    refused.append(error.name)

    async def test(watcher: Client) -> None:
        ids: dict[int, float] = {}
        refused: list[str] = []
        await watcher.call("Pause")
        await asyncio.gather(*(one(number, ids, refused) for number in range(50)))
        assert (len(ids), len(refused)) == (980, 20)
        assert set(refused) == {"org.edgettsd.Error.QueueFull"}
        assert await watcher.get("QueueLength") == 980
        before = system.fd_count()
        await watcher.call("Resume")
        assert await watcher.finished(max(ids)) == "completed"
        ends = [body for name, body in watcher.signals if name == "Finished"]
        assert [body[0] for body in ends] == sorted(ids)
        assert {body[1] for body in ends} == {"completed"}
        sounds = {volume: with_tail(sound(2, volume)) for volume in set(ids.values())}
        assert rig.heard() == b"".join(sounds[ids[utterance]] for utterance in sorted(ids))
        assert system.fd_count() <= before + 2

    with_client(system, test)


def test_priorities_are_served_before_arrival(start: Start) -> None:
    system = start(engine="scripted:frames=2", config='[audio]\nsink = "fake"\n')

    async def test(client: Client) -> None:
        await client.call("Pause")
        ids = {}
        for n, priority in enumerate(["message", "important", "message", "important"]):
            ids[n] = await client.speak("Hello.", priority=Variant("s", priority))
        await client.call("Resume")
        for utterance in ids.values():
            assert await client.finished(utterance) == "completed"
        order = [body[0] for name, body in client.signals if name == "Finished"]
        assert order == [ids[1], ids[3], ids[0], ids[2]]

    with_client(system, test)


# --- runaway, seen from outside ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, status, word",
    [
        ("frames=-1,quiet_after=20", 5, "runaway"),
        ("frames=-1,repeat_after=20", 5, "runaway"),
        ("frames=-1", 6, "limit"),
    ],
)
def test_no_end_is_told_by_signal_exit_status_and_log(
    start: Start, tmp_path: Path, script: str, status: int, word: str
) -> None:
    rig = make_exact_rig(tmp_path / "rig")
    system = start(engine=f"scripted:{script}", env=rig.env)
    done = system.ctl("speak", "--wait", LONG_TEXT)
    assert done.returncode == status
    assert done.stderr.startswith(f"edgettsctl: {word}: ".encode())
    assert f"utterance 1: {word}: " in system.log
    if "repeat" not in script:
        assert rig.heard().startswith(sound(20))
    if "quiet" in script:
        assert len(rig.heard()) <= 2 * SPF * (20 + 38)


# --- what the device plays --------------------------------------------------------------------------------


def test_the_silence_between_sentences_is_the_configured_pause(start: Start, tmp_path: Path) -> None:
    """Also: the silence before, for devices that swallow the first sound, and every sample."""
    rig = make_paced_rig(tmp_path / "rig")
    config = "[engine]\nsentence_pause_ms = 300\n[audio]\npreroll_ms = 250\nbuffer_ms = 600\n"
    system = start(engine="scripted:frames=8", config=config, env=rig.env)

    async def test(client: Client) -> None:
        utterance = await client.speak("One here. Two here. Three here.")
        assert await client.finished(utterance) == "completed"
        pause = bytes(2 * 24_000 * 300 // 1000)
        one = sound(8)
        assert rig.heard() == bytes(2 * 6000) + one + pause + one + pause + with_tail(one)
        begun, over = rig.events("START")[0], rig.events("XRUN")[-1]
        played = len(rig.heard()) / 48_000
        # Without an underrun the time is that of the samples: the pauses last as long as they should.
        assert rig.underruns() == 0
        assert abs((over.ns - begun.ns) * 1e-9 - played) < 0.02

    with_client(system, test)


# --- the event loop ---------------------------------------------------------------------------------------


def test_the_event_loop_never_works_for_20_ms_at_once(
    bus: PrivateBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU time of every callback on the daemon's loop, with texts of 100 kB and 300 utterances."""
    worst: list[tuple[float, str]] = []
    ready, over = threading.Event(), threading.Event()
    run = asyncio.Handle._run
    service_thread: list[int] = []

    def timed(handle: Any) -> None:
        before = time.thread_time()
        run(handle)
        spent = time.thread_time() - before
        if threading.get_ident() in service_thread:
            worst.append((spent, repr(handle)))

    async def serve() -> None:
        config = Config().updated(
            {"audio": {"sink": "fake"}, "engine": {"queue_limit": 500, "client_limit": 500}}, "test"
        )
        engine = scripted.make(config, "frames=2")
        connection = await Connection.open(address=bus.address)
        service = SpeechService(engine, connection, Limits(100_000, 300.0), "0", "", Supervisor())
        await engine.start()
        service.start()
        await connection.acquire("org.edgettsd.Speech1")
        service_thread.append(threading.get_ident())
        ready.set()
        while not over.is_set():
            await asyncio.sleep(0.02)
        service_thread.clear()
        await engine.stop()
        await service.close()
        connection.close()

    async def load() -> None:
        async with Client(bus.address) as client:
            await client.call("Pause")
            for n in range(300):
                await client.speak(("word " * 20_000)[:100_000] if n % 20 == 0 else "Hello.")
            await client.call("Resume")
            await asyncio.sleep(1.0)
            await client.call("AbortAll")
            await client.finished(300)

    # dbus-fast and asyncio look the method up in the class.
    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        asyncio.run(load())
    finally:
        over.set()
        thread.join(20)
    assert len(worst) > 600
    spent, what = max(worst)
    assert spent < 0.02, what


# --- texts ------------------------------------------------------------------------------------------------

CORPUS = [
    "\u202eright to left \u05e9\u05dc\u05d5\u05dd \u0627\u0644\u0633\u0644\u0627\u0645",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 500,
    "\u200b\u2060\ufeff" * 1000,
    "<speak>" * 5000 + "hello" + "</speak>" * 5000,
    "<break time='10s'/>" * 3000,
    "e\u0301" * 10_000 + "a" + "\u0301" * 10_000,
    "word" * 20_000,
    "1234567890" * 5000,
    ". " * 20_000,
    "\u4f60\u597d" * 5000,
    "\x01\x02\x7f\x85\u2028\u2029",
    "\U0010ffff\ufffe\uffff\ue000",
    '{"a": [' * 5000,
    "%s%n%x" * 1000 + "../../../etc/passwd $(reboot) `id`",
]


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One daemon for many texts."""
    from integration.conftest import _bus
    from integration.harness import running

    rig = make_exact_rig(tmp_path_factory.mktemp("texts") / "rig")
    config = "[engine]\nmax_text_bytes = 2000000\n"
    for private in _bus(system=False):
        folder = tmp_path_factory.mktemp("daemon")
        with running(
            System(private, folder, engine="scripted:frames=2", config=config, env=rig.env)
        ) as system:
            yield system


def say_all(system: System, texts: list[str]) -> None:
    """Each text is spoken or refused as InvalidText; an abort ends it at once."""

    refused: list[str] = []

    async def test(client: Client) -> None:
        for text in texts:
            try:
                utterance = await client.speak(text)
            except CallFailed as error:
                refused.append(error.name)
                continue
            if len(text) > 1000:
                await asyncio.sleep(0.05)
                await client.call("Abort", "t", utterance)
            assert await client.finished(utterance) in ("completed", "aborted", "limit")

    with_client(system, test)
    assert set(refused) <= {"org.edgettsd.Error.InvalidText"}


def test_texts_that_have_broken_other_programs(speaking: System) -> None:
    say_all(speaking, CORPUS)


def test_a_paragraph_of_a_hundred_thousand_words(speaking: System) -> None:
    say_all(speaking, ["word " * 100_000])


@settings(
    max_examples=500 if os.environ.get("EDGETTSD_LONG") else 15,
    derandomize=not os.environ.get("EDGETTSD_LONG"),
)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=6))
def test_any_text(speaking: System, texts: list[str]) -> None:
    say_all(speaking, texts)


def test_a_path_in_a_text_or_an_option_is_never_opened(speaking: System, tmp_path: Path) -> None:
    """There is no option that names a file; a text is only ever spoken."""
    target = tmp_path / "written"
    done = subprocess.run(
        [
            "busctl",
            f"--address={speaking.bus.address}",
            "call",
            "org.edgettsd.Speech1",
            "/org/edgettsd/Speech1",
        ]
        + ["org.edgettsd.Speech1", "Speak", "sa{sv}", f"file://{target}", "1", "file", "s", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "file" in done.stderr and "allowed" in done.stderr
    say_all(speaking, [f"file://{target}"])
    assert not target.exists()


def test_a_device_that_another_program_has_is_told_by_name(start: Start, tmp_path: Path) -> None:
    rig = make_paced_rig(tmp_path / "rig", speed=8)
    system = start(engine="scripted:frames=3", env=rig.env)

    async def test(client: Client) -> None:
        with (tmp_path / "rig" / "device.lock").open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            began = time.monotonic()
            utterance = await client.speak("Hello.")
            assert await client.finished(utterance) == "device"
            assert time.monotonic() - began < 1
            stats = client.of("Finished", utterance)[0][2]
            assert stats["error"].value == "org.edgettsd.Error.DeviceBusy"
            assert stats["detail"].value == os.strerror(errno.EBUSY)
            assert await client.get("State") == "idle"
        again = await client.speak("Hello.")
        assert await client.finished(again) == "completed"
        assert rig.heard() == with_tail(sound(3))

    with_client(system, test)
