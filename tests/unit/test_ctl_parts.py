"""edgettsctl without a daemon: the command line, exit statuses, and what the doctor makes of a machine."""

from __future__ import annotations

import argparse
import asyncio
import errno
import io
from pathlib import Path

import pytest

from edgettsd.bus import CallError
from edgettsd.client._errors import explain as client_error
from edgettsd.config import Config
from edgettsd.ctl import _doctor, _sound, _version
from edgettsd.ctl._client import explain
from edgettsd.ctl._doctor import FAIL, OK, WARN, Machine, check_model, check_sound, check_state
from edgettsd.ctl._exit import OF_REASON, TABLE, Exit
from edgettsd.ctl._main import main, parser
from edgettsd.ctl._progress import Progress
from edgettsd.engine._api import Reason
from edgettsd.models import default


def test_every_reason_has_its_own_documented_status():
    assert set(OF_REASON) == set(Reason)
    assert len(set(OF_REASON.values())) == len(Reason)
    documented = [int(line.split()[0]) for line in TABLE.splitlines()[1:]]
    assert documented == sorted(Exit)
    assert TABLE in parser().format_help()


@pytest.mark.parametrize(
    ("arguments", "session", "address"),
    [
        (["status"], False, None),
        (["--session", "status"], True, None),
        (["status", "--session"], True, None),
        (["--bus-address", "a", "status"], False, "a"),
        (["status", "--bus-address", "a"], False, "a"),
    ],
)
def test_bus_options_before_and_after_the_command(arguments, session, address):
    options = parser().parse_args(arguments)
    assert getattr(options, "session", False) is session
    assert getattr(options, "bus_address", None) == address


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["sing"],
        ["speak", "--seed", "-1", "x"],
        ["speak", "--seed", str(2**64), "x"],
        ["speak", "--top-k", str(2**32), "x"],
        ["speak", "--volume", "loud", "x"],
        ["speak", "--priority", "urgent", "x"],
        ["speak", "--format", "mp3", "x"],
        ["--session", "--bus-address", "a", "status"],
    ],
)
def test_usage_errors_have_status_1(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 1
    assert "usage: edgettsctl" in capsys.readouterr().err


def test_text_and_options_of_speak():
    options = parser().parse_args(["speak", "-w", "-v", "beta", "--seed", "3", "--", "-x", "--wait"])
    assert (options.text, options.wait, options.voice, options.seed) == (["-x", "--wait"], True, "beta", 3)
    assert parser().parse_args(["speak", "hello", "-w"]).text == ["hello"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speak", "-f", "x", "y"], "give TEXT or -f FILE, not both"),
        (["speak", "-f", "/nonexistent"], "/nonexistent: No such file"),
        (["speak", "-f", "/"], "/: Is a directory"),
        (["speak", "a\0b"], "holds a NUL character"),
        (["speak", "a\udcff"], "is not UTF-8"),
    ],
)
def test_texts_that_cannot_be_read(arguments, message, capsys):
    assert main(arguments) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_utf8(tmp_path, capsys):
    (tmp_path / "x").write_bytes(b"ab\xff")
    assert main(["speak", "-f", str(tmp_path / "x")]) == 1
    assert "not UTF-8: byte 2 is 0xff" in capsys.readouterr().err


def test_an_unreachable_bus_is_status_9(capsys, monkeypatch):
    monkeypatch.setenv("EDGETTSD_BUS_ADDRESS", "unix:path=/nonexistent/bus")
    for command in (["speak", "x"], ["stop"], ["voices"], ["status"], ["pause"]):
        assert main(command) == 9
        assert "cannot connect to unix:path=/nonexistent/bus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("org.edgettsd.Error.QueueFull", 1, "QueueFull: reason"),
        ("org.freedesktop.DBus.Error.AccessDenied", 10, "may not call edgettsd"),
        ("org.freedesktop.DBus.Error.ServiceUnknown", 9, "does not run: reason"),
        ("org.freedesktop.DBus.Error.Spawn.ChildExited", 9, "does not run"),
        ("org.freedesktop.DBus.Error.NoReply", 9, "does not run"),
        ("org.freedesktop.DBus.Error.InvalidArgs", 1, "InvalidArgs"),
    ],
)
def test_what_refused_calls_mean(name, status, words):
    error = explain(client_error(CallError(name, "reason")))
    assert error.status == status
    assert words in str(error)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_only_on_a_terminal(monkeypatch):
    pipe = io.StringIO()
    progress = Progress(pipe)
    progress.show("a")
    progress.clear()
    assert pipe.getvalue() == ""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    terminal = Terminal()
    progress = Progress(terminal)
    progress.show("speaking 1.0 s")
    progress.show("too soon")
    now[0] += 1
    progress.show("done")
    progress.clear()
    assert terminal.getvalue() == "\rspeaking 1.0 s\rdone          \r    \r"


# The doctor


CARDS = """ 0 [PCH            ]: HDA-Intel - HDA Intel PCH
                      HDA Intel PCH at 0xf7e10000 irq 30
 1 [Loopback       ]: Loopback - Loopback
                      Loopback 1
"""
PCM = """00-00: ALC269VC Analog : ALC269VC Analog : playback 1 : capture 1
00-02: ALC269VC Alt : ALC269VC Alt : capture 1
01-00: Loopback PCM : Loopback PCM : playback 8 : capture 8
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two cards; a player holds the first one."""
    asound = tmp_path / "proc/asound"
    (asound / "card0/pcm0p/sub0").mkdir(parents=True)
    (asound / "card1/pcm0p/sub0").mkdir(parents=True)
    (tmp_path / "proc/4711").mkdir()
    (asound / "cards").write_text(CARDS)
    (asound / "pcm").write_text(PCM)
    (asound / "card0/pcm0p/sub0/status").write_text("state: RUNNING\nowner_pid   : 4711\n")
    (asound / "card1/pcm0p/sub0/status").write_text("closed\n")
    (tmp_path / "proc/4711/comm").write_text("player\n")
    return tmp_path


