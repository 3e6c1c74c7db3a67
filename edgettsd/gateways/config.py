"""The gateway's configuration file, in the form of the daemon's.

The commented sample `gateway.toml` is made from these declarations (``python -m edgettsd.gateways.config``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edgettsd import settings
from edgettsd.config import BusConfig, LogConfig
from edgettsd.engine._api import Priority
from edgettsd.settings import ConfigError, key

__all__ = ["DEFAULT_PATH", "ConfigError", "GatewayConfig", "check_open", "is_loopback", "load", "sample"]

DEFAULT_PATH = Path("/etc/edgettsd/gateway.toml")


@dataclass(frozen=True, slots=True)
class DaemonBusConfig(BusConfig):
    """Where the daemon's interface is."""


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The OpenAI speech API and the page, over HTTP."""

    enabled: bool = key(True, "Serve HTTP.")
    host: str = key(
        "127.0.0.1",
        "Address to listen on, where systemd passes no socket. Others than loopback need a token.",
    )
    port: int = key(8880, "Port to listen on; 0: any free one.", low=0, high=65535)
    hosts: tuple[str, ...] = key(
        (), "Names of this host that requests may be sent to, beside localhost.", texts=True
    )
    origins: tuple[str, ...] = key(
        (),
        "Origins of other sites whose pages may use the gateway, such as https://chat.example.",
        texts=True,
    )
    token_file: str = key(
        "", "File with the bearer token; empty: the systemd credential http-token, or none on loopback."
    )
    requests: int = key(16, "Requests for speech at once; more are answered 429.", low=1, high=1024)
    connections: int = key(64, "Connections at once; more are closed.", low=1, high=4096)
    body_kib: int = key(256, "Largest body of a request, in KiB.", low=1, high=16384)
    header_seconds: float = key(
        10.0, "A connection without a whole request for this long is closed, in seconds.", above=0, high=600
    )


@dataclass(frozen=True, slots=True)
class WyomingConfig:
    """Home Assistant's protocol for voice services. It has no authentication of its own."""

    enabled: bool = key(True, "Serve Wyoming.")
    host: str = key("127.0.0.1", "Address to listen on, where systemd passes no socket.")
    port: int = key(10200, "Port to listen on; 0: any free one.", low=0, high=65535)
    allow_unauthenticated: bool = key(
        False, "Allow others than loopback to connect, though anybody who reaches the port may then speak."
    )
    connections: int = key(16, "Connections at once; more are closed.", low=1, high=1024)


@dataclass(frozen=True, slots=True)
class SpeechConfig:
    """How what foreign clients ask for is said."""

    priority: str = key(
        "message",
        "Priority of their utterances among all that wait.",
        choices=tuple(priority.name.lower() for priority in Priority),
    )
    plain_text: bool = key(False, "Say texts as they are, Markdown signs and emoji included.")
    voices: tuple[str, ...] = key(
        (), 'Other names of voices, each "NAME=VOICE"; without VOICE the default one.', texts=True
    )


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The whole configuration."""

    bus: DaemonBusConfig = field(default_factory=DaemonBusConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    wyoming: WyomingConfig = field(default_factory=WyomingConfig)
    speech: SpeechConfig = field(default_factory=SpeechConfig)
    log: LogConfig = field(default_factory=LogConfig)

    def updated(self, tables: Mapping[str, Any], origin: str) -> GatewayConfig:
        """A copy with the keys of `tables` ({section: {key: value}}) replaced, checked like a file.

        `origin` names the source in errors. Raises ConfigError.
        """
        result = settings.updated(self, tables, origin)
        for given in result.speech.voices:
            if not given.partition("=")[0].strip() or "=" not in given:
                raise ConfigError(f'{origin}: [speech] voices: {given!r} must be "NAME=VOICE" or "NAME="')
        for given in result.http.origins:
            parts = urlsplit(given)
            if given != f"{parts.scheme}://{parts.netloc}" or not parts.netloc:
                raise ConfigError(f"{origin}: [http] origins: {given!r} must be such as https://chat.example")
        return result

    def aliases(self) -> dict[str, str]:
        """Names of voices that clients may use, with the daemon's; empty: the default one."""
        return {
            name.strip(): voice.strip() for name, _, voice in (v.partition("=") for v in self.speech.voices)
        }


def load(path: Path | None = None) -> GatewayConfig:
    """Read `path`, or /etc/edgettsd/gateway.toml and gateway.toml.d/*.toml. Raises ConfigError."""
    return settings.load(GatewayConfig(), DEFAULT_PATH, path)


def sample() -> str:
    """The commented sample file: every key with its documentation and default."""
    return settings.sample(GatewayConfig, "edgettsd-gateway", DEFAULT_PATH)


def check_open(
    config: GatewayConfig, token: str, http_hosts: Collection[str], wyoming_hosts: Collection[str]
) -> None:
    """Refuse to serve the network on these addresses without protection; raises ConfigError."""
    for host in http_hosts:
        if not is_loopback(host) and not token:
            raise ConfigError(
                f"HTTP on {host!r}, which is not a loopback address, needs a token: set [http] token_file, "
                "or pass the systemd credential http-token"
            )
    for host in wyoming_hosts:
        if not is_loopback(host) and not config.wyoming.allow_unauthenticated:
            raise ConfigError(
                f"Wyoming on {host!r}, which is not a loopback address, has no authentication: set [wyoming] "
                "allow_unauthenticated = true if whoever reaches the port may speak"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    print(sample(), end="")
