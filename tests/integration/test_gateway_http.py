"""HTTP: the OpenAI speech API as its own client drives it, against the real gateway and daemon."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import math
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from integration.gateway_rig import Gateway, serving
from integration.harness import Client, PrivateBus, System, environment, running, until
from test_encoders import decoded

from edgettsd.client import render

TEXT = "Good morning. The kettle is ready."
LONG = "One sentence of many words that is said again. " * 40
RATE = 24000


class Rig:
    """A daemon and a gateway on one bus."""

    def __init__(self, system: System, gateway: Gateway) -> None:
        self.system = system
        self.gateway = gateway
        self.url = f"http://127.0.0.1:{gateway.http_port}"
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=30)

    def speech(self, text: str = TEXT, **more: Any) -> bytes:
        """What the client gets for a text."""
        request = {"model": "tts-1", "voice": "alloy", "response_format": "pcm"} | more
        return self.client.audio.speech.create(input=text, **request).content

    def ask(
        self, path: str, body: bytes | None = None, method: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer; headers are named with _ for -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.http_port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named.setdefault("Content-Type", "application/json")
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body, named)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        """A JSON answer."""
        status, _, body = self.ask(path)
        assert status in (200, 503), body
        return json.loads(body)


Start = Callable[..., Rig]


@pytest.fixture
def rig_of(bus: PrivateBus, tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Start]:
    """Starts a daemon and a gateway; `engine` is the daemon's, `daemon` and `config` are TOML texts."""
    with ExitStack() as stack:

        def start(engine: str = "fake:20", config: str = "", daemon: str = "", **more: Any) -> Rig:
            (folder / "daemon").mkdir()
            system = stack.enter_context(
                running(System(bus, folder / "daemon", engine=engine, config=daemon))
            )
            rig = Rig(system, stack.enter_context(serving(Gateway(bus, folder, config=config, **more))))
            stack.callback(rig.client.close)
            until(lambda: rig.json("/health")["status"] == "ok", "health")
            return rig

        yield start


@pytest.fixture
def rig(rig_of: Start) -> Rig:
    return rig_of()


def body(**fields: Any) -> bytes:
    return json.dumps({"input": TEXT, "response_format": "pcm"} | fields).encode()


def error_of(answer: tuple[int, dict[str, str], bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer[2])["error"]
    assert set(found) == {"message", "type", "param", "code"}
    return found


def test_every_format_says_the_whole_text(rig: Rig) -> None:
    plain = np.frombuffer(rig.speech(), "<i2")
    assert len(plain) > RATE // 2
    for name, rate, delay, more in (
        ("wav", RATE, 0, 0),
        ("flac", RATE, 0, 0),
        ("opus", 48000, 0, 0),
        ("mp3", RATE, 0, 3 * 576),
        ("aac", RATE, 1024, 3 * 1024),
    ):
        answer = rig.client.audio.speech.create(
            model="tts-1", voice="alloy", input=TEXT, response_format=name
        )
        assert answer.response.headers["Content-Type"].startswith("audio/")
        found = decoded(answer.content, rate, *(("-f", "aac") if name == "aac" else ()))
        expected = len(plain) * rate // RATE + delay
        assert 0 <= len(found) - expected <= more, name


def test_the_default_is_mp3_and_unknown_fields_are_ignored(rig: Rig) -> None:
    answer = rig.client.audio.speech.create(
        model="whatever",
        voice="nova",
        input=TEXT,
        instructions="None",
        extra_body={"lang_code": "a", "volume_multiplier": 2},
    )
    assert answer.response.headers["Content-Type"] == "audio/mpeg"
    assert "X-Ignored" not in answer.response.headers
    assert len(decoded(answer.content, RATE)) > RATE // 2


def test_the_example_of_the_documentation(rig: Rig, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "gateways.md").read_text()
    (example,) = re.findall(r"(?ms)^```python\n(.*?)^```", page)
    code = example.replace("http://127.0.0.1:8880", rig.url)
    assert code != example
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60, env=environment())
    assert len(decoded((tmp_path / "kettle.wav").read_bytes(), RATE)) > RATE // 2


