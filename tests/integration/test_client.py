"""The client that edgettsctl and the gateways share, against the real daemon."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from integration.harness import Client, PrivateBus, System, until

from edgettsd.client import RefusedError, UnreachableError, connect, render
from edgettsd.engine._api import Reason

TEXT = "Good morning. The kettle is ready."


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def test_a_render_gives_every_sample_and_its_end(system: System) -> None:
    async def test() -> None:
        pieces = []
        async with render(False, system.bus.address, TEXT, {"seed": 7, "voice": None}) as speech:
            assert speech.sample_rate == 24000
            pieces = [piece async for piece in speech]
            reason, stats = await speech.finished()
            info = speech.started()
        assert reason is Reason.COMPLETED
        assert info is not None and info["voice"]
        assert all(len(piece) % 2 == 0 and piece for piece in pieces)
        assert sum(map(len, pieces)) == round(stats["audio_seconds"] * speech.sample_rate) * 2 > 0

    run(test)


def test_leaving_early_aborts(start: Callable[..., System]) -> None:
    system = start(engine="fake:1")

    async def test() -> None:
        async with Client(system.bus.address) as witness:
            async with render(False, system.bus.address, "One sentence. " * 40, {}) as speech:
                async for _ in speech:
                    break
            assert await witness.finished(speech.utterance) == "aborted"

    run(test)


def test_a_refused_option_names_the_daemons_error(system: System) -> None:
    async def test() -> None:
        counts = []
        for _ in range(5):
            with pytest.raises(RefusedError) as caught:
                async with render(False, system.bus.address, TEXT, {"volume": 9.0}):
                    pass
            assert caught.value.name == "InvalidOption" and "volume" in str(caught.value)
            # The bus connection is closed by the loop's next round.
            await asyncio.sleep(0.05)
            counts.append(len(os.listdir("/proc/self/fd")))
        assert counts == counts[:1] * 5

    run(test)


def test_without_a_daemon_or_a_bus_it_is_unreachable(bus: PrivateBus, folder: Path) -> None:
    async def test() -> None:
        for address in (bus.address, f"unix:path={folder}/none"):
            with pytest.raises(UnreachableError):
                async with connect(False, address) as daemon:
                    await daemon.call("AbortAll")

    run(test)


@pytest.mark.parametrize("late", [False, True])
def test_a_daemon_that_dies_ends_the_render(bus: PrivateBus, folder: Path, late: bool) -> None:
    """Also where its end was told before anybody waited for that of the utterance."""
    system = System(bus, folder, engine="fake:1")

    async def test() -> None:
        with pytest.raises(UnreachableError):
            async with render(False, bus.address, "One sentence. " * 40, {}) as speech:
                async for _ in speech:
                    system.process.kill()
                if late:
                    await asyncio.sleep(0.5)
                await asyncio.wait_for(speech.finished(), 10)

    run(test)
    until(lambda: system.process.poll() is not None, "the daemon's end")
