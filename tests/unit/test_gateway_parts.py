"""The gateway without a daemon: configuration, sockets, and what is refused before anything is served."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgettsd.gateways import config, listen
from edgettsd.gateways.config import ConfigError, GatewayConfig, check_open, load
from edgettsd.gateways.http._metrics import Histogram
from edgettsd.gateways.http._openapi import document
from edgettsd.gateways.main import EXIT_CONFIG, EXIT_FAILED, main
from edgettsd.text.markdown import spoken

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "systemd" / "gateway.toml"


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Takes back what the program's own logging has set up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def write(folder: Path, text: str) -> Path:
    path = folder / "gateway.toml"
    path.write_text(text)
    return path


def test_the_sample_is_current_and_shows_the_defaults() -> None:
    text = SAMPLE.read_text()
    assert text == config.sample(), "regenerate: python -m edgettsd.gateways.config > systemd/gateway.toml"
    tables = tomllib.loads(re.sub(r"(?m)^#(?=\w+ = )", "", text))
    assert {section: set(table) for section, table in tables.items()} == {
        section.name: {key.name for key in dataclasses.fields(section.default_factory)}  # type: ignore
        for section in dataclasses.fields(GatewayConfig)
    }
    start = GatewayConfig().updated({"http": {"port": 1, "hosts": ["a"]}}, "test")
    assert start.updated(tables, "sample") == GatewayConfig()
    assert GatewayConfig().updated(tomllib.loads(text), "sample as shipped") == GatewayConfig()


def test_values_reach_their_fields(tmp_path: Path) -> None:
    loaded = load(
        write(
            tmp_path,
            '[bus]\nbus = "session"\n[http]\nhosts = ["speaker.lan"]\n[wyoming]\nenabled = false\n'
            '[speech]\nvoices = ["alloy = joe", "Nova="]\n[log]\nlevel = "debug"\n',
        )
    )
    assert loaded.bus.bus == "session" and loaded.http.hosts == ("speaker.lan",)
    assert not loaded.wyoming.enabled and loaded.log.level == "debug"
    assert loaded.aliases() == {"alloy": "joe", "Nova": ""}


@pytest.mark.parametrize(
    "text, message",
    [
        ("[engine]\nx = 1", r"unknown section \[engine\]; allowed: bus, http, wyoming, speech, log"),
        ("[http]\nporte = 1", r"\[http\] porte: unknown key; allowed: enabled, host, port"),
        ("[http]\nport = 70000", r"port = 70000: must be a whole number from 0 to 65535"),
        ('[http]\nhosts = "a"', r"hosts = 'a': must be a list of texts"),
        ("[http]\nhosts = [1]", r"hosts = \[1\]: must be a list of texts"),
        ('[http]\norigins = ["chat.example"]', r"origins: 'chat.example' must be such as https://"),
        ('[http]\norigins = ["https://a.example/x"]', r"must be such as https://chat.example"),
        ('[speech]\nvoices = ["alloy"]', r"voices: 'alloy' must be \"NAME=VOICE\""),
        ('[speech]\nvoices = ["=x"]', r"voices: '=x' must be"),
        ('[speech]\npriority = "urgent"', r"must be one of important, message, text, notification"),
    ],
)
def test_refusals_name_file_key_value_and_what_is_allowed(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    check_open(GatewayConfig(), "", [host], [host])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "speaker.lan", "::ffff:8.8.8.8", ""])
def test_the_network_needs_a_token_or_a_word(host: str) -> None:
    with pytest.raises(ConfigError, match="needs a token"):
        check_open(GatewayConfig(), "", [host], [])
    check_open(GatewayConfig(), "secret", [host], [])
    with pytest.raises(ConfigError, match="allow_unauthenticated"):
        check_open(GatewayConfig(), "secret", [], [host])
    check_open(GatewayConfig().updated({"wyoming": {"allow_unauthenticated": True}}, "x"), "", [], [host])


@pytest.mark.parametrize(
    "text, token, status, said",
    [
        ('[http]\nhost = "0.0.0.0"\n', None, EXIT_CONFIG, "needs a token"),
        ('[wyoming]\nhost = "::"\n', None, EXIT_CONFIG, "has no authentication"),
        ("[http]\nenabled = false\n[wyoming]\nenabled = false\n", None, EXIT_CONFIG, "nothing is served"),
        ("", "", EXIT_CONFIG, "must have one line"),
        ("", "two words", EXIT_CONFIG, "must have one line"),
        ("", "sé", EXIT_CONFIG, "not ASCII"),
        ("", "a" * 5000, EXIT_CONFIG, "must have one line"),
        ('[http]\nhost = "no.such.host.invalid"\n', "secret", EXIT_FAILED, "cannot listen on"),
        ("[nonsense]\n", None, EXIT_CONFIG, "unknown section"),
    ],
)
def test_what_it_refuses_to_serve(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    token: str | None,
    status: int,
    said: str,
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if token is not None:
        (tmp_path / "http-token").write_text(token)
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    arguments = ["--config", str(write(tmp_path, text)), "--http-port", "0", "--wyoming-port", "0"]
    assert main(arguments) == status
    assert said in capsys.readouterr().err


def test_a_token_file_that_is_missing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, f'[http]\ntoken_file = "{tmp_path}/none"\n')
    assert main(["--config", str(path)]) == EXIT_CONFIG
    assert "none: No such file" in capsys.readouterr().err


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["--config", str(write(tmp_path, "")), "--http-port", str(port)]) == EXIT_FAILED
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in capsys.readouterr().err


CHILD = """
import os, sys
from edgettsd.gateways import listen
os.environ["LISTEN_PID"] = str(os.getpid())
try:
    found = listen.passed()