def test_server_sent_events(rig: Rig) -> None:
    status, headers, data = rig.ask("/v1/audio/speech", body(stream_format="sse"))
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in data.decode().split("\n\n") if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"} and len(events) > 3
    assert events[-1]["type"] == "speech.audio.done" and "usage" in events[-1]
    assert b"".join(base64.b64decode(e["audio"]) for e in events[:-1]) == rig.speech()


def test_it_is_the_daemons_own_speech(rig: Rig) -> None:
    async def direct() -> bytes:
        options = {"priority": "message"}
        async with render(False, rig.system.bus.address, TEXT, options) as speech:
            return b"".join([piece async for piece in speech])

    assert rig.speech() == asyncio.run(direct())


@pytest.mark.parametrize(
    "fields, param, said",
    [
        ({"input": ""}, "input", "1 to 4096"),
        ({"input": None}, "input", "1 to 4096"),
        ({"input": 5}, "input", "5: allowed is a string"),
        ({"input": "a" * 4097}, "input", "4097 characters"),
        ({"input": "a\0b"}, "input", "NUL"),
        ({"input": "a\ud800"}, "input", "surrogate"),
        ({"voice": 3}, "voice", 'a string, or an object with "id"'),
        ({"voice": "nobody"}, "voice", "nobody"),
        ({"response_format": "wma"}, "response_format", "mp3, opus, aac, flac, wav, pcm"),
        ({"speed": 5}, "speed", "0.25 to 4"),
        ({"speed": True}, "speed", "0.25 to 4"),
        ({"speed": float("nan")}, "speed", "0.25 to 4"),
        ({"stream_format": "x"}, "stream_format", "audio, sse"),
        ({"plain_text": 1}, "plain_text", "true or false"),
    ],
)
def test_wrong_fields_are_named(shared: Rig, fields: dict[str, Any], param: str, said: str) -> None:
    answer = shared.ask("/v1/audio/speech", body(**fields))
    error = error_of(answer)
    assert (answer[0], error["param"], error["type"]) == (400, param, "invalid_request_error")
    assert said in error["message"], error


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"input": 1e999999}'])
def test_a_body_that_is_no_request_is_refused(shared: Rig, data: bytes) -> None:
    answer = shared.ask("/v1/audio/speech", data)
    assert answer[0] == 400 and error_of(answer)["type"] == "invalid_request_error"


def test_the_clients_own_exceptions(shared: Rig) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        shared.speech(voice="nobody")
    assert caught.value.param == "voice" and "nobody" in str(caught.value)
    with pytest.raises(openai.NotFoundError):
        shared.client.models.retrieve("no-such-model")


def test_who_may_not_ask(shared: Rig) -> None:
    assert error_of(shared.ask("/v1/voices", Host="evil.example:8880"))["code"] == "bad_host"
    for host in ("127.0.0.1:8880", "localhost", "[::1]:8880"):
        assert shared.ask("/v1/voices", Host=host)[0] == 200
    answer = shared.ask("/v1/audio/speech", body(), Origin="http://evil.example")
    assert (answer[0], error_of(answer)["code"]) == (403, "bad_origin")
    assert "access-control-allow-origin" not in answer[1]
    assert shared.ask("/v1/audio/speech", method="OPTIONS", Origin="http://evil.example")[0] == 403
    answer = shared.ask("/v1/audio/speech", body(), Content_Type="text/plain")
    assert (answer[0], error_of(answer)["code"]) == (415, "bad_type")
    assert shared.ask("/v1/audio/speech", b"x" * 300 * 1024)[0] == 413
    assert shared.ask("/nothing")[0] == 404 and shared.ask("/v1/audio/speech")[0] == 405


