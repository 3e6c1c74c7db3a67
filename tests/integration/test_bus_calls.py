"""Every member of the interface, on a private bus, with the scripted engine."""

from __future__ import annotations

import asyncio
import os

import pytest
from dbus_fast import Variant
from integration.harness import Client, refused, with_client

from edgettsd import __version__
from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES

ERROR = "org.edgettsd.Error."


def test_speak_is_answered_started_and_finished_once(system):
    async def test(c: Client) -> None:
        first, second = await c.speak("one two three"), await c.speak("four", voice=Variant("s", "beta"))
        assert (first, second) == (1, 2)
        assert await c.finished(second) == "completed"
        assert await c.finished(first) == "completed"
        await c.until(lambda: ("State", "idle") in changes(c), "State idle")
        order = [(name, body[0]) for name, body in c.signals if name in ("Started", "Finished")]
        assert order == [("Started", 1), ("Finished", 1), ("Started", 2), ("Finished", 2)]
        assert c.of("Started", 2)[0][1]["voice"].value == "beta"
        stats = c.of("Finished", 1)[0][2]
        assert stats["frames"].signature == "t"
        assert stats["audio_seconds"].value == pytest.approx(stats["frames"].value * 0.08)

    with_client(system, test)


def changes(client: Client) -> list[tuple[str, object]]:
    """Every (property, value) of the PropertiesChanged signals, in order."""
    result = []
    for name, body in client.signals:
        if name == "PropertiesChanged":
            assert body[0] == INTERFACE
            assert body[2] == []
            result += [(key, value.value) for key, value in body[1].items()]
    return result


def test_properties_and_their_changes(system):
    async def test(c: Client) -> None:
        (everything,) = await c.call_raw(BUS_NAME, OBJECT_PATH, PROPERTIES, "GetAll", "s", [INTERFACE])
        assert {k: (v.signature, v.value) for k, v in everything.items()} == {
            "State": ("s", "idle"),
            "Active": ("t", 0),
            "QueueLength": ("u", 0),
            "Model": ("s", "fake"),
            "SampleRate": ("u", 24000),
            "Problems": ("as", []),
            "Version": ("s", __version__),
        }
        ids = [await c.speak("fake:seconds=2") for _ in range(3)]
        assert await c.get("QueueLength") == 2
        assert await c.get("Active") == ids[0]
        for utterance in ids:
            await c.finished(utterance)
        seen = await c.until(lambda: ("State", "idle") in changes(c) and changes(c), "idle")
        assert [value for key, value in seen if key == "State"] == ["speaking", "idle"]
        assert [value for key, value in seen if key == "Active"] == [1, 2, 3, 0]
        assert max(value for key, value in seen if key == "QueueLength") == 2
        assert not {"Model", "SampleRate", "Version"} & {key for key, _ in seen}

    with_client(system, test)


def test_pause_and_resume(system):
    async def test(c: Client) -> None:
        utterance = await c.speak("fake:seconds=10")
        assert await c.call("Pause") is None
        assert await c.get("State") == "paused"
        await asyncio.sleep(0.7)
        assert not c.of("Finished", utterance)
        assert await c.call("Resume") is None
        assert await c.finished(utterance) == "completed"

    with_client(system, test)


