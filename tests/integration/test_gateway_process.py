"""The gateway as a process: sockets of systemd, its stop, its bus, what it holds."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from integration.gateway_rig import Gateway, serving
from integration.harness import PrivateBus, System, environment, running, until

from edgettsd.gateways.main import EXIT_CONFIG

# Binds two sockets as systemd does, and becomes the gateway.
ACTIVATE = """
import os, socket, sys
host, command = sys.argv[1], sys.argv[2:]
for number in (3, 4):
    with socket.create_server((host, 0)) as sock:
        if sock.fileno() != number:
            os.dup2(sock.fileno(), number)
        else:
            sock.detach()
    os.set_inheritable(number, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "wyoming:http"}
os.execv(command[0], command)
"""


def activated(host: str) -> tuple[str, ...]:
    """What comes in front of the gateway's command line."""
    return (sys.executable, "-c", ACTIVATE, host)


def ask(gateway: Gateway, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=30)
    try:
        headers = {"Content-Type": "application/json", "Host": "localhost"}
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def speech(**fields: object) -> bytes:
    return json.dumps({"input": "Good morning.", "response_format": "pcm"} | fields).encode()


def test_it_serves_the_sockets_of_systemd(bus: PrivateBus, folder: Path) -> None:
    with serving(Gateway(bus, folder, front=activated("127.0.0.1"))) as gateway:
        assert ask(gateway, "/health")[0] == 503
        with socket.create_connection(("127.0.0.1", gateway.wyoming_port), timeout=20) as sock:
            sock.sendall(b'{"type": "describe"}\n')
            assert b'"type": "info"' in sock.recv(65536)


def test_it_refuses_open_sockets_of_systemd_without_a_token(bus: PrivateBus, folder: Path) -> None:
    gateway = Gateway(bus, folder, front=activated("0.0.0.0"), wait=False)
    assert gateway.process.wait(30) == EXIT_CONFIG
    assert "HTTP on '0.0.0.0'" in gateway.log and "needs a token" in gateway.log
    assert "READY=1" not in gateway.notifications() and "needs a token" in gateway.notified
    gateway.stop()


def test_it_stops_while_it_speaks(bus: PrivateBus, folder: Path) -> None:
    (folder / "daemon").mkdir()
    with running(System(bus, folder / "daemon", engine="fake:1")), ExitStack() as stack:
        gateway = Gateway(bus, folder)
        data = speech(input="One sentence. " * 100)
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
        with serving(gateway):
            one, two = (
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                for port in (gateway.http_port, gateway.wyoming_port)
            )
            one.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + data)
            assert b"200 OK" in one.recv(1000)
            two.sendall(b'{"type": "synthesize", "data": {"text": "Good morning."}}\n')
            began = time.monotonic()
        # systemd kills after 10 s.
        assert time.monotonic() - began < 8
    assert "STOPPING=1" in gateway.notified


def test_requests_leave_nothing_behind(bus: PrivateBus, folder: Path) -> None:
    (folder / "daemon").mkdir()
    with (
        running(System(bus, folder / "daemon", engine="fake:1000")) as system,
        serving(Gateway(bus, folder)) as gateway,
    ):
        until(lambda: ask(gateway, "/health")[0] == 200, "health")

        def some() -> None:
            for name in ("pcm", "mp3", "opus", "flac", "wav", "aac"):
                assert ask(gateway, "/v1/audio/speech", speech(response_format=name))[0] == 200
            assert ask(gateway, "/v1/audio/speech", speech(voice="nobody"))[0] == 400

        def settled() -> tuple[int, int]:
            """Open descriptors of both processes, when half a second has changed nothing."""
            last: tuple[int, int] = (0, 0)

            def same() -> bool:
                nonlocal last
                time.sleep(0.5)
                now = gateway.fd_count(), system.fd_count()
                last, old = now, last
                return now == old

            until(same, "no change in the number of descriptors")
            return last

        some()
        before = settled()
        for _ in range(4):
            some()
        after = settled()
        assert after[0] <= before[0] and after[1] <= before[1], (before, after)
        children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children").read_text()
        assert children == ""


def test_it_outlives_its_bus(bus: PrivateBus, folder: Path) -> None:
    with serving(Gateway(bus, folder)) as gateway:
        until(lambda: ask(gateway, "/health")[0] == 503, "an answer")
        bus.process.kill()
        bus.process.wait()
        until(lambda: "trying again" in gateway.log, "the loss in the log")
        status, data = ask(gateway, "/v1/audio/speech", speech())
        assert status == 503 and json.loads(data)["error"]["code"] == "unavailable"


def test_without_its_libraries_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError('no aiohttp', name='aiohttp')\n")
    command = [sys.executable, "-c", "from edgettsd.gateways import start; raise SystemExit(start())"]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=str(tmp_path)), capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2 and "aiohttp is not installed" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