def test_models_voices_and_the_description(shared: Rig) -> None:
    models = [model.id for model in shared.client.models.list()]
    assert "tts-1" in models and shared.client.models.retrieve("tts-1").owned_by == "edgettsd"
    voices = shared.json("/v1/voices")
    assert voices == shared.json("/v1/audio/voices")
    assert voices["voices"] == voices["data"] and sum(v["default"] for v in voices["voices"]) == 1
    for voice in voices["voices"]:
        assert shared.speech(voice=voice["id"]) and shared.speech(voice={"id": voice["id"].upper()})
    page = shared.json("/openapi.json")
    assert page["openapi"].startswith("3.1")
    assert set(page["paths"]) >= {"/v1/audio/speech", "/health", "/metrics"}
    for path, entry in page["paths"].items():
        if "get" in entry:
            assert shared.ask(path)[0] == 200, path


def test_the_page_has_nothing_from_elsewhere(shared: Rig) -> None:
    for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
        status, headers, data = shared.ask(path)
        assert status == 200 and headers["content-type"].startswith(kind)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert not re.search(rb"https?://|style=|onclick", data)


def test_figures_for_prometheus(rig: Rig) -> None:
    rig.speech()

    def count() -> bool:
        return b'edgettsd_utterances_total{reason="completed"} 1' in rig.ask("/metrics")[2]

    until(count, "the utterance in the figures")
    text = rig.ask("/metrics")[2].decode()
    assert "edgettsd_up 1" in text
    for line in text.splitlines():
        assert line.startswith("# ") or re.fullmatch(r'\w+(\{\w+="[^"]+"\})? [-+.\deInf]+', line), line


def test_markdown_is_not_read_aloud(rig: Rig) -> None:
    marked = "# Good morning\n\n**The kettle** is [ready](https://x.example/y). \U0001f600\n"
    plain = "Good morning.\nThe kettle is ready."
    assert rig.speech(marked) == rig.speech(plain)
    assert rig.speech(marked, extra_body={"plain_text": True}) != rig.speech(plain)


def test_sound_comes_before_the_end(rig_of: Start) -> None:
    rig = rig_of(engine="fake:1")
    for name in ("pcm", "wav", "flac", "opus", "mp3"):
        began = time.monotonic()
        with rig.client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input=TEXT, response_format=name
        ) as answer:
            pieces = answer.iter_bytes(1024)
            next(pieces)
            first = time.monotonic() - began
            for _ in pieces:
                pass
        assert first < (time.monotonic() - began) / 2, name


@pytest.mark.parametrize("name", ["pcm", "mp3"])
def test_a_client_that_goes_away_frees_the_engine(rig_of: Start, name: str) -> None:
    rig = rig_of(engine="fake:1")

    async def test() -> None:
        async with Client(rig.system.bus.address) as witness:
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.gateway.http_port)
            data = body(input=LONG, response_format=name)
            head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
            writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + data)
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(100)
            writer.transport.abort()
            closed = time.monotonic()
            ended = await witness.until(
                lambda: [s for s in witness.signals if s[0] == "Finished"], "the utterance's end"
            )
            assert ended[0][1][1] == "aborted"
            # The bound is 50 ms; the machine may have other things to do.
            assert time.monotonic() - closed < 1.0

    asyncio.run(asyncio.wait_for(test(), 60))


def test_too_many_at_once_are_told_so(rig_of: Start) -> None:
    rig = rig_of(engine="fake:1", config="[http]\nrequests = 2\n")
    with ExitStack() as stack:
        for _ in range(2):
            answer = stack.enter_context(
                rig.client.audio.speech.with_streaming_response.create(
                    model="x", voice="alloy", input=LONG, response_format="pcm"
                )
            )
            assert answer.status_code == 200
            if _ == 0:
                # The second one waits for the first; what waits has no answer yet.
                break
        stack.enter_context(waiting(rig, body(input=LONG)))
        until(lambda: rig.json("/v1/state")["queue"] == 1, "the second request")
        status, headers, _ = rig.ask("/v1/audio/speech", body())
        assert (status, headers["retry-after"]) == (429, "2")
        with pytest.raises(openai.RateLimitError):
            rig.speech()
        assert rig.ask("/health")[0] == 200