def test_only_the_owner_may_abort(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as other:
            utterance = await c.speak("fake:seconds=100")
            name, text = await refused(other.call("Abort", "t", utterance))
            assert name == ERROR + "NotFound"
            assert str(utterance) in text
            assert await c.call("Abort", "t", utterance) is True
            assert await c.finished(utterance) == await other.finished(utterance) == "aborted"
            assert await c.call("Abort", "t", utterance) is False
            assert (await refused(c.call("Abort", "t", 77)))[0] == ERROR + "NotFound"

    with_client(system, test)


def test_abort_all_ends_everybodys(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as other:
            ids = [await c.speak("fake:seconds=100"), await other.speak(), await c.speak()]
            assert await other.call("AbortAll") == 3
            assert [await c.finished(i) for i in ids] == ["aborted"] * 3
            assert await other.call("AbortAll") == 0

    with_client(system, test)


def test_interrupt_replaces(system):
    async def test(c: Client) -> None:
        ids = [await c.speak("fake:seconds=100"), await c.speak()]
        new = await c.speak("now", interrupt=Variant("b", True))
        assert [await c.finished(i) for i in (*ids, new)] == ["replaced", "replaced", "completed"]

    with_client(system, test)


def test_a_dropped_notification_has_an_id_and_one_finished(system):
    async def test(c: Client) -> None:
        await c.speak("fake:seconds=2")
        dropped = await c.speak("ping", priority=Variant("s", "notification"))
        assert await c.finished(dropped) == "replaced"
        assert not c.of("Started", dropped)

    with_client(system, test)


def test_two_clients_are_spoken_whole_and_in_order(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as other:
            ids = []
            for _ in range(5):
                ids += [await c.speak("fake:seconds=0.4"), await other.speak("fake:seconds=0.4")]
            assert ids == list(range(1, 11))
            await c.finished(ids[-1])
        order = [body for name, body in c.signals if name == "Finished"]
        assert [(b[0], b[1], b[2]["frames"].value) for b in order] == [(i, "completed", 5) for i in ids]

    with_client(system, test)


def test_list_voices(system, start):
    async def test(c: Client) -> None:
        voices = await c.call("ListVoices")
        assert [{k: v.signature for k, v in voice.items()} for voice in voices] == [
            {"id": "s", "languages": "as", "description": "s", "default": "b"}
        ] * 2
        assert [(v["id"].value, v["languages"].value, v["default"].value) for v in voices] == [
            ("alpha", ["english", "german"], True),
            ("beta", ["english"], False),
        ]

    with_client(system, test)


def test_the_configured_voice_is_the_default(start):
    async def test(c: Client) -> None:
        assert [v["default"].value for v in await c.call("ListVoices")] == [False, True]
        utterance = await c.speak()
        await c.started(utterance)
        assert c.of("Started", utterance)[0][1]["voice"].value == "beta"
        await c.finished(utterance)

    with_client(start(config='[engine]\nvoice = "beta"\n'), test)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"speed": Variant("d", 1.0)}, "InvalidOption", ["'speed'", "voice (s)", "max_seconds (d)"]),
        ({"format": Variant("s", "wav")}, "InvalidOption", ["'format'", "unknown"]),
        ({"volume": Variant("i", 1)}, "InvalidOption", ["volume = 1", '"i"', '"d"']),
        ({"volume": Variant("d", 9.0)}, "InvalidOption", ["volume = 9.0", "from 0 to 4"]),
        ({"voice": Variant("s", "gamma")}, "UnknownVoice", ["'gamma'", "alpha, beta"]),
        ({"seed": Variant("a{sv}", {"x": Variant("h", 0)})}, "InvalidOption", ["seed", '"a{sv}"', '"t"']),
    ],
)
def test_options_are_refused_with_what_is_allowed(system, options, error, words):
    async def test(c: Client) -> None:
        name, text = await refused(c.call("Speak", "sa{sv}", "hello", options))
        assert name == ERROR + error
        assert [word for word in words if word not in text] == []
        assert await c.speak() == 1, "a refused call takes no id"
        await c.finished(1)

    with_client(system, test)


def test_texts_are_limited(start):
    async def test(c: Client) -> None:
        assert await c.finished(await c.speak("a" * 50)) == "completed"
        name, text = await refused(c.speak("a" * 49 + "é"))
        assert name == ERROR + "InvalidText"
        assert "51 bytes" in text
        assert "at most 50" in text

    with_client(start(config="[engine]\nmax_text_bytes = 50\n"), test)


def test_the_queue_is_bounded(start):
    async def test(c: Client) -> None:
        async with Client(address) as other:
            ids = [await c.speak("fake:seconds=100") for _ in range(3)]
            name, text = await refused(c.speak())
            assert (name, "one caller is 2" in text) == (ERROR + "QueueFull", True)
            ids.append(await other.speak())
            name, text = await refused(other.speak())
            assert (name, "the limit is 3" in text) == (ERROR + "QueueFull", True)
            await c.call("AbortAll")
            assert [await c.finished(i) for i in ids] == ["aborted"] * 4

    system = start(config="[engine]\nqueue_limit = 3\nclient_limit = 2\n")
    address = system.bus.address
    with_client(system, test)


def test_a_bound_utterance_ends_with_its_client(system):
    async def test(c: Client) -> None:
        async with Client(system.bus.address) as leaving:
            bound = [
                await leaving.speak("fake:seconds=100", client_bound=Variant("b", True)) for _ in range(2)
            ]
            free = await leaving.speak("free")
            await c.started(bound[0])
        assert [await c.finished(i) for i in (*bound, free)] == ["aborted", "aborted", "completed"]

    with_client(system, test)


