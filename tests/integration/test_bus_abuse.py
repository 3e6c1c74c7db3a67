"""Callers that send nonsense, too much or too often do not harm the daemon."""

from __future__ import annotations

import asyncio
import random

import pytest
from dbus_fast import Variant
from integration.harness import CallFailed, Client

from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES

VALUES = {
    "s": ["", "x", "beta", "a" * 1000, "fake:error", "💣"],
    "t": [0, 1, 2**64 - 1],
    "u": [0, 2**32 - 1],
    "i": [-1, 5],
    "d": [0.0, -1.0, float("nan"), float("inf"), 1e300],
    "b": [True, False],
    "ay": [b"", b"xyz"],
    "as": [[], ["a"]],
    "(si)": [("x", 1)],
    "v": [Variant("s", "x"), Variant("v", Variant("u", 1))],
    "a{sv}": [{}, {"voice": Variant("s", "alpha")}, {"": Variant("ay", b"")}, {"seed": Variant("d", 0.0)}],
}
KEYS = ["voice", "volume", "seed", "priority", "format", "interrupt", "client_bound", "x"]


def options(rng: random.Random) -> dict[str, Variant]:
    chosen = {}
    for key in rng.sample(KEYS, rng.randrange(4)):
        signature = rng.choice([s for s in VALUES if s != "v"])
        chosen[key] = Variant(signature, rng.choice(VALUES[signature]))
    return chosen


def test_random_calls_are_answered_and_do_no_harm(system):
    """Each is answered with a result or an error, and the daemon still speaks afterwards."""
    rng = random.Random(20)
    members = [
        "Speak",
        "SynthesizeToFd",
        "Abort",
        "AbortAll",
        "Pause",
        "Resume",
        "Hold",
        "ResumeAll",
        "ListVoices",
        "Get",
        "Set",
        "X",
    ]

    async def body() -> None:
        refused: list[str] = []
        async with Client(system.bus.address) as client:
            for _ in range(600):
                if rng.random() < 0.3:
                    signature, arguments = "sa{sv}", ["fake:seconds=0.1", options(rng)]
                    member = "Speak"
                else:
                    signatures = rng.choices(list(VALUES), k=rng.randrange(4))
                    signature, arguments = "".join(signatures), [rng.choice(VALUES[s]) for s in signatures]
                    member = rng.choice(members)
                interface = rng.choice([INTERFACE, INTERFACE, PROPERTIES])
                try:
                    await client.call_raw(BUS_NAME, OBJECT_PATH, interface, member, signature, arguments)
                except CallFailed as error:
                    refused.append(f"{error}: {member} {signature} {arguments}")
            await client.call("ResumeAll")
            await client.call("AbortAll")
            assert await client.finished(await client.speak("still there?")) == "completed"
        assert len(refused) > 200
        assert [text for text in refused if "internal error" in text] == []

    asyncio.run(body())


def test_an_enormous_text_is_refused(system):
    async def body() -> None:
        async with Client(system.bus.address) as client:
            with pytest.raises(
                CallFailed, match="20000000 bytes of UTF-8; at most 100000 are allowed"
            ) as caught:
                await client.speak("a" * 20_000_000)
            assert caught.value.name == "org.edgettsd.Error.InvalidText"

    asyncio.run(body())


def test_speak_and_abort_many_times_leaves_nothing_behind(system):
    async def body() -> None:
        async with Client(system.bus.address) as client:

            async def pairs(count: int) -> None:
                for n in range(count):
                    utterance = await client.speak("fake:seconds=100", client_bound=Variant("b", n % 2 == 0))
                    assert await client.call("Abort", "t", utterance) is True
                    assert await client.finished(utterance) == "aborted"
                    assert len(client.of("Finished", utterance)) == 1

            await pairs(20)
            before = system.fd_count(), system.resident_kb()
            await pairs(300)
            after = system.fd_count(), system.resident_kb()
            assert after[0] == before[0]
            assert after[1] - before[1] < 1024, f"{before} -> {after}"

    asyncio.run(body())


def test_a_flood_of_calls_is_answered_in_order(system):
    async def body() -> None:
        async with Client(system.bus.address) as client:
            await client.call("Pause")
            for start in range(0, 2000, 100):  # The bus itself allows 128 open calls.
                calls = [client.call("Abort", "t", n) for n in range(start, start + 100)]
                answers = await asyncio.gather(*calls, return_exceptions=True)
                numbers = [str(answer).split()[1] for answer in answers if isinstance(answer, CallFailed)]
                assert numbers == [f"{n}:" for n in range(start, start + 100)]
            await client.call("Resume")

    asyncio.run(body())
