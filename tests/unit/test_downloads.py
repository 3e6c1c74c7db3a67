"""What a download can leave behind is never made into a model, nor loaded: error pages, halves, pointers.

A local web server gives the files of a checkpoint or a bundle, all but one of them right, and they are
fetched as a careless script would: whatever came is kept under the file's name.
"""

from __future__ import annotations

import http.client
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import model_files
import pytest
from edgettsd_tools.convert import Options, convert

from edgettsd.errors import ModelInvalidError
from edgettsd.models.store import open_bundle

PAGE = b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>gone</body></html>\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n"
FAULTS = ("page", "page of the right size", "half", "half, to the end of a line", "pointer", "nothing")
BUNDLE = (
    "manifest.json",
    "talker.gguf",
    "predictor.gguf",
    "embeddings.safetensors",
    "decoder.tflite",
    "tokenizer.gguf",
)


class Site(http.server.ThreadingHTTPServer):
    """Serves `folder`; the file at `broken` with `fault`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.broken, self.fault = Path(), "", ""


class Handler(http.server.BaseHTTPRequestHandler):
    """One request; always answered with 200 OK, as error pages of proxies and portals are."""

    server: Site

    def do_GET(self) -> None:
        data = (self.server.folder / self.path[1:]).read_bytes()
        length = len(data)
        if self.path[1:] == self.server.broken:
            data = {
                "page": PAGE,
                "page of the right size": PAGE.ljust(length, b" ")[:length],
                "half": data[: length // 2],
                "half, to the end of a line": data[: data.find(b"\n", length // 2) + 1]
                or data[: length // 3],
                "pointer": POINTER % (b"0" * 64, length),
                "nothing": b"",
            }[self.server.fault]
            # The connection breaks off in the middle of the file.
            length = length if self.server.fault.startswith("half") else len(data)
        self.send_response(200)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    server = Site()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def download(site: Site, files: tuple[str, ...], target: Path) -> None:
    """Fetch every file, and keep whatever came of it."""
    for name in files:
        connection = http.client.HTTPConnection(*site.server_address[:2], timeout=10)
        connection.request("GET", f"/{name}")
        try:
            data = connection.getresponse().read()
        except http.client.IncompleteRead as error:
            data = error.partial
        connection.close()
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", model_files.CHECKPOINT_FILES)
def test_a_checkpoint_that_did_not_arrive_whole_is_not_converted(
    site: Site, name: str, fault: str, tmp_path: Path
) -> None:
    site.folder, site.broken, site.fault = model_files.checkpoint(), name, fault
    download(site, model_files.CHECKPOINT_FILES, tmp_path / "in")
    assert (tmp_path / "in" / name).read_bytes() != (site.folder / name).read_bytes()
    with pytest.raises(ModelInvalidError, match=name.rsplit("/", 1)[-1].replace(".", r"\.")):
        convert(tmp_path / "in", tmp_path / "out", Options())
    assert os.listdir(tmp_path) == ["in"], "something was left that could be taken for a model"


@pytest.mark.parametrize("verify", ["size", "full"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", BUNDLE)
def test_a_bundle_that_did_not_arrive_whole_is_not_loaded(
    site: Site, name: str, fault: str, verify: str, tmp_path: Path
) -> None:
    site.folder, site.broken, site.fault = model_files.bundle(), name, fault
    download(site, BUNDLE, tmp_path / "bundle")
    with pytest.raises(ModelInvalidError, match=name.replace(".", r"\.")):
        open_bundle(tmp_path / "bundle", verify)


def test_what_arrives_whole_is_converted_and_loaded(site: Site, tmp_path: Path) -> None:
    site.folder, site.broken = model_files.checkpoint(), ""
    download(site, model_files.CHECKPOINT_FILES, tmp_path / "in")
    convert(tmp_path / "in", tmp_path / "out", Options(talker="q8_0", predictor="q8_0"))
    open_bundle(tmp_path / "out", "full")
    site.folder = tmp_path / "out"
    download(site, BUNDLE, tmp_path / "bundle")
    open_bundle(tmp_path / "bundle", "full")
