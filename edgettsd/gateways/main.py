"""The process edgettsd-gateway: its configuration, its listeners, ready, stop. Nothing else."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp import web

from edgettsd import __version__
from edgettsd import log as logs
from edgettsd.gateways import config as config_file
from edgettsd.gateways import listen
from edgettsd.gateways.config import ConfigError, GatewayConfig, HttpConfig, WyomingConfig, check_open
from edgettsd.gateways.http import app as http
from edgettsd.gateways.http._doors import BrokenRequests, Doors
from edgettsd.gateways.http._guard import Guard
from edgettsd.gateways.http._speech import Speech
from edgettsd.gateways.listen import ListenError
from edgettsd.gateways.voices import Voices
from edgettsd.gateways.watch import Watch
from edgettsd.gateways.wyoming.server import Wyoming, protocol
from edgettsd.notify import Notifier
from edgettsd.supervisor import Supervisor

log = logging.getLogger("edgettsd.gateways")

PROGRAM = "edgettsd-gateway"
EXIT_OK, EXIT_FAILED, EXIT_CONFIG = 0, 1, 2
# How long answers that are being sent may go on after the stop signal.
STOP_SECONDS = 2.0
# Names of the sockets that systemd passes (FileDescriptorName=).
HTTP, WYOMING = "http", "wyoming"
CREDENTIAL = "http-token"
LONGEST_TOKEN = 4096

Sockets = Mapping[str, Sequence[socket.socket]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to stop; returns the exit status."""
    options = _parser().parse_args(arguments)
    logs.set_up("info", program=PROGRAM)
    notifier = Notifier()
    try:
        config = _configuration(options)
        logs.set_up(config.log.level, program=PROGRAM)
        token = _token(config, os.environ)
        sockets = _sockets(config, token)
        return asyncio.run(_serve(config, token, sockets, notifier))
    except ConfigError as error:
        return _fail(notifier, EXIT_CONFIG, str(error))
    except ListenError as error:
        return _fail(notifier, EXIT_FAILED, str(error))
    finally:
        notifier.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Serves the OpenAI speech API with a page for people (HTTP), and Home Assistant's "
        "protocol Wyoming, by the daemon edgettsd. Options override the configuration file.",
        epilog="Exit status: 0 stopped, 1 failed, 2 usage or configuration.",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"configuration file (default {config_file.DEFAULT_PATH})"
    )
    bus = parser.add_mutually_exclusive_group()
    bus.add_argument("--session", action="store_true", help="reach the daemon over the session bus")
    bus.add_argument("--bus-address", metavar="ADDRESS", help="reach the daemon over the bus at this address")
    parser.add_argument("--http-port", type=int, metavar="PORT", help="port of HTTP; 0: any free one")
    parser.add_argument("--wyoming-port", type=int, metavar="PORT", help="port of Wyoming; 0: any free one")
    parser.add_argument("--log-level", metavar="LEVEL", help="debug, info, warning or error")
    return parser


def _configuration(options: argparse.Namespace) -> GatewayConfig:
    """The configuration file with the command line over it; raises ConfigError."""
    given = {
        "bus": {
            "bus": "session" if options.session else None,
            "address": "" if options.session else options.bus_address,
        },
        "http": {"port": options.http_port},
        "wyoming": {"port": options.wyoming_port},
        "log": {"level": options.log_level},
    }
    tables = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in given.items()
    }
    return config_file.load(options.config).updated(tables, "command line")


def _token(config: GatewayConfig, environment: Mapping[str, str]) -> str:
    """The bearer token; empty where none is configured. Raises ConfigError."""
    path = Path(config.http.token_file)
    if not config.http.token_file:
        path = Path(environment.get("CREDENTIALS_DIRECTORY", ""), CREDENTIAL)
        if "CREDENTIALS_DIRECTORY" not in environment or not path.exists():
            return ""
    try:
        with path.open("rb") as file:
            token = file.read(LONGEST_TOKEN + 1).decode("ascii").strip()
    except OSError as error:
        raise ConfigError(f"the token file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the token file {path} is not ASCII text") from error
    if not 0 < len(token) <= LONGEST_TOKEN or not token.isprintable() or " " in token:
        raise ConfigError(f"the token file {path} must have one line of 1 to {LONGEST_TOKEN} characters")
    return token


