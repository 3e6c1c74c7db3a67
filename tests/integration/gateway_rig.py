"""The real gateway as a process, for tests of its listeners."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from integration.harness import SECONDS, PrivateBus, environment, until


class Gateway:
    """edgettsd-gateway on the bus of a test, with free ports; `config` is TOML text."""

    def __init__(
        self,
        bus: PrivateBus,
        folder: Path,
        *,
        config: str = "",
        arguments: tuple[str, ...] = ("--http-port", "0", "--wyoming-port", "0"),
        front: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        wait: bool = True,
    ) -> None:
        path = folder / "gateway.toml"
        path.write_text(config)
        self.log_path = folder / "gateway.log"
        self.notified = ""
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(folder / "gateway-notify"))
        self._notify.setblocking(False)
        command = [sys.executable, "-m", "edgettsd.gateways.main", "--config", str(path)]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*front, *command, "--bus-address", bus.address, *arguments],
                stdout=log,
                stderr=log,
                env=environment(NOTIFY_SOCKET=str(folder / "gateway-notify"), **(env or {})),
            )
        if wait:
            until(lambda: "READY=1" in self.notifications() or self._ended(), "the gateway")
            assert not self._ended(), self.log

    @property
    def log(self) -> str:
        """What the gateway has logged so far."""
        return self.log_path.read_text()

    @property
    def http_port(self) -> int:
        """The port of HTTP."""
        return self._port("http")

    @property
    def wyoming_port(self) -> int:
        """The port of Wyoming."""
        return self._port("wyoming")

    def notifications(self) -> str:
        """What was notified so far."""
        while self._notify.fileno() >= 0:
            try:
                self.notified += self._notify.recv(4096).decode() + "\n"
            except BlockingIOError:
                break
        return self.notified

    def memory_kb(self) -> int:
        """Resident memory in kB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    def fd_count(self) -> int:
        """Open descriptors."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self) -> int:
        """Stop it and return the exit status; idempotent."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the gateway does not stop:\n{self.log}") from None
        self.notifications()
        self._notify.close()
        return status

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def _port(self, name: str) -> int:
        found = re.search(rf"{name} on [^,\n]*?:(\d+)", self.notifications())
        assert found is not None, self.notified
        return int(found[1])


@contextmanager
def serving(gateway: Gateway) -> Iterator[Gateway]:
    """The gateway, which must run to the end, and then stop with status 0 and without a traceback."""
    try:
        yield gateway
    except BaseException:
        gateway.process.kill()
        gateway.stop()
        print(gateway.log, file=sys.stderr)
        raise
    early = gateway.process.poll()
    status = gateway.stop()
    assert (early, status) == (None, 0), gateway.log
    assert "Traceback" not in gateway.log and "never retrieved" not in gateway.log, gateway.log