def test_cards_and_devices_are_read(root):
    assert _sound.cards(root) == ["0 PCH: HDA Intel PCH", "1 Loopback: Loopback"]
    assert _sound.playbacks(root) == [
        _sound.Playback("hw:0,0", "ALC269VC Analog", ("player (4711)",)),
        _sound.Playback("hw:1,0", "Loopback PCM", ()),
    ]


def test_a_machine_without_sound(tmp_path):
    assert _sound.cards(tmp_path) == []
    assert _sound.playbacks(tmp_path) == []
    (tmp_path / "proc/asound").mkdir(parents=True)
    (tmp_path / "proc/asound/cards").write_text("--- no soundcards ---\n")
    assert _sound.cards(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "level", "text", "hint"),
    [
        (0, OK, "default opens", ""),
        (errno.EBUSY, FAIL, "default is busy: used by player (4711)", "dmix"),
        (errno.ENOENT, FAIL, "default does not exist", "hardware devices here: hw:0,0, hw:1,0"),
        (errno.ENODEV, FAIL, "default does not exist", "aplay -L"),
        (errno.EACCES, FAIL, "default: permission denied", "usermod -aG audio"),
        (errno.ENOSYS, FAIL, "libasound.so.2 is not installed", "apt install"),
        (errno.EINVAL, FAIL, "default does not open: Invalid argument", "aplay"),
    ],
)
def test_what_opening_the_device_means(root, code, level, text, hint):
    findings = list(check_sound(Config(), Machine(root, lambda device: code), None))
    assert [f.level for f in findings] == [OK, OK, OK, level]
    assert findings[-1].text == text
    assert hint in findings[-1].hint
    assert "used by player (4711)" in findings[1].text


def test_no_card_is_reported(tmp_path):
    cards, sound = check_sound(Config(), Machine(tmp_path, lambda device: errno.ENOENT), None)
    assert (cards.level, sound.level) == (WARN, FAIL)
    assert "no sound card" in cards.text
    assert "hardware devices here: none" in sound.hint


def test_the_device_is_left_alone_while_the_daemon_plays(root):
    def never(device: str) -> int:
        raise AssertionError("opened")

    findings = list(check_sound(Config(), Machine(root, never), {"Active": 3}))
    assert findings[-1].text == "default: edgettsd is playing"
    silent = Config().updated({"audio": {"sink": "fake"}}, "test")
    (finding,) = check_sound(silent, Machine(root, never), None)
    assert (finding.level, '"fake"' in finding.text) == (WARN, True)


def test_opening_a_pcm_that_does_not_exist(tmp_path):
    assert _sound.open_pcm("no-such-pcm-anywhere") == errno.ENOENT


@pytest.mark.parametrize(
    ("state", "level", "hint"),
    [
        ("idle", OK, ""),
        ("speaking", OK, ""),
        ("paused", FAIL, "edgettsctl resume"),
        ("starting", WARN, "try again"),
    ],
)
def test_the_state_of_the_daemon(state, level, hint):
    finding = check_state({"State": state, "Model": "m", "Version": "1"})
    assert finding.level == level
    assert hint in finding.hint


def test_a_missing_model(tmp_path):
    finding = check_model(Config().updated({"model": {"path": str(tmp_path / "none")}}, "test"))
    assert finding.level == FAIL
    assert "none" in finding.text
    assert "[model] path" in finding.hint


@pytest.mark.parametrize(
    ("groups", "members", "hint"),
    [
        (["users"], [], "callers need group audio or edgettsd: usermod -aG audio"),
        (["users"], ["audio"], "log out and in again"),
        (["users", "audio"], ["audio"], "org.edgettsd.Speech1.conf is not installed"),
    ],
)
def test_the_hint_for_a_denied_user(monkeypatch, groups, members, hint):
    import os
    import pwd

    user = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(_doctor, "_members", lambda group: [user] if group in members else [])
    assert hint in _doctor._group_hint(Machine(groups=groups))


def test_the_doctor_goes_on_after_a_bad_configuration_and_without_a_bus(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(default, "BUILT_IN", tmp_path / "voice")
    (tmp_path / "c.toml").write_text("[engine]\nspeed = 1\n")
    options = argparse.Namespace(
        config=tmp_path / "c.toml", session=False, bus_address="unix:path=/nonexistent/bus"
    )
    status = asyncio.run(_doctor.run(options, Machine(tmp_path, lambda device: 0)))
    printed = capsys.readouterr().out
    assert status == 1
    assert "FAIL  config" in printed
    assert "FAIL  bus" in printed
    assert "FAIL  model" in printed
    assert "ok    sound" in printed


def test_version_and_libraries(capsys):
    assert main(["version"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["version", "--verbose"]) == 0
    printed = capsys.readouterr().out
    for name in ("python:", "dbus-fast:", "numpy:", "kernels"):
        assert name in printed


def test_version_tolerates_missing_kernels(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "cython_kernels", None)
    monkeypatch.delitem(sys.modules, "cython_kernels._build_info", raising=False)
    assert list(_version.build()) == ["kernels"]
    assert _version.build()["kernels"].startswith("not usable: ")
