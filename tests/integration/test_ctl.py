"""edgettsctl against a real daemon with the scripted engine."""

from __future__ import annotations

import json
import os
import pty
import signal
import struct
import subprocess
import time

import pytest
from integration.harness import SECONDS, PrivateBus, ctl_command, environment, until

from edgettsd import __version__

FRAME_BYTES = 1920 * 2


def speaking(system) -> bool:
    return '"speaking"' in system.bus.busctl("get-property", *WHERE, "State").stdout


WHERE = ("org.edgettsd.Speech1", "/org/edgettsd/Speech1", "org.edgettsd.Speech1")


def test_speak_returns_at_once_and_wait_waits(system):
    began = time.monotonic()
    done = system.ctl("speak", "fake:seconds=600")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert time.monotonic() - began < 20, "it lasts 30 s"
    done = system.ctl("speak", "-w", "--interrupt", "fake:seconds=10")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("hello", 0, b""),
        ("fake:runaway", 5, b"edgettsctl: runaway\n"),
        ("fake:limit", 6, b"edgettsctl: limit\n"),
        ("fake:device", 7, b"edgettsctl: device; see edgettsctl doctor\n"),
        ("fake:error", 8, b"edgettsctl: error\n"),
    ],
)
def test_exit_status_tells_the_reason(system, text, status, reason):
    done = system.ctl("speak", "--wait", text)
    assert (done.returncode, done.stderr) == (status, reason)


def waiting(system, *arguments: str, **options) -> subprocess.Popen[bytes]:
    """edgettsctl in the background, once its utterance is spoken."""
    process = subprocess.Popen(
        ctl_command(*arguments),
        env=environment(EDGETTSD_BUS_ADDRESS=system.bus.address),
        stderr=subprocess.PIPE,
        **options,
    )
    until(lambda: speaking(system), "speaking")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_aborts(system, number):
    process = waiting(system, "speak", "-w", "fake:seconds=1000")
    process.send_signal(number)
    assert process.communicate(timeout=SECONDS) == (None, b"edgettsctl: aborted\n")
    assert process.returncode == 3
    assert not speaking(system)


def test_a_killed_waiter_takes_its_utterance_along(system):
    process = waiting(system, "speak", "-w", "fake:seconds=1000")
    process.kill()
    process.communicate()
    until(lambda: not speaking(system), "silence")


def test_stop_and_replaced(system):
    process = waiting(system, "speak", "-w", "fake:seconds=1000")
    done = system.ctl("stop")
    assert (done.returncode, done.stdout) == (0, b"1 stopped\n")
    assert process.communicate(timeout=SECONDS)[1] == b"edgettsctl: aborted\n"
    assert process.returncode == 3
    process = waiting(system, "speak", "-w", "fake:seconds=1000")
    assert system.ctl("speak", "--interrupt", "x").returncode == 0
    assert process.communicate(timeout=SECONDS)[1] == b"edgettsctl: replaced\n"
    assert process.returncode == 4


def test_the_end_of_the_daemon_ends_the_waiting(bus, folder):
    from integration.harness import System

    system = System(bus, folder)
    process = waiting(system, "speak", "-w", "fake:seconds=1000")
    system.stop(signal.SIGKILL)
    assert b"the daemon ended before the utterance did" in process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 9


def test_pause_and_resume(system):
    assert system.ctl("pause").returncode == 0
    assert b"state    paused" in system.ctl("status").stdout
    assert system.ctl("resume").returncode == 0
    assert b"state    idle" in system.ctl("status").stdout


def test_text_from_a_file_standard_input_and_the_command_line(system, tmp_path):
    (tmp_path / "text").write_text("\ufefffake:limit")
    assert system.ctl("speak", "-w", "-f", str(tmp_path / "text")).returncode == 6
    assert system.ctl("speak", "-w", "-", stdin="fake:limit").returncode == 6
    assert system.ctl("speak", "-w", stdin="fake:limit").returncode == 6
    assert system.ctl("speak", "-w", "--", "-x", "fake:limit").returncode == 6
    assert system.ctl("speak", "-w", stdin="").returncode == 0


