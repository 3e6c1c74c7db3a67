"""Pauses over the bus: each belongs to its caller, and several of them count."""

from __future__ import annotations

import asyncio
import json

import pytest
from dbus_fast import Variant
from integration.harness import Client, until, with_client
from integration.test_bus_calls import watches

# The scripted engine, and the real one over scripted kernels.
ENGINES = ("fake:20", "scripted:frames=50")
SOUND = '[audio]\nsink = "fake"\n'


async def paused_by(client: Client) -> list[str]:
    """Stats' list of owners."""
    owners: list[str] = json.loads(await client.call("Stats"))["paused_by"]
    return owners


@pytest.fixture(params=ENGINES)
def system(request, start):
    return start(engine=request.param, config=SOUND)


def test_speech_goes_on_when_the_connection_that_paused_has_left(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as leaving:
            await leaving.call("Pause")
            assert await paused_by(c) == [leaving.bus.unique_name]
            utterance = await c.speak("Hello. fake:seconds=2")
            assert await c.get("State") == "paused"
            await asyncio.sleep(0.3)
            assert not c.of("Started", utterance)
        assert await c.finished(utterance) == "completed"
        assert await paused_by(c) == []

    with_client(system, test)


def test_one_that_pauses_and_leaves_at_once_is_noticed(system):
    async def test(c: Client) -> None:
        for _ in range(10):
            async with Client(system.bus.address) as leaving:
                await leaving.call("Pause")
            assert await c.finished(await c.speak("Hello. fake:seconds=0.1")) == "completed"

    with_client(system, test)


def test_pauses_of_several_callers_count(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as one, Client(system.bus.address) as other:
            for caller in (one, other, one):
                await caller.call("Pause")
            utterance = await c.speak("Hello. fake:seconds=0.4")
            await one.call("Resume")
            await c.call("Resume")
            assert await paused_by(c) == [other.bus.unique_name]
            assert await c.get("State") == "paused"
            await other.call("Resume")
            assert await c.finished(utterance) == "completed"

    with_client(system, test)


def test_a_held_pause_outlives_its_caller_until_anybody_resumes(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as leaving:
            await leaving.call("Hold")
        utterance = await c.speak("Hello. fake:seconds=0.4")
        # A pause of one's own begins and ends without touching it.
        await c.call("Pause")
        await c.call("Resume")
        assert await paused_by(c) == [""]
        await asyncio.sleep(0.2)
        assert not c.of("Started", utterance)
        async with Client(system.bus.address) as other:
            await other.call("Resume")
        assert await c.finished(utterance) == "completed"

    with_client(system, test)


def test_resume_all_ends_everybodys(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as other:
            await other.call("Pause")
            await c.call("Pause")
            await c.call("Hold")
            utterance = await c.speak("Hello. fake:seconds=0.4")
            assert await c.call("ResumeAll") == 3
            assert await c.finished(utterance) == "completed"
            assert await c.call("ResumeAll") == 0
            assert await c.call("Resume") is None, "without any pause: nothing happens"

    with_client(system, test)


def test_callers_are_watched_as_long_as_they_hold_something(system):
    async def test(c: Client) -> None:
        await c.call("Pause")
        bound = await c.speak("Hello. fake:seconds=9", client_bound=Variant("b", True))
        assert await asyncio.to_thread(watches, system) == 1
        await c.call("Resume")
        assert await asyncio.to_thread(watches, system) == 1
        await c.call("Pause")
        await c.call("Abort", "t", bound)
        assert await c.finished(bound) == "aborted"
        assert await asyncio.to_thread(watches, system) == 1
        await c.call("ResumeAll")
        assert await asyncio.to_thread(watches, system) == 0
        await c.call("Hold")
        assert await asyncio.to_thread(watches, system) == 0

    with_client(system, test)


def test_the_command_line_pauses_for_good_and_tells_who_else_does(system):
    assert system.ctl("pause").returncode == 0
    assert b"paused   by edgettsctl pause\n" in system.ctl("status").stdout
    assert b"edgettsctl pause" in system.ctl("stats").stdout

    async def test(c: Client) -> None:
        await c.call("Pause")
        await asyncio.to_thread(others)

    def others() -> None:
        done = system.ctl("resume")
        assert done.returncode == 0
        assert b"still paused by :1." in done.stdout and b"resume --all" in done.stdout
        by = json.loads(system.ctl("status", "--json").stdout)["paused_by"]
        assert len(by) == 1 and by[0].startswith(":1.") and "process" in by[0]
        assert system.ctl("resume", "--all").stdout == b""
        assert b"state    idle" in system.ctl("status").stdout

    with_client(system, test)
    until(lambda: b"paused" not in system.ctl("status").stdout, "the pause to end")