def waiting(rig: Rig, data: bytes) -> socket.socket:
    """A request that is sent, and whose answer nobody reads."""
    sock = socket.create_connection(("127.0.0.1", rig.gateway.http_port))
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n"
    sock.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + data)
    return sock


def test_a_full_queue_is_told_so(rig_of: Start) -> None:
    rig = rig_of(engine="fake:1", daemon="[engine]\nqueue_limit = 1\n")
    with waiting(rig, body(input=LONG)), waiting(rig, body(input=LONG)):
        until(lambda: rig.json("/v1/state")["queue"] == 1, "a full queue")
        answer = rig.ask("/v1/audio/speech", body())
        assert answer[0] == 429 and error_of(answer)["code"] == "rate_limit_exceeded"


def test_an_error_after_the_first_byte_is_no_clean_end(rig_of: Start) -> None:
    rig = rig_of(engine="fake:1", daemon="[engine]\nmax_seconds = 1.0\n")
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        rig.ask("/v1/audio/speech", body(input=LONG))
    # Server-sent events have a place for it.
    events = rig.ask("/v1/audio/speech", body(input=LONG, stream_format="sse"))[2].decode().split("\n\n")
    last = json.loads(events[-2].removeprefix("data: "))
    assert (last["type"], last["error"]["code"]) == ("error", "limit")


def test_a_token_is_asked_for(rig_of: Start, tmp_path: Path) -> None:
    (tmp_path / "http-token").write_text("se-cret\n")
    rig = rig_of(env={"CREDENTIALS_DIRECTORY": str(tmp_path)})
    with pytest.raises(openai.AuthenticationError):
        rig.speech()
    for wrong in ("se-cre", "se-crett", "sé-cret", ""):
        headers = {"Authorization": f"Bearer {wrong}".encode().decode("latin-1")}
        assert rig.ask("/v1/voices", **headers)[0] == 401
    assert rig.ask("/v1/voices", Authorization="Basic se-cret")[0] == 401
    client = rig.client.with_options(api_key="se-cret")
    assert client.audio.speech.create(model="x", voice="alloy", input=TEXT, response_format="pcm").content
    # A probe and the page need none.
    assert rig.ask("/health")[0] == 200 and rig.ask("/")[0] == 200


def test_a_page_of_a_configured_origin_may_ask(rig_of: Start) -> None:
    origin = "https://chat.example"
    rig = rig_of(config=f'[http]\norigins = ["{origin}"]\nhosts = ["speaker.lan"]\n')
    status, headers, _ = rig.ask("/v1/audio/speech", method="OPTIONS", Origin=origin, Host="speaker.lan:8880")
    assert (status, headers["access-control-allow-origin"]) == (204, origin)
    status, headers, _ = rig.ask("/v1/audio/speech", body(), Origin=origin)
    assert (status, headers["access-control-allow-origin"]) == (200, origin)
    assert rig.ask("/v1/voices", Origin="https://other.example")[0] == 403


def closed(sock: socket.socket) -> bool:
    """Whether the other end closes without an answer."""
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def test_slow_and_many_connections_are_closed(rig_of: Start) -> None:
    rig = rig_of(config="[http]\nconnections = 3\nheader_seconds = 1.0\n")
    address = ("127.0.0.1", rig.gateway.http_port)
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(address, timeout=20)) for _ in range(3)]
        for sock in slow:
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: localh")
        extra = stack.enter_context(socket.create_connection(address, timeout=20))
        assert closed(extra)
        for sock in slow:
            assert closed(sock)
    until(lambda: rig.ask("/health")[0] == 200, "an answer")


def test_random_bytes_do_no_harm(shared: Rig) -> None:
    random = np.random.default_rng(1)
    almost = b"GET / HTTP/1.1\r\nHost: localhost\r\nno header \xff\xfe\r\n\r\n"
    for data in (almost, *(random.bytes(size) for size in (1, 10, 1000, 20_000, 100_000))):
        with socket.create_connection(("127.0.0.1", shared.gateway.http_port), timeout=20) as sock:
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
            except (ConnectionResetError, BrokenPipeError):
                pass
    assert shared.ask("/health")[0] == 200
    assert "no request" in shared.gateway.log and "\\x" not in shared.gateway.log