def test_options_reach_the_daemon(system):
    done = system.ctl("speak", "-v", "gamma", "hello")
    assert (done.returncode, done.stderr) == (
        1,
        b"edgettsctl: UnknownVoice: voice 'gamma' is unknown; allowed: alpha, beta\n",
    )
    done = system.ctl("speak", "--volume", "9", "hello")
    assert (done.returncode, done.stderr) == (
        1,
        b"edgettsctl: InvalidOption: option volume = 9.0; allowed: a number from 0 to 4\n",
    )
    everything = [
        "-v",
        "beta",
        "-l",
        "german",
        "-i",
        "softly",
        "--priority",
        "text",
        "--interrupt",
        "--seed",
        "7",
        "--volume",
        "0.5",
        "--temperature",
        "1",
        "--top-k",
        "5",
        "--top-p",
        "0.9",
        "--repetition-penalty",
        "1.1",
        "--rate",
        "1.5",
        "--max-seconds",
        "0.4",
    ]
    assert system.ctl("speak", "-w", *everything, "fake:seconds=5").returncode == 6


def wav(data: bytes) -> tuple[int, int]:
    """Rate and audio bytes that a WAV header names."""
    fields = struct.unpack("<4sI4s4sIHHIIHH4sI", data[:44])
    assert (fields[0], fields[2], fields[11]) == (b"RIFF", b"WAVE", b"data")
    return fields[7], fields[12]


def test_output_to_a_wav_file(system, tmp_path):
    path = tmp_path / "out.wav"
    done = system.ctl("speak", "-o", str(path), "fake:seconds=2")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    data = path.read_bytes()
    assert wav(data) == (24000, 25 * FRAME_BYTES)
    assert len(data) == 44 + 25 * FRAME_BYTES


def test_output_of_raw_samples(system, tmp_path):
    for arguments in (
        ["-o", str(tmp_path / "out.raw")],
        ["-o", str(tmp_path / "out.wav"), "--format", "s16le"],
    ):
        assert system.ctl("speak", *arguments, "fake:seconds=0.8").returncode == 0
        assert os.path.getsize(arguments[1]) == 10 * FRAME_BYTES


def test_output_to_standard_output(system):
    data = system.ctl("speak", "-o", "-", "fake:seconds=0.8").stdout
    assert wav(data) == (24000, 0xFFFFFFFF)
    assert len(data) == 44 + 10 * FRAME_BYTES
    assert (
        len(system.ctl("speak", "-o", "-", "--format", "s16le", "fake:seconds=0.8").stdout)
        == 10 * FRAME_BYTES
    )


