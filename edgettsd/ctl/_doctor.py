"""edgettsctl doctor: why it is mute, from the configuration to the sound device, each with what to do."""

from __future__ import annotations

import argparse
import errno
import grp
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgettsd import config as config_file
from edgettsd.bus import BUS_NAME
from edgettsd.config import Config, ConfigError
from edgettsd.ctl import _sound
from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import CtlError, Exit
from edgettsd.errors import ModelInvalidError
from edgettsd.models import default

GROUPS = ("audio", "edgettsd")

OK, WARN, FAIL = "ok", "warn", "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer; `hint` says what to do."""

    level: str
    subject: str
    text: str
    hint: str = ""


@dataclass(slots=True)
class Machine:
    """What the doctor looks at; tests give another root and another PCM opener."""

    root: Path = Path("/")
    open_pcm: _sound.OpenPcm = _sound.open_pcm
    groups: list[str] = field(default_factory=lambda: [_group_name(gid) for gid in os.getgroups()])


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "find out why nothing is heard"
    command = commands.add_parser("doctor", parents=[common], help=text, description=text.capitalize() + ".")
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the daemon's configuration (default {config_file.DEFAULT_PATH})",
    )
    command.set_defaults(run=run)


async def run(options: argparse.Namespace, machine: Machine | None = None) -> int:
    """Print the findings; status 1 when one of them is a failure."""
    findings = await examine(options, machine or Machine())
    for finding in findings:
        print(f"{finding.level:4}  {finding.subject:8} {finding.text}")
        if finding.hint:
            print(f"      {'':8} -> {finding.hint}")
    return Exit.ERROR if any(finding.level == FAIL for finding in findings) else Exit.OK


async def examine(options: argparse.Namespace, machine: Machine) -> list[Finding]:
    """All findings, in the order in which the parts depend on each other."""
    findings = []
    try:
        config = config_file.load(options.config)
        path = options.config or config_file.DEFAULT_PATH
        findings.append(Finding(OK, "config", f"{path}" if path.exists() else f"no {path}: defaults"))
    except ConfigError as error:
        config = Config()
        findings.append(
            Finding(FAIL, "config", str(error), "correct the file; the daemon does not start with it")
        )
    properties, found = await _ask_daemon(options, config, machine)
    findings += found
    # The bundle is checked only while no daemon is ready, because a ready daemon has loaded it.
    if properties is None or properties.get("State") == "starting":
        findings.append(check_model(config))
    findings += check_sound(config, machine, properties)
    return findings


async def _ask_daemon(
    options: argparse.Namespace, config: Config, machine: Machine
) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The running daemon's properties (None without one), and the findings on the way to them."""
    address = options.bus_address or ("" if options.session else config.bus.address)
    session = options.session or (not address and config.bus.bus == "session")
    bus = address or f"the {'session' if session else 'system'} bus"
    findings = []
    try:
        async with connect(session, address) as daemon:
            findings.append(Finding(OK, "bus", bus))
            if await daemon.connection.owner(BUS_NAME) is None:
                names = (await daemon.connection.call_bus("ListActivatableNames"))[0]
                findings.append(_not_running(BUS_NAME in names, session))
                return None, findings
            properties = await daemon.properties(start=False)
    except CtlError as error:
        if error.status is Exit.DENIED:
            findings.append(Finding(FAIL, "access", str(error).partition(";")[0], _group_hint(machine)))
            return None, findings
        hint = (
            "is DBUS_SESSION_BUS_ADDRESS set, as in a desktop session?"
            if session
            else "is dbus-daemon running? (systemctl status dbus)"
        )
        findings.append(Finding(FAIL, "daemon" if findings else "bus", str(error), hint))
        return None, findings
    findings.append(check_state(properties))
    return properties, findings


def _not_running(activatable: bool, session: bool) -> Finding:
    if activatable:
        return Finding(OK, "daemon", "not running; the bus starts it with the first call")
    hint = "edgettsd --session" if session else "systemctl start edgettsd; systemctl status edgettsd"
    return Finding(FAIL, "daemon", "not running, and the bus does not know how to start it", hint)


