"""The daemon's life: ready, watchdog, stop, and the ways in which it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from integration.harness import SECONDS, Client, PrivateBus, System, environment, until

from edgettsd import __version__
from edgettsd.models import default

DBUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")


def ended(system: System) -> int:
    """Exit status of a daemon that ends by itself."""
    until(lambda: system.process.poll() is not None, "the daemon to end")
    return system.stop()


def test_ready_is_notified_after_the_name_is_owned(system):
    lines = system.notifications()
    assert lines.index("STATUS=Loading the model") < lines.index("READY=1")
    assert "STATUS=Ready: fake at 24000 Hz" in lines
    owned = system.bus.busctl("status", "org.edgettsd.Speech1")
    assert f"PID={system.process.pid}" in owned.stdout
    assert f"ready: version {__version__}, model fake, 24000 Hz" in system.log


def test_an_abstract_notify_socket(bus, folder):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        name = f"edgettsd-test-{os.getpid()}"
        receiver.bind("\0" + name)
        receiver.settimeout(SECONDS)
        system = System(bus, folder, env={"NOTIFY_SOCKET": "@" + name}, wait=False)
        while b"READY=1" not in receiver.recv(4096):
            pass
        assert system.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_everything_and_stops(bus, folder, number):
    system = System(bus, folder)

    async def body() -> None:
        async with Client(system.bus.address) as client:
            ids = [await client.speak("fake:seconds=100") for _ in range(3)]
            reader, writer = os.pipe()
            ids.append(await client.to_fd("fake:seconds=100", writer))
            os.close(writer)
            await client.started(ids[0])
            began = time.monotonic()
            system.process.send_signal(number)
            assert [await client.finished(utterance) for utterance in ids] == ["aborted"] * 4
            assert await asyncio.to_thread(os.read, reader, 1) == b""
            os.close(reader)
            assert await asyncio.to_thread(system.process.wait, SECONDS) == 0
            assert time.monotonic() - began < 5
            assert [len(client.of("Finished", utterance)) for utterance in ids] == [1] * 4

    asyncio.run(body())
    assert system.stop() == 0
    assert "Traceback" not in system.log
    lines = system.notified
    assert lines[lines.index("STOPPING=1") + 1] == "STATUS=Stopping"


def test_signal_while_a_client_waits_for_the_name(bus, folder):
    """A stop right at the start is as clean as one later."""
    for delay in (0.0, 0.1, 0.2, 0.3):
        subfolder = folder / str(delay)
        subfolder.mkdir()
        system = System(bus, subfolder, wait=False)
        time.sleep(delay)
        status = system.stop()
        # Before the handlers are there the signal itself ends the process.
        assert status in (0, -signal.SIGTERM), system.log


def test_the_watchdog_is_fed(start):
    """That it is fed at half its time, to the millisecond, is shown in made-up time by the unit tests."""
    system = start(watchdog=0.4)
    system.wait_for("WATCHDOG=1")
    began, before = time.monotonic(), system.notifications().count("WATCHDOG=1")
    until(lambda: system.notifications().count("WATCHDOG=1") >= before + 5, "five more")
    # Late it may be where the machine is busy, but not early.
    assert time.monotonic() - began > 0.7


def test_the_watchdog_starves_when_the_engine_stalls(start):
    system = start(watchdog=0.2)
    system.wait_for("WATCHDOG=1")
    assert system.bus.call("Speak", "sa{sv}", "fake:stall", "0").returncode == 0
    until(lambda: "the engine makes no progress" in system.log, "the log message")
    # What was sent before that line has arrived; it is looked for over five more of its times.
    before = system.notifications().count("WATCHDOG=1")
    time.sleep(0.5)
    assert system.notifications().count("WATCHDOG=1") == before
    # The daemon still answers meanwhile: it is the feeding that stopped, not the loop.
    assert system.bus.call("ListVoices").returncode == 0
    assert system.notifications().count("WATCHDOG=1") == before


def test_without_a_watchdog_nothing_is_fed(start):
    system = start(env={"WATCHDOG_PID": "1"}, watchdog=0.1)
    time.sleep(0.5)
    assert "WATCHDOG=1" not in system.notifications()


def test_a_second_daemon_fails_with_a_clear_message(system, folder):
    second = System(system.bus, folder, wait=False)
    assert ended(second) == 4
    assert "org.edgettsd.Speech1 is owned by another process: edgettsd runs already on this bus" in second.log
    assert "Traceback" not in second.log
    assert system.bus.call("AbortAll").stdout == "u 0\n"


def test_a_lost_bus_ends_the_daemon_with_the_reason(folder):
    path = folder / "b"
    path.mkdir()
    bus = PrivateBus(path)
    system = System(bus, folder)
    assert bus.call("Speak", "sa{sv}", "fake:seconds=100", "0").returncode == 0
    bus.close()
    assert ended(system) == 5
    assert "the bus connection was lost: closed by the bus" in system.log
    assert "STATUS=the bus connection was lost: closed by the bus" in system.notified
    assert "Traceback" not in system.log


def test_an_unreachable_bus(folder):
    class Nowhere:
        address = f"unix:path={folder}/none"

    system = System(Nowhere, folder, wait=False)
    assert ended(system) == 5
    assert f"cannot connect to unix:path={folder}/none" in system.log
    assert "Traceback" not in system.log


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        ("[engine]\nspeed = 3\n", (), "[engine] speed: unknown key; allowed: queue_limit"),
        ("", ("--sink", "oss"), "command line: [audio] sink = 'oss': must be one of alsa"),
        ("", ("--log-level", "loud"), "command line: [log] level = 'loud'"),
        ("", ("--engine", "fake:-1"), "the speed must be a number above 0"),
        ("", ("--engine", "none"), "'none': allowed are real, fake, fake:SPEED and scripted:..."),
        ("", ("--session",), "not allowed with argument"),
    ],
)
def test_bad_configuration_and_usage(bus, folder, config, arguments, message):
    system = System(bus, folder, config=config, arguments=arguments, wait=False)
    assert ended(system) == 2
    assert message in system.log
    assert "Traceback" not in system.log


def test_logging_to_the_journal_has_severities(bus, folder):
    # The daemon's stderr is a file here, so JOURNAL_STREAM can name it as systemd would name the journal's.
    log = folder / "log"
    log.touch()
    status = log.stat()
    stream = f"{status.st_dev}:{status.st_ino}"
    system = System(bus, folder, env={"JOURNAL_STREAM": stream})
    assert system.stop() == 0
    assert "<6>edgettsd: ready: version" in system.log


def test_version():
    command = [sys.executable, "-m", "edgettsd", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    voice = f" (built-in voice {default.built_in_name()})" if default.has_built_in() else ""
    assert done.stdout == f"edgettsd {__version__}{voice}\n"


def test_the_bus_activates_the_daemon(bus, folder):
    """The first call starts it, waits for it and is answered."""
    pid_file = folder / "pid"
    launcher = folder / "launch"
    launcher.write_text(
        f"#!/bin/sh\necho $$ > {pid_file}\n"
        f"exec {sys.executable} -m edgettsd --config /dev/null --bus-address {bus.address} --engine fake:20\n"
    )
    launcher.chmod(0o755)
    (bus.services / "org.edgettsd.Speech1.service").write_text(
        f"[D-BUS Service]\nName=org.edgettsd.Speech1\nExec={launcher}\n"
    )
    package = environment()["PYTHONPATH"]
    update = bus.busctl(
        "call",
        *DBUS,
        "UpdateActivationEnvironment",
        "a{ss}",
        "1",
        "PYTHONPATH",
        package,
    )
    assert update.returncode == 0, update.stderr
    bus.busctl(
        "call", "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "ReloadConfig"
    )
    spoken = bus.call("Speak", "sa{sv}", "hello", "0")
    assert spoken.stdout == "t 1\n", spoken.stderr
    os.kill(int(pid_file.read_text()), signal.SIGTERM)