except listen.ListenError as error:
    sys.exit(f"refused: {error}")
print({name: [listen.name_of(s) for s in group] for name, group in found.items()})
left = [name for name in os.environ if name.startswith("LISTEN_")]
print(left, [sock.get_inheritable() for group in found.values() for sock in group])
"""


def child(sockets: list[socket.socket], names: str, count: int) -> subprocess.CompletedProcess[str]:
    """A process to which systemd's way passes these sockets from descriptor 3 on."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names},
        preexec_fn=lambda: [os.dup2(sock.fileno(), 3 + i) for i, sock in enumerate(sockets)] and None,
        pass_fds=range(3, 3 + len(sockets)),
    ) as process:
        out, err = process.communicate(timeout=30)
        return subprocess.CompletedProcess([], process.returncode, out, err)


def test_sockets_of_systemd_come_by_their_names() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        # Descriptors that are in nobody's way.
        with one.dup() as a, two.dup() as b:
            done = child([a, b], "http:wyoming", 2)
        names = {"http": [listen.name_of(one)], "wyoming": [listen.name_of(two)]}
    assert done.stdout.splitlines() == [str(names), "[] [False, False]"], done.stderr


def test_a_descriptor_that_does_not_listen_is_refused() -> None:
    with socket.socket() as plain:
        done = child([plain], "http", 1)
    assert "refused: descriptor 3 (http) of systemd is not a listening socket" in done.stderr


def test_variables_for_another_process_are_left_alone() -> None:
    assert listen.passed({"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"}) == {}
    assert listen.passed({}) == {}


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert list(histogram.lines("x", "Words."))[2:] == [
        'x_bucket{le="1"} 2',
        'x_bucket{le="2"} 3',
        'x_bucket{le="+Inf"} 4',
        "x_sum 12",
        "x_count 4",
    ]


@pytest.mark.parametrize(
    "text, said",
    [
        ("Good morning.", "Good morning."),
        ("2 * 3 < 7 & 5_000 things", "2 * 3 < 7 & 5_000 things"),
        ("It costs $5, 20% of 1.50.", "It costs $5, 20% of 1.50."),
        ("# Title\n\nText **bold** and *light*.", "Title.\nText bold and light."),
        ("- one\n- two\n", "one.\ntwo."),
        ("See [the page](https://x.example/a_b).", "See the page."),
        ("![a cat](cat.png) sits", "a cat sits"),
        ("Run `make` now", "Run make now"),
        ("Before\n\n```\ncode()\n```\n\nafter", "Before.\nafter."),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", "a, b.\n1, 2."),
        ("Hello \U0001f44b\U0001f3fd \u2764\ufe0f there", "Hello there"),
        ("一 ~~二~~ 三。", "一 二 三。"),
        ("\U0001f600", ""),
        ("", ""),
    ],
)
def test_what_is_read_of_markdown(text: str, said: str) -> None:
    assert spoken(text) == said


PAGE = (ROOT / "docs" / "gateways.md").read_text()


def test_the_page_names_keys_that_exist() -> None:
    named = set(re.findall(r"`\[(\w+)\] (\w+)`", PAGE))
    known = {
        (section.name, key.name)
        for section in dataclasses.fields(GatewayConfig)
        for key in dataclasses.fields(section.default_factory)  # type: ignore
    }
    assert len(named) >= 10 and named <= known, named - known


def test_the_page_names_every_path_and_field() -> None:
    described = document()
    for path in described["paths"]:
        assert path.replace("{model}", "NAME") in PAGE, path
    for field in described["components"]["schemas"]["SpeechRequest"]["properties"]:
        assert f"| `{field}` |" in PAGE, field