def test_a_reader_of_standard_output_that_goes_away_aborts(system):
    process = waiting(system, "speak", "-o", "-", "fake:seconds=10000", stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(100)
    process.stdout.close()
    process.wait(SECONDS)
    assert process.returncode == 1
    until(lambda: not speaking(system), "silence")
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_file_that_cannot_be_written_aborts(system):
    done = system.ctl("speak", "-o", "/nonexistent/out.wav", "fake:seconds=1000")
    assert done.returncode == 1
    assert b"/nonexistent/out.wav: No such file or directory" in done.stderr
    until(lambda: not speaking(system), "silence")
    done = system.ctl("speak", "-o", "/dev/full", "fake:seconds=1000")
    assert done.returncode == 1
    assert b"/dev/full: No space left on device" in done.stderr


def test_a_refused_call_leaves_the_file_alone(system, tmp_path):
    path = tmp_path / "out.wav"
    path.write_text("keep")
    assert system.ctl("speak", "-o", str(path), "-v", "gamma", "x").returncode == 1
    assert path.read_text() == "keep"


def test_ctrl_c_while_writing_leaves_a_whole_wav_file(system, tmp_path):
    path = tmp_path / "out.wav"
    process = waiting(system, "speak", "-o", str(path), "fake:seconds=10000")
    until(lambda: path.exists() and path.stat().st_size > 100_000, "some audio")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    data = path.read_bytes()
    assert wav(data) == (24000, len(data) - 44)


def test_progress_and_no_sound_on_a_terminal(system):
    main, terminal = pty.openpty()
    env = environment(EDGETTSD_BUS_ADDRESS=system.bus.address)
    done = subprocess.run(
        ctl_command("speak", "-w", "fake:seconds=20"), env=env, stderr=terminal, timeout=SECONDS, check=False
    )
    shown = os.read(main, 65536).decode()
    assert done.returncode == 0
    assert "speaking 0." in shown
    assert shown.rstrip(" ").endswith("\r")
    done = subprocess.run(
        ctl_command("speak", "-o", "-", "x"),
        env=env,
        stdout=terminal,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert b"redirect standard output" in done.stderr
    os.close(main)
    os.close(terminal)


def test_voices(system):
    lines = system.ctl("voices").stdout.decode().splitlines()
    assert lines == ["* alpha  english, german  A quiet tone", "  beta   english  The same tone"]
    voices = json.loads(system.ctl("voices", "--json").stdout)
    assert [(v["id"], v["default"]) for v in voices] == [("alpha", True), ("beta", False)]


def test_status(system):
    assert system.ctl("speak", "fake:seconds=1000").returncode == 0
    assert system.ctl("speak", "next").returncode == 0
    assert json.loads(system.ctl("status", "--json").stdout) == {
        "state": "speaking",
        "active": 1,
        "queue_length": 1,
        "model": "fake",
        "sample_rate": 24000,
        "problems": [],
        "paused_by": [],
        "version": __version__,
    }
    text = system.ctl("status").stdout.decode()
    assert text == (
        f"state    speaking, utterance 1\nwaiting  1\nmodel    fake, 24000 Hz\nversion  {__version__}\n"
    )


def ctl_on(bus: PrivateBus, *arguments: str, user: tuple[str, ...] = ()):
    return subprocess.run(
        [*user, *ctl_command(*arguments)],
        env=environment(EDGETTSD_BUS_ADDRESS=bus.address),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_without_a_daemon_everything_is_status_9(bus):
    for command in (
        ["speak", "x"],
        ["speak", "-w", "x"],
        ["speak", "-o", "/dev/null", "x"],
        ["stop"],
        ["voices"],
        ["status"],
    ):
        done = ctl_on(bus, *command)
        assert done.returncode == 9, command
        assert "edgettsd does not run" in done.stderr


def test_doctor_on_a_running_daemon(system, tmp_path):
    (tmp_path / "c.toml").write_text('[audio]\nsink = "fake"\n')
    done = ctl_on(system.bus, "doctor", "--config", str(tmp_path / "c.toml"))
    assert done.returncode == 0, done.stdout
    assert f"ok    daemon   version {__version__}, idle, model fake" in done.stdout
    assert 'warn  sound    [audio] sink = "fake"' in done.stdout
    assert system.ctl("pause").returncode == 0
    done = ctl_on(system.bus, "doctor", "--config", str(tmp_path / "c.toml"))
    assert done.returncode == 1
    assert "-> edgettsctl resume" in done.stdout


def test_doctor_without_a_daemon(bus, tmp_path):
    (tmp_path / "c.toml").write_text('[model]\npath = "/nonexistent/model"\n')
    done = ctl_on(bus, "doctor", "--config", str(tmp_path / "c.toml"))
    assert done.returncode == 1
    assert "FAIL  daemon   not running, and the bus does not know how to start it" in done.stdout
    assert "/nonexistent/model" in done.stdout
    assert "[model] path" in done.stdout
    (bus.services / "org.edgettsd.Speech1.service").write_text(
        "[D-BUS Service]\nName=org.edgettsd.Speech1\nExec=/bin/false\n"
    )
    dbus = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
    assert bus.busctl("call", *dbus, "ReloadConfig").returncode == 0
    assert "the bus starts it with the first call" in ctl_on(bus, "doctor").stdout


def test_doctor_names_the_missing_group(system_bus, folder, capfd):
    """Asked as a user without the group; in a forked child, which has read all it needs."""
    from integration.harness import System, running

    import edgettsd.models.store  # noqa: F401
    from edgettsd.ctl import main

    with running(System(system_bus, folder)):
        child = os.fork()
        if child == 0:
            status = 99
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                status = main(["--bus-address", system_bus.address, "doctor", "--config", "/dev/null"])
                status = status * 10 + main(["--bus-address", system_bus.address, "speak", "x"])
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
    printed = capfd.readouterr()
    assert os.waitstatus_to_exitcode(status) == 20, printed
    assert "FAIL  access   this user may not call edgettsd" in printed.out
    assert "callers need group audio or edgettsd: usermod -aG audio nobody" in printed.out
    assert "this user may not call edgettsd; see edgettsctl doctor" in printed.err
