"""Background tasks of the real daemon that fail: logged, shown by edgettsctl, started again, or its end."""

from __future__ import annotations

import json
from pathlib import Path

from integration.harness import System, environment, until

# Python runs this before the daemon; the pauses between two starts are short.
_FAULT = """
from edgettsd import notify, supervisor, watchdog
from edgettsd.hw import thermal

supervisor.Supervisor.__init__.__kwdefaults__["first_delay"] = 0.01

def fails(*arguments, **fields):
    raise ValueError("no such sensor")

def send(self, _send=notify.Notifier.send, **fields):
    if "WATCHDOG" in fields:
        raise ValueError("no such socket")
    _send(self, **fields)

{what} = {by}
"""


def faulty(bus, folder: Path, what: str, by: str = "fails", **options) -> System:
    """A daemon in which a function is replaced by one that fails."""
    (folder / "fault").mkdir()
    (folder / "fault" / "sitecustomize.py").write_text(_FAULT.format(what=what, by=by))
    path = f"{folder / 'fault'}:{environment()['PYTHONPATH']}"
    return System(bus, folder, env={"PYTHONPATH": path}, **options)


def test_a_thermal_watch_that_fails_is_noticed_and_speech_goes_on(bus, folder):
    system = faulty(bus, folder, "thermal.Sensors.read")
    line = "problem  thermal watch: given up, 5 failures, the last: ValueError: no such sensor"
    until(lambda: line in system.ctl("status").stdout.decode(), "the problem in status")
    assert system.log.count("thermal watch failed: ValueError: no such sensor") == 5
    assert "thermal watch is given up, because it failed 5 times in 600 s" in system.log
    status = json.loads(system.ctl("status", "--json").stdout)
    assert status["problems"] == [line.removeprefix("problem  ")]
    tasks = json.loads(system.ctl("stats", "--json").stdout)["tasks"]
    assert tasks["thermal watch"] == {
        "state": "given up",
        "failures": 5,
        "reason": "ValueError: no such sensor",
    }
    assert "given up: ValueError: no such sensor" in system.ctl("stats").stdout.decode()
    assert system.ctl("speak", "-w", "fake:seconds=0.1").returncode == 0
    assert system.stop() == 0


def test_without_systemds_watchdog_the_daemon_ends_when_the_engine_stands_still(bus, folder):
    """Speech would never go on, and nobody else would say so."""
    look = "watchdog.feed.__defaults__"
    system = faulty(bus, folder, look, "(0.05,)")
    assert system.bus.call("Speak", "sa{sv}", "fake:stall", "0").returncode == 0
    until(lambda: system.process.poll() is not None, "the daemon to end")
    assert system.stop() == 1
    assert "watchdog failed: StalledError: the engine makes no progress" in system.log
    assert "watchdog failed 5 times in 600 s" in system.log


def test_the_daemon_ends_when_the_watchdog_cannot_be_fed(bus, folder):
    system = faulty(bus, folder, "notify.Notifier.send", "send", watchdog=60.0, wait=False)
    until(lambda: system.process.poll() is not None, "the daemon to end")
    assert system.stop() == 1
    assert "watchdog failed 5 times in 600 s, the last time with ValueError: no such socket" in system.log
    assert any(line.startswith("STATUS=watchdog failed 5 times") for line in system.notifications())
