"""Starting the real daemon on a private message bus, and talking to it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

import edgettsd
from edgettsd.bus import BUS_NAME, INTERFACE, OBJECT_PATH, PROPERTIES

ROOT = Path(__file__).resolve().parents[2]
POLICY = ROOT / "systemd" / "org.edgettsd.Speech1.conf"
SECONDS = 20.0

_SESSION = (
    "<policy context='default'><allow send_destination='*' eavesdrop='true'/>"
    "<allow eavesdrop='true'/><allow own='*'/></policy>"
)
# The rules of the distribution's system bus that matter here; the shipped policy opens the rest.
_SYSTEM = """
<policy context='default'>
  <allow user='*'/>
  <deny own='*'/>
  <deny send_type='method_call'/>
  <allow send_type='signal'/>
  <allow send_requested_reply='true' send_type='method_return'/>
  <allow send_requested_reply='true' send_type='error'/>
  <allow receive_type='method_call'/>
  <allow receive_type='method_return'/>
  <allow receive_type='error'/>
  <allow receive_type='signal'/>
  <allow send_destination='org.freedesktop.DBus' send_interface='org.freedesktop.DBus'/>
  <allow send_destination='org.freedesktop.DBus' send_interface='org.freedesktop.DBus.Introspectable'/>
  <allow send_destination='org.freedesktop.DBus' send_interface='org.freedesktop.DBus.Properties'/>
</policy>
"""


def until(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    """Wait until `condition()` is true and return its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)
    return value