def _sockets(config: GatewayConfig, token: str) -> Sockets:
    """Listening sockets by what is served on them; raises ConfigError, ListenError."""
    given = listen.passed()
    for name in given.keys() - {HTTP, WYOMING}:
        raise ListenError(f"a socket of systemd is named {name!r}: allowed are {HTTP} and {WYOMING}")
    wanted: dict[str, HttpConfig | WyomingConfig] = {HTTP: config.http, WYOMING: config.wyoming}
    enabled = {name: section for name, section in wanted.items() if section.enabled}
    hosts = {
        name: [listen.host_of(sock) for sock in given[name]] if name in given else [section.host]
        for name, section in enabled.items()
    }
    check_open(config, token, hosts.get(HTTP, []), hosts.get(WYOMING, []))
    if not enabled:
        raise ConfigError("nothing is served: enable [http] or [wyoming]")
    return {
        name: given[name] if name in given else listen.bound(section.host, section.port)
        for name, section in enabled.items()
    }


async def _serve(config: GatewayConfig, token: str, sockets: Sockets, notifier: Notifier) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    where = config.bus.bus == "session", config.bus.address
    supervisor = Supervisor()
    supervisor.watch_loop()
    watch = Watch(*where)
    voices = Voices(watch, config.aliases())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(supervisor.close)
        supervisor.keep("daemon watch", watch.run, vital=True)
        if HTTP in sockets:
            await _serve_http(stack, config, token, (where, watch, voices), sockets[HTTP])
        if WYOMING in sockets:
            await _serve_wyoming(stack, config, supervisor, (where, watch, voices), sockets[WYOMING])
        served = ", ".join(
            f"{name} on {' and '.join(map(listen.name_of, group))}" for name, group in sockets.items()
        )
        log.info("serves %s; version %s", served, __version__)
        notifier.send(READY="1", STATUS=f"Serves {served}")
        stopped = supervisor.spawn("stop signal", stop.wait())
        fatal = supervisor.spawn("supervisor", supervisor.fatal())
        await asyncio.wait({stopped, fatal}, return_when=asyncio.FIRST_COMPLETED)
        notifier.send(STOPPING="1", STATUS="Stopping")
        return _fail(notifier, EXIT_FAILED, str(fatal.result())) if fatal.done() else EXIT_OK


# Where the daemon is, what is known of it, and the names of its voices.
Known = tuple[tuple[bool, str], Watch, Voices]


async def _serve_http(
    stack: AsyncExitStack,
    config: GatewayConfig,
    token: str,
    known: Known,
    sockets: Sequence[socket.socket],
) -> None:
    where, watch, voices = known
    settings = config.http
    speech = Speech(where, voices, priority=config.speech.priority, plain=config.speech.plain_text)
    guard = Guard(hosts=settings.hosts, origins=settings.origins, token=token, requests=settings.requests)
    doors = Doors(settings.connections, settings.header_seconds)
    app = http.make(watch, voices, speech, guard, doors, body_kib=settings.body_kib)
    logging.getLogger("aiohttp.server").addFilter(BrokenRequests())
    runner = web.AppRunner(
        app, handle_signals=False, access_log=None, handler_cancellation=True, shutdown_timeout=STOP_SECONDS
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    assert runner.server is not None
    doors.inner = runner.server
    for sock in sockets:
        server = await asyncio.get_running_loop().create_server(doors, sock=sock)
        stack.callback(server.close)


async def _serve_wyoming(
    stack: AsyncExitStack,
    config: GatewayConfig,
    supervisor: Supervisor,
    known: Known,
    sockets: Sequence[socket.socket],
) -> None:
    service = Wyoming(
        *known,
        priority=config.speech.priority,
        plain=config.speech.plain_text,
        connections=config.wyoming.connections,
    )

    def accept() -> asyncio.Protocol:
        return protocol(
            lambda reader, writer: supervisor.spawn("wyoming connection", service(reader, writer))
        )

    for sock in sockets:
        server = await asyncio.get_running_loop().create_server(accept, sock=sock)
        stack.callback(server.close)


def _fail(notifier: Notifier, status: int, reason: str) -> int:
    """Say why the gateway ends, to the log and to systemctl status."""
    log.error("%s", reason)
    notifier.send(STATUS=reason)
    return status


if __name__ == "__main__":
    sys.exit(main())