def check_state(properties: dict[str, Any]) -> Finding:
    """How the running daemon is."""
    state, model = properties["State"], properties["Model"]
    text = f"version {properties['Version']}, {state}, model {model}"
    match state:
        case "paused":
            return Finding(
                FAIL, "daemon", f"{text}: paused", "edgettsctl resume --all (edgettsctl status: by whom)"
            )
        case "starting" | "stopping":
            return Finding(WARN, "daemon", text, "try again in a moment")
    return Finding(OK, "daemon", text)


def _group_hint(machine: Machine) -> str:
    """How to get into a group that may call the daemon."""
    user = pwd.getpwuid(os.getuid()).pw_name
    if set(GROUPS) & set(machine.groups):
        return "the bus policy org.edgettsd.Speech1.conf is not installed; reload the bus after installing it"
    listed = [name for name in GROUPS if user in _members(name)]
    if listed:
        return f"{user} is in group {listed[0]}, but this login is older: log out and in again"
    return f"callers need group {' or '.join(GROUPS)}: usermod -aG {GROUPS[0]} {user}, then log in again"


def check_model(config: Config) -> Finding:
    """Whether the bundle is there and whole, as far as names and sizes tell."""
    from edgettsd.models.store import open_bundle

    config = default.with_model(config)
    try:
        bundle = open_bundle(config.model.path)
    except ModelInvalidError as error:
        hint = "[model] path in the configuration names a folder made by tools/convert"
        return Finding(FAIL, "model", str(error), hint)
    return Finding(OK, "model", f"{bundle.manifest.name} in {default.origin(config)}")


def check_sound(config: Config, machine: Machine, properties: dict[str, Any] | None) -> Iterator[Finding]:
    """Whether the sound device is there, free and permitted."""
    if config.audio.sink != "alsa":
        yield Finding(
            WARN, "sound", f'[audio] sink = "{config.audio.sink}": nothing is played on a sound device'
        )
        return
    cards = _sound.cards(machine.root)
    devices = _sound.playbacks(machine.root)
    if cards:
        yield Finding(OK, "cards", "; ".join(cards))
    else:
        yield Finding(
            WARN, "cards", "no sound card (/proc/asound/cards)", "is the driver loaded? (lsmod, dmesg)"
        )
    for device in devices:
        users = f", used by {', '.join(device.users)}" if device.users else ""
        yield Finding(OK, "device", f"{device.pcm}: {device.name}{users}")
    if properties is not None and properties["Active"]:
        yield Finding(OK, "sound", f"{config.audio.device}: edgettsd is playing")
        return
    code = machine.open_pcm(config.audio.device)
    yield _opened(config.audio.device, code, devices)


def _opened(device: str, code: int, devices: list[_sound.Playback]) -> Finding:
    """What the result of opening the PCM means."""
    match code:
        case 0:
            return Finding(OK, "sound", f"{device} opens")
        case errno.EBUSY:
            users = ", ".join(user for found in devices for user in found.users) or "another program"
            hint = "end that program, or use a PCM that mixes (dmix) in [audio] device"
            return Finding(FAIL, "sound", f"{device} is busy: used by {users}", hint)
        case errno.ENOENT | errno.ENODEV | errno.ENXIO:
            known = ", ".join(found.pcm for found in devices) or "none"
            hint = f"[audio] device names an ALSA PCM (aplay -L); hardware devices here: {known}"
            return Finding(FAIL, "sound", f"{device} does not exist", hint)
        case errno.EACCES | errno.EPERM:
            user = pwd.getpwuid(os.getuid()).pw_name
            hint = f"this needs group audio: usermod -aG audio {user}, then log in again"
            return Finding(FAIL, "sound", f"{device}: permission denied", hint)
        case errno.ENOSYS:
            return Finding(FAIL, "sound", "libasound.so.2 is not installed", "apt install libasound2")
    return Finding(FAIL, "sound", f"{device} does not open: {os.strerror(code)}", "aplay -D PCM tells more")


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _members(group: str) -> list[str]:
    try:
        return grp.getgrnam(group).gr_mem
    except KeyError:
        return []
