"""The bus name is taken before the model is loaded: an activation waits 25 s, a model may take longer."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest
from dbus_fast import Variant
from integration.harness import SECONDS, Client, System, environment, until, with_client

from edgettsd.bus import BUS_NAME
from edgettsd.engine import scripted

FAKE = '[audio]\nsink = "fake"\n'


def slow(bus, folder, seconds: float, *more: str) -> System:
    """A daemon whose model takes `seconds` to load, once its name is on the bus."""
    script = ",".join([f"load_us={round(seconds * 1e6)}", *more])
    system = System(bus, folder, engine=f"scripted:{script}", config=FAKE, wait=False)
    until(lambda: bus.busctl("status", BUS_NAME).returncode == 0, "the name")
    return system


def test_speech_is_accepted_while_the_model_loads(bus, folder):
    system = slow(bus, folder, 3)

    async def body(client: Client) -> None:
        assert await client.get("State") == "starting"
        assert await client.get("SampleRate") == 24_000
        assert [voice["id"].value for voice in await client.call("ListVoices")] == ["fake"]
        first, second = await client.speak(), await client.speak(client_bound=Variant("b", True))
        assert await client.get("QueueLength") == 2
        assert "READY=1" not in system.notifications()
        assert [await client.finished(first), await client.finished(second)] == ["completed"] * 2
        assert await client.get("State") == "idle"
        told = [body[1] for name, body in client.signals if name == "PropertiesChanged"]
        states = [changed["State"].value for changed in told if "State" in changed]
        assert states[-1] == "idle"

    with_client(system, body)
    lines = system.notifications()
    assert lines.index("STATUS=Loading the model") < lines.index("READY=1")
    assert system.stop() == 0
    assert "Traceback" not in system.log


def test_a_model_that_cannot_be_loaded_ends_the_daemon_and_what_waits(bus, folder):
    system = slow(bus, folder, 2, "load_fails=1")

    async def body(client: Client) -> None:
        number = await client.speak()
        assert await client.finished(number) == "error"
        ((_, _, stats),) = client.of("Finished", number)
        assert "scripted failure" in stats["detail"].value

    with_client(system, body)
    until(lambda: system.process.poll() is not None, "the daemon to end")
    assert system.stop() == 3
    assert "ModelInvalid" in system.log
    assert any(line.startswith("STATUS=ModelInvalid") for line in system.notified)
    assert "READY=1" not in system.notified


def test_a_sound_file_that_cannot_be_written_is_told_as_such(bus, folder):
    config = '[audio]\nsink = "file"\ndevice = "/nonexistent/x.wav"\n'
    system = System(bus, folder, engine="scripted", config=config, wait=False)
    until(lambda: system.process.poll() is not None, "the daemon to end")
    assert system.stop() == 2
    assert "[audio] device: [Errno 2] No such file or directory: '/nonexistent/x.wav'" in system.log
    assert any(line.startswith("STATUS=[audio] device") for line in system.notified)
    assert "Traceback" not in system.log and "model" not in system.log.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_does_not_wait_for_the_model(bus, folder, number):
    system = slow(bus, folder, 60)

    async def body(client: Client) -> None:
        utterance = await client.speak()
        system.process.send_signal(number)
        assert await client.finished(utterance) == "aborted"

    begun = time.monotonic()
    with_client(system, body)
    assert system.stop(number) == 0
    assert time.monotonic() - begun < 5
    assert "Traceback" not in system.log


def test_a_second_daemon_does_not_load_a_model(bus, folder):
    system = slow(bus, folder, 60)
    other = folder / "other"
    other.mkdir()
    second = System(bus, other, engine="scripted:load_us=60000000", config=FAKE, wait=False)
    until(lambda: second.process.poll() is not None, "the second one to end")
    assert second.stop() == 4
    assert "Loading the model" not in second.notified
    assert system.stop() == 0


def test_a_lost_bus_ends_a_daemon_that_loads(bus, folder):
    system = slow(bus, folder, 60)
    bus.process.kill()
    until(lambda: system.process.poll() is not None, "the daemon to end")
    assert system.stop() == 5


def test_activation_does_not_wait_for_the_model(bus, folder):
    launcher = folder / "launch"
    launcher.write_text(
        f"#!/bin/sh\nexec {sys.executable} -m edgettsd --config {folder}/none.toml"
        f" --bus-address {bus.address} --engine scripted:load_us=60000000 --sink fake\n"
    )
    (folder / "none.toml").write_text("")
    launcher.chmod(0o755)
    (bus.services / f"{BUS_NAME}.service").write_text(f"[D-BUS Service]\nName={BUS_NAME}\nExec={launcher}\n")
    path = environment()["PYTHONPATH"]
    target = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
    for key, value in (("PYTHONPATH", path), ("PYTHONSAFEPATH", "1")):
        bus.busctl("call", *target, "UpdateActivationEnvironment", "a{ss}", "1", key, value)
    bus.busctl("call", *target, "ReloadConfig")
    begun = time.monotonic()
    done = bus.call("Speak", "sa{sv}", "hello", "0")
    assert done.stdout == "t 1\n", done.stderr
    assert time.monotonic() - begun < SECONDS
    done = bus.busctl("call", *target, "GetConnectionUnixProcessID", "s", BUS_NAME)
    os.kill(int(done.stdout.split()[1]), signal.SIGTERM)


def test_the_scripts_of_a_start():
    assert scripted.parse("load_us=5,load_fails=1") == scripted.parse("") | {"load_us": 5, "load_fails": 1}