@pytest.mark.parametrize("stream", ["audio", "sse"])
def test_clients_that_leave_at_any_time_are_no_errors(shared: Rig, stream: str) -> None:
    for number in range(30):
        with waiting(shared, body(input=TEXT * 5, stream_format=stream)) as sock:
            time.sleep(number * 0.01)
            # Reset instead of a regular end, half of the time.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", number % 2, 0))
    until(lambda: shared.json("/v1/state")["state"] == "idle", "the last one's end")
    assert "ERROR" not in shared.gateway.log and "Traceback" not in shared.gateway.log, shared.gateway.log


def test_a_daemon_that_is_away_and_comes_back(bus: PrivateBus, folder: Path) -> None:
    with serving(Gateway(bus, folder)) as gateway:
        url = f"http://127.0.0.1:{gateway.http_port}"

        def health() -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", gateway.http_port, timeout=20)
            connection.request("GET", "/health")
            answer = connection.getresponse()
            found = answer.status, str(json.loads(answer.read())["state"])
            connection.close()
            return found

        assert health() == (503, "unreachable")
        request = urllib.request.Request(
            f"{url}/v1/audio/speech", body(), {"Content-Type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=20)
        assert caught.value.code == 503 and caught.value.headers["Retry-After"]
        caught.value.close()
        for number in range(2):
            (folder / str(number)).mkdir()
            with running(System(bus, folder / str(number))):
                until(lambda: health()[0] == 200, "health with a daemon")
                with urllib.request.urlopen(request, timeout=20) as answer:
                    assert len(answer.read()) > RATE
            until(lambda: health() == (503, "unreachable"), "health without a daemon")


def test_the_built_in_voice_heeds_speed_and_has_figures(bus: PrivateBus, folder: Path) -> None:
    """A speed beyond the daemon's range is refused by name."""
    (folder / "daemon").mkdir()
    system = System(bus, folder / "daemon", engine="", config='[audio]\nsink = "fake"\n')
    with running(system), serving(Gateway(bus, folder)) as gateway:
        rig = Rig(system, gateway)
        seconds = {speed: len(rig.speech(speed=speed)) / 2 / RATE for speed in (0.5, 1.0, 2.0)}
        assert math.isclose(seconds[0.5], 2 * seconds[1.0], rel_tol=0.25)
        assert math.isclose(seconds[2.0], seconds[1.0] / 2, rel_tol=0.25)
        with pytest.raises(openai.BadRequestError) as caught:
            rig.speech(speed=4.0)
        assert caught.value.param == "speed"
        answer = rig.client.audio.speech.create(
            model="x", voice="alloy", input=TEXT, response_format="pcm", instructions="Whisper."
        )
        assert len(answer.content) > RATE and answer.response.headers["X-Ignored"] == "instructions"

        def buckets() -> list[int]:
            text = rig.ask("/metrics")[2].decode()
            return [int(n) for n in re.findall(r"edgettsd_ttfa_seconds_bucket\S* (\d+)", text)]

        until(lambda: buckets()[-1] == 4, "four utterances in the histogram")
        assert buckets() == sorted(buckets())
        rig.client.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One daemon and gateway for what leaves nothing behind."""
    import shutil
    import tempfile

    folders = [Path(tempfile.mkdtemp(prefix="edgettsd-")) for _ in range(2)]
    bus = PrivateBus(folders[0])
    try:
        with (
            running(System(bus, folders[1])) as system,
            serving(Gateway(bus, folders[0])) as gateway,
        ):
            rig = Rig(system, gateway)
            until(lambda: rig.json("/health")["status"] == "ok", "health")
            yield rig
            rig.client.close()
    finally:
        bus.close()
        for path in folders:
            shutil.rmtree(path)