class PrivateBus:
    """A running dbus-daemon; `services` is a folder for activation files.

    With `apart` a Ctrl-C at the terminal does not reach it.
    """

    def __init__(self, folder: Path, *, system: bool = False, apart: bool = False) -> None:
        self.folder = folder
        self.services = folder / "services"
        self.services.mkdir()
        # Everybody may reach the socket; the bus's policy decides.
        folder.chmod(0o755)
        config = folder / "bus.conf"
        config.write_text(
            "<!DOCTYPE busconfig PUBLIC '-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN'\n"
            " 'http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd'>\n"
            f"<busconfig><type>{'system' if system else 'session'}</type>"
            f"<listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>"
            f"<servicedir>{self.services}</servicedir>"
            + (f"{_SYSTEM}<include>{POLICY}</include>" if system else _SESSION)
            + "</busconfig>\n"
        )
        self.process = subprocess.Popen(
            [
                "dbus-daemon",
                f"--config-file={config}",
                "--nofork",
                "--nopidfile",
                "--nosyslog",
                "--print-address",
            ],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=apart,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address.startswith("unix:path="), "dbus-daemon did not start"

    def close(self) -> None:
        """End the bus."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def busctl(self, *arguments: str, user: list[str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run busctl on this bus, with `user` (a setpriv command line) in front."""
        return subprocess.run(
            [*(user or []), "busctl", f"--address={self.address}", *arguments],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def call(self, member: str, signature: str = "", *arguments: str, user: list[str] | None = None):
        """Call a method of the daemon with busctl."""
        tail = [signature, *arguments] if signature else []
        return self.busctl("call", BUS_NAME, OBJECT_PATH, INTERFACE, member, *tail, user=user)


def environment(**more: str) -> dict[str, str]:
    """The environment for a child that runs this checkout's (or the installed) edgettsd."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DBUS_", "EDGETTSD_"))}
    kept.pop("NOTIFY_SOCKET", None)
    package = str(Path(edgettsd.__file__).absolute().parents[1])
    # What the tests were given comes first: another version of a library.
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [kept.get("PYTHONPATH", ""), package]))
    # The source tree, where the tests run, has no compiled kernels.
    kept["PYTHONSAFEPATH"] = "1"
    return kept | more


class System:
    """The real daemon on a private bus, with a configuration file and a notification socket of its own.

    `engine` is the --engine argument; `config` is TOML text. With `apart` a Ctrl-C at the terminal does not
    reach it.
    """

    def __init__(
        self,
        bus: PrivateBus,
        folder: Path,
        *,
        engine: str = "fake:20",
        config: str = "",
        arguments: tuple[str, ...] = (),
        watchdog: float | None = None,
        env: dict[str, str] | None = None,
        wait: bool = True,
        apart: bool = False,
    ) -> None:
        self.bus = bus
        self.folder = folder
        self.config = folder / "edgettsd.toml"
        self.config.write_text(config)
        self.log_path = folder / "log"
        self.notified: list[str] = []
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(folder / "notify"))
        self._notify.setblocking(False)
        extra = {"NOTIFY_SOCKET": str(folder / "notify")} | (env or {})
        if watchdog is not None:
            extra["WATCHDOG_USEC"] = str(int(watchdog * 1e6))
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "edgettsd",
                    "--config",
                    str(self.config),
                    "--bus-address",
                    bus.address,
                    *(("--engine", engine) if engine else ()),
                    *arguments,
                ],
                stdout=log,
                stderr=log,
                env=environment(**extra),
                start_new_session=apart,
            )
        if wait:
            self.wait_for("READY=1")

    @property
    def log(self) -> str:
        """What the daemon has logged so far."""
        return self.log_path.read_text()

    def notifications(self) -> list[str]:
        """Every line notified so far."""
        while self._notify.fileno() >= 0:
            try:
                self.notified += self._notify.recv(4096).decode().splitlines()
            except BlockingIOError:
                break
        return self.notified

    def wait_for(self, line: str) -> None:
        """Wait for a notification; fails when the daemon ends before."""

        def seen() -> bool:
            if line in self.notifications():
                return True
            assert self.process.poll() is None, (
                f"the daemon ended with {self.process.returncode}:\n{self.log}"
            )
            return False

        until(seen, line)

    def fd_count(self) -> int:
        """Open descriptors of the daemon."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_kb(self) -> int:
        """Resident memory of the daemon in kB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status; idempotent."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the daemon does not stop:\n{self.log}") from None
        self.notifications()
        self._notify.close()
        return status

    def ctl(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None):
        """Run edgettsctl on this bus."""
        return subprocess.run(
            ctl_command(*arguments),
            input=stdin.encode(),
            capture_output=True,
            timeout=60,
            check=False,
            env=environment(EDGETTSD_BUS_ADDRESS=self.bus.address, **(env or {})),
        )


def ctl_command(*arguments: str) -> list[str]:
    """The command line of edgettsctl."""
    return [sys.executable, "-c", "import sys; from edgettsd.ctl import main; sys.exit(main())", *arguments]


class CallFailed(Exception):  # noqa: N818
    """A call was answered with an error."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.body[0] if message.body else "")
        self.name = message.error_name


class Client:
    """A client of the daemon that writes down every signal; use with ``async with``."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.signals: list[tuple[str, list[Any]]] = []
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Client:
        self.bus = await MessageBus(bus_address=self._address, negotiate_unix_fd=True).connect()
        self.bus.add_message_handler(self._on_message)
        await self.call_raw(
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus",
            "AddMatch",
            "s",
            [f"type='signal',path='{OBJECT_PATH}'"],
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        self.bus.disconnect()
        await asyncio.sleep(0)

    def _on_message(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL and message.path == OBJECT_PATH:
            self.signals.append((message.member, message.body))
            self._arrived.set()

    async def call_raw(
        self,
        name: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: list[Any] | None = None,
        fds: list[int] | None = None,
    ) -> list[Any]:
        """Call anything; raises CallFailed."""
        async with asyncio.timeout(SECONDS):
            reply = await self.bus.call(
                Message(
                    destination=name,
                    path=path,
                    interface=interface,
                    member=member,
                    signature=signature,
                    body=body or [],
                    unix_fds=fds or [],
                )
            )
        if reply.message_type is MessageType.ERROR:
            raise CallFailed(reply)
        return reply.body

    async def call(self, member: str, signature: str = "", *body: Any, fds: list[int] | None = None) -> Any:
        """Call a method of the daemon; returns its one result, or None."""
        result = await self.call_raw(BUS_NAME, OBJECT_PATH, INTERFACE, member, signature, list(body), fds)
        return result[0] if result else None

    async def speak(self, text: str = "hello", **options: Any) -> int:
        """Speak with variants as options."""
        return await self.call("Speak", "sa{sv}", text, options)

    async def to_fd(self, text: str, fd: int, **options: Any) -> int:
        """SynthesizeToFd; the caller keeps its own copy of the descriptor."""
        return await self.call("SynthesizeToFd", "sha{sv}", text, 0, options, fds=[fd])

    async def get(self, name: str) -> Any:
        """A property's value."""
        body = [INTERFACE, name]
        return (await self.call_raw(BUS_NAME, OBJECT_PATH, PROPERTIES, "Get", "ss", body))[0].value

    def of(self, member: str, utterance: int) -> list[list[Any]]:
        """Bodies of the Started or Finished signals of one utterance."""
        return [body for name, body in self.signals if name == member and body[0] == utterance]

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for signals until `condition()` is true; returns its value."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (value := condition()):
                    self._arrived.clear()
                    await self._arrived.wait()
                return value
        except TimeoutError:
            raise AssertionError(f"waited {SECONDS} s for {what}; signals: {self.signals}") from None

    async def finished(self, utterance: int) -> str:
        """The reason with which an utterance ended."""
        return (await self.until(lambda: self.of("Finished", utterance), f"Finished({utterance})"))[0][1]

    async def started(self, utterance: int) -> None:
        """Wait until an utterance is being spoken."""
        await self.until(lambda: self.of("Started", utterance), f"Started({utterance})")


def with_client(system: System, test: Callable[[Client], Awaitable[None]]) -> None:
    """Run an async test with one client."""

    async def body() -> None:
        async with Client(system.bus.address) as client:
            await test(client)

    asyncio.run(body())


async def refused(call: Awaitable[Any]) -> tuple[str, str]:
    """Error name and message of a call that must fail."""
    with pytest.raises(CallFailed) as caught:
        await call
    return caught.value.name, str(caught.value)


@contextmanager
def running(system: System) -> Iterator[System]:
    """The daemon, which must still run at the end and then stop with status 0."""
    try:
        yield system
    except BaseException:
        system.process.kill()
        system.stop()
        print(system.log, file=sys.stderr)
        raise
    early = system.process.poll()
    status = system.stop()
    assert early is None, f"the daemon ended by itself with {early}:\n{system.log}"
    assert status == 0, f"the daemon stopped with {status}:\n{system.log}"
    assert "Traceback" not in system.log, system.log
