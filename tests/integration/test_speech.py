"""The whole product: text over D-Bus, a converted checkpoint, and what the ALSA device played."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from audio_rigs import Rig, assert_same_sound, make_exact_rig, make_paced_rig, with_tail
from dbus_fast import Variant
from integration.harness import CallFailed, Client, PrivateBus, System, running
from model_files import bundle

RATE, SPF = 24_000, 1920
TEXT = "Good morning. The kettle is ready."

Start = Callable[..., System]


def options(rig: Rig, cache: Path) -> dict[str, Any]:
    """Arguments of a System: the tiny model on a rig."""
    text = f'[model]\npath = "{bundle()}"\n[audio]\ndevice = "{rig.pcm}"\n'
    return {"engine": "", "config": text, "env": {**rig.env, "XDG_CACHE_HOME": str(cache)}}


def speaker(start: Start, rig: Rig) -> System:
    """The daemon with the tiny model on a rig."""
    return start(**options(rig, cache=rig.capture.parent / "cache"))


def drive(system: System, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Client(system.bus.address) as client:
            await test(client)

    asyncio.run(main())


async def synthesize(client: Client, text: str, **options: Any) -> tuple[bytes, list[Any]]:
    """What SynthesizeToFd writes, and the body of Finished."""
    reader, writer = os.pipe()
    got: list[bytes] = []

    def read() -> None:
        with open(reader, "rb") as file:
            got.append(file.read())

    thread = threading.Thread(target=read)
    thread.start()
    utterance = await client.to_fd(text, writer, **options)
    os.close(writer)
    await client.finished(utterance)
    await asyncio.to_thread(thread.join)
    return got[0], client.of("Finished", utterance)[0]


def figures(body: list[Any]) -> dict[str, Any]:
    return {key: variant.value for key, variant in body[2].items()}


@pytest.fixture
def exact(tmp_path: Path) -> Rig:
    return make_exact_rig(tmp_path / "rig")


def test_ready_takes_less_than_two_seconds_of_work(bus: PrivateBus, exact: Rig, folder: Path) -> None:
    """Processor time of the daemon and of what it starts: on an idle machine about the time it takes."""

    def work() -> float:
        path = Path(tempfile.mkdtemp(dir=folder))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with running(System(bus, path, **options(exact, cache=path))):
            pass
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # The least of a few first starts: a compute thread that waits for a busy CPU spins.
    assert min(work() for _ in range(4)) < 2.0


def test_the_device_plays_what_a_descriptor_gets(start: Start, exact: Rig) -> None:
    system = speaker(start, exact)

    async def test(client: Client) -> None:
        options = {"seed": Variant("t", 7), "max_seconds": Variant("d", 4.0)}
        pcm, body = await synthesize(client, TEXT, **options)
        stats = figures(body)
        frames, pauses = stats["frames"], stats["sentences"] - 1
        assert frames > 10
        assert len(pcm) == 2 * (frames * SPF + pauses * RATE * 200 // 1000)
        assert len(set(pcm)) > 100, "silence"
        utterance = await client.speak(TEXT, **options)
        await client.finished(utterance)
        assert_same_sound(exact.heard(), with_tail(pcm))
        assert (await synthesize(client, TEXT, **options | {"seed": Variant("t", 8)}))[0] != pcm
        # Whatever was spoken in between, the seed gives the same codes.
        assert_same_sound((await synthesize(client, TEXT, **options))[0], pcm)

    drive(system, test)


def test_a_paced_device_plays_every_sample_before_finished(start: Start, tmp_path: Path) -> None:
    rig = make_paced_rig(tmp_path / "rig")
    system = speaker(start, rig)

    async def test(client: Client) -> None:
        options = {"seed": Variant("t", 3), "max_seconds": Variant("d", 2.0)}
        utterance = await client.speak("Hello.", **options)
        await client.finished(utterance)
        heard = rig.heard()
        stats = figures(client.of("Finished", utterance)[0])
        assert stats["underruns"] == rig.underruns() == 0
        pcm, _ = await synthesize(client, "Hello.", **options)
        assert len(pcm) == 2 * SPF * stats["frames"]
        # A render is cut into other chunks than speech for the device.
        assert_same_sound(heard, with_tail(pcm))

    drive(system, test)


def test_a_stereo_48_khz_device_gets_converted_sound(start: Start, tmp_path: Path) -> None:
    rig = make_paced_rig(tmp_path / "rig", rate=48_000, channels=2, sample_format="S32_LE", speed=4.0)
    system = speaker(start, rig)

    async def test(client: Client) -> None:
        utterance = await client.speak("Hello.", max_seconds=Variant("d", 2.0))
        await client.finished(utterance)
        frames = figures(client.of("Finished", utterance)[0])["frames"]
        # A loud end fades for 5 ms more.
        assert len(rig.heard()) // 16 in (frames * SPF, frames * SPF + 120)

    drive(system, test)


def test_two_clients_at_once_are_played_whole_and_in_order(start: Start, exact: Rig) -> None:
    system = speaker(start, exact)

    async def test(client: Client) -> None:
        async with Client(system.bus.address) as other:
            options = {"max_seconds": Variant("d", 1.5)}
            one = {**options, "seed": Variant("t", 1)}
            two = {**options, "seed": Variant("t", 2), "voice": Variant("s", "aiden")}
            expected = [(await synthesize(client, "First.", **one))[0]]
            expected.append((await synthesize(client, "Second.", **two))[0])
            ids = await asyncio.gather(client.speak("First.", **one), other.speak("Second.", **two))
            await client.finished(max(ids))
            if ids[0] > ids[1]:
                expected.reverse()
            assert [body[0] for name, body in client.signals if name == "Finished"][-2:] == sorted(ids)
            assert_same_sound(exact.heard(), b"".join(with_tail(pcm) for pcm in expected))

    drive(system, test)


def test_abort_is_silent_within_100_ms_and_the_next_speaks(start: Start, tmp_path: Path) -> None:
    rig = make_paced_rig(tmp_path / "rig")
    system = speaker(start, rig)

    async def test(client: Client) -> None:
        utterance = await client.speak("word " * 200)
        await client.started(utterance)
        await asyncio.sleep(0.4)
        made = json.loads(await client.call("Stats"))["frames_generated"]
        asked = time.monotonic_ns()
        assert await client.call("Abort", "t", utterance)
        assert await client.finished(utterance) == "aborted"
        # Frames that were on their way when the call was made count too; none is made after the silence.
        after = json.loads(await client.call("Stats"))["frames_generated"]
        assert made <= after <= made + 12
        drops = [event for event in rig.events("DROP") if event.ns >= asked]
        assert drops and drops[0].ns - asked < 100e6
        heard = len(rig.heard())
        await asyncio.sleep(0.15)
        assert len(rig.heard()) == heard
        assert json.loads(await client.call("Stats"))["frames_generated"] == after
        following = await client.speak("Hello.", max_seconds=Variant("d", 1.0))
        assert await client.finished(following) in ("completed", "limit")
        assert len(rig.heard()) > heard

    drive(system, test)


def test_what_the_model_cannot_do_is_refused_with_the_allowed_list(start: Start, exact: Rig) -> None:
    system = speaker(start, exact)

    async def refused(client: Client, **options: Any) -> CallFailed:
        with pytest.raises(CallFailed) as caught:
            await client.speak("Hello.", **options)
        return caught.value

    async def test(client: Client) -> None:
        error = await refused(client, voice=Variant("s", "nobody"))
        assert error.name == "org.edgettsd.Error.UnknownVoice"
        assert "nobody" in str(error) and "serena" in str(error)
        error = await refused(client, language=Variant("s", "klingon"))
        assert error.name == "org.edgettsd.Error.InvalidOption"
        assert "klingon" in str(error) and "english" in str(error)
        error = await refused(client, colour=Variant("s", "red"))
        assert error.name == "org.edgettsd.Error.InvalidOption"
        assert "colour" in str(error) and "voice" in str(error)
        error = await refused(client, seed=Variant("s", "7"))
        assert error.name == "org.edgettsd.Error.InvalidOption"
        voices = {v["id"].value for v in await client.call("ListVoices")}
        assert {"serena", "ryan"} <= voices
        assert await client.get("SampleRate") == RATE

    drive(system, test)


def test_nothing_to_say_makes_no_sound(start: Start, exact: Rig) -> None:
    system = speaker(start, exact)

    async def test(client: Client) -> None:
        for text in ("", "  ", "?! ...", "\u2603\ufe0f"):
            assert await client.finished(await client.speak(text)) == "completed"
        assert exact.heard() == b""

    drive(system, test)


def test_two_hundred_speak_abort_pairs_leak_nothing(start: Start, exact: Rig) -> None:
    system = speaker(start, exact)

    def resident() -> int:
        with open(f"/proc/{system.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async def test(client: Client) -> None:
        early = None
        # The compute threads come with the first frames, and with them the descriptors of their run times.
        await client.finished(await client.speak("Hello.", max_seconds=Variant("d", 1.0)))
        for n in range(200):
            utterance = await client.speak("word " * 50)
            if n % 4 == 0:
                await asyncio.sleep(0.003 * (n % 8))
            await client.call("Abort", "t", utterance)
            await client.finished(utterance)
            if n == 30:
                early = system.fd_count(), resident()
        assert early is not None
        assert system.fd_count() == early[0]
        assert resident() - early[1] < 8 << 20

    drive(system, test)


def test_sigterm_in_mid_speech_ends_cleanly(bus: PrivateBus, tmp_path: Path, folder: Path) -> None:
    rig = make_paced_rig(tmp_path / "rig")
    system = System(bus, folder, **options(rig, cache=folder))

    async def test(client: Client) -> None:
        utterance = await client.speak("word " * 200)
        await client.started(utterance)
        assert await asyncio.to_thread(system.stop) == 0
        assert await client.finished(utterance) == "aborted"

    drive(system, test)
    assert "STOPPING=1" in system.notifications()
    assert "Traceback" not in system.log