def test_a_client_that_leaves_at_once_is_noticed(system):
    async def test(c: Client) -> None:
        for utterance in range(1, 11):
            async with Client(system.bus.address) as leaving:
                assert await leaving.speak("fake:seconds=100", client_bound=Variant("b", True)) == utterance
            assert await c.finished(utterance) == "aborted"

    with_client(system, test)


def watches(system) -> int:
    """How many clients' leaving the bus has been asked to report."""
    bus = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats")
    done = system.bus.busctl("call", *bus, "GetAllMatchRules")
    assert done.returncode == 0, done.stderr
    return done.stdout.count("NameOwnerChanged")


def test_no_watch_of_a_client_is_left_behind(system):
    """Not even by an utterance that ends within the call."""
    bound = {"client_bound": Variant("b", True)}

    async def test(c: Client) -> None:
        playing = await c.speak("fake:seconds=10000", **bound)
        assert await asyncio.to_thread(watches, system) == 1
        assert await c.call("Abort", "t", playing) is True
        assert await c.finished(playing) == "aborted"
        assert await asyncio.to_thread(watches, system) == 0
        playing = await c.speak("fake:seconds=10000")
        dropped = await c.speak("x", **bound, priority=Variant("s", "notification"))
        assert await c.finished(dropped) == "replaced"
        assert await asyncio.to_thread(watches, system) == 0
        assert await c.call("AbortAll") == 1
        assert await c.finished(playing) == "aborted"

    with_client(system, test)


@pytest.mark.parametrize("audio_format", [None, "s16le", "wav"])
def test_synthesize_to_fd(system, audio_format):
    async def test(c: Client) -> None:
        reader, writer = os.pipe()
        options = {"format": Variant("s", audio_format)} if audio_format else {}
        utterance = await c.to_fd("fake:seconds=0.8", writer, **options)
        os.close(writer)
        with open(reader, "rb") as file:
            data = await asyncio.to_thread(file.read)
        assert await c.finished(utterance) == "completed"
        header = 44 if audio_format == "wav" else 0
        assert data[:4] == (b"RIFF" if header else b"\0\0\x41\0")
        assert len(data) == header + 10 * 1920 * 2

    with_client(system, test)


def test_a_closed_pipe_cancels(system):
    async def test(c: Client) -> None:
        reader, writer = os.pipe()
        utterance = await c.to_fd("fake:seconds=100", writer)
        os.close(writer)
        os.read(reader, 100)
        os.close(reader)
        assert await c.finished(utterance) == "aborted"

    with_client(system, test)


def test_descriptors_that_cannot_be_written_are_refused(system, tmp_path):
    async def test(c: Client) -> None:
        (tmp_path / "file").write_text("")
        for flags in (os.O_RDONLY, os.O_PATH):
            fd = os.open(tmp_path / "file", flags)
            name, text = await refused(c.to_fd("hello", fd))
            os.close(fd)
            assert name == ERROR + "InvalidOption"
            assert "not open for writing" in text
        name, text = await refused(c.call("SynthesizeToFd", "sha{sv}", "hello", 3, {}, fds=[1]))
        assert name == "org.freedesktop.DBus.Error.InvalidArgs"
        assert "index 3" in text
        name, _ = await refused(c.call("SynthesizeToFd", "sha{sv}", "hello", 0, {}))
        assert name == "org.freedesktop.DBus.Error.InvalidArgs"

    with_client(system, test)


def test_descriptors_are_closed_exactly_once_on_every_path(system):
    """Also those that come with calls which take none."""

    async def test(c: Client) -> None:
        reader, writer = os.pipe()

        async def a_round(n: int) -> None:
            kind = n % 5
            if kind == 0:
                await c.finished(await c.to_fd("", writer))
            elif kind == 1:
                await refused(c.to_fd("x", writer, volume=Variant("d", -1.0)))
            elif kind == 2:
                await refused(c.to_fd("x", reader))
            elif kind == 3:
                await c.finished(await c.call("Speak", "sa{sv}", "", {}, fds=[writer, reader]))
            else:
                await c.call_raw(BUS_NAME, OBJECT_PATH, "org.freedesktop.DBus.Peer", "Ping", fds=[reader])

        for n in range(20):
            await a_round(n)
        before = system.fd_count()
        for n in range(500):
            await a_round(n)
        assert system.fd_count() == before
        # The flags of the client's descriptor are its own.
        assert os.get_blocking(writer)
        os.set_blocking(reader, False)
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)  # The daemon has closed only its own copies.
        os.close(writer)
        assert os.read(reader, 1) == b""
        os.close(reader)

    with_client(system, test)
