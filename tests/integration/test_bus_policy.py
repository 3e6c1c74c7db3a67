"""The shipped policy on a private system bus: who may own the name and who may call."""

from __future__ import annotations

import asyncio
import grp
import os
import pwd

import pytest
from integration.harness import POLICY, System, running

from edgettsd.bus import BUS_NAME, BusError, Connection

NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup"]
PLAIN = [*NOBODY, "--clear-groups"]
AUDIO = [*NOBODY, "--groups=audio"]


@pytest.fixture
def running_daemon(system_bus, folder):
    with running(System(system_bus, folder)) as system:
        yield system


def test_a_user_without_the_group_is_denied(running_daemon):
    done = running_daemon.bus.call("AbortAll", user=PLAIN)
    assert done.returncode != 0
    assert (
        "Access denied" in done.stderr or "rejected" in done.stderr.lower() or "AccessDenied" in done.stderr
    )


def test_a_member_of_audio_may_speak_and_read(running_daemon):
    spoken = running_daemon.bus.call("Speak", "sa{sv}", "hello", "0", user=AUDIO)
    assert spoken.stdout == "t 1\n", spoken.stderr
    where = ("org.edgettsd.Speech1", "/org/edgettsd/Speech1", "org.edgettsd.Speech1")
    state = running_daemon.bus.busctl("get-property", *where, "Model", user=AUDIO)
    assert state.stdout == 's "fake"\n', state.stderr


def test_root_may_speak(running_daemon):
    assert running_daemon.bus.call("Speak", "sa{sv}", "hello", "0").stdout == "t 1\n"


def test_an_utterance_of_another_user_can_only_be_aborted_with_all(running_daemon):
    assert running_daemon.bus.call("Speak", "sa{sv}", "fake:seconds=100", "0").stdout == "t 1\n"
    assert "no such utterance of this caller" in running_daemon.bus.call("Abort", "t", "1", user=AUDIO).stderr
    assert running_daemon.bus.call("AbortAll", user=AUDIO).stdout == "u 1\n"


@pytest.mark.parametrize("user", [PLAIN, AUDIO])
def test_nobody_cannot_own_the_name(system_bus, user):
    call = (
        "call",
        "org.freedesktop.DBus",
        "/org/freedesktop/DBus",
        "org.freedesktop.DBus",
        "RequestName",
        "su",
    )
    done = system_bus.busctl(*call, "org.edgettsd.Speech1", "4", user=user)
    assert done.returncode != 0
    assert done.stderr == "Call failed: Access denied\n"


def test_being_refused_the_name_is_said_clearly(system_bus):
    async def acquire() -> str:
        connection = await Connection.open(address=system_bus.address)
        try:
            await connection.acquire(BUS_NAME)
        except BusError as error:
            return str(error)
        return "acquired"

    nobody = pwd.getpwnam("nobody")
    reader, writer = os.pipe()
    # Forked, not started: nobody may be unable to read the folder that holds this checkout.
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            os.write(writer, asyncio.run(acquire()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader) as answer:
        assert answer.read().startswith("the bus does not let this user own org.edgettsd.Speech1: ")


def test_the_groups_of_the_policy_are_the_documented_ones():
    text = POLICY.read_text()
    assert grp.getgrnam("audio")
    assert text.count("<policy group=") == 2
    for group in ("audio", "edgettsd"):
        assert f'<policy group="{group}">' in text
