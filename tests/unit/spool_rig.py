"""Spools, what feeds them and what reads them; fixtures for `pytest_plugins = ("audio_rigs", "spool_rig")`.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from audio_rigs import Player

from cython_kernels.delivery import Store

SLOT = 32_768


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def until(test: Callable[[], Any], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def read_all(fd: int, piece: int = 65_536, pause: float = 0.0) -> bytes:
    got = bytearray()
    while part := os.read(fd, piece):
        got += part
        time.sleep(pause)
    os.close(fd)
    return bytes(got)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    folder = tmp_path / "store"
    folder.mkdir()
    yield Store(folder, 1 << 24)
    assert list(folder.iterdir()) == [], "the overflow file has a name"


@pytest.fixture
def player() -> Iterator[Player]:
    with Player() as made:
        yield made


class Reading(threading.Thread):
    """Reads a descriptor to its end."""

    def __init__(self, fd: int, piece: int = 65_536, pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._arguments = fd, piece, pause
        self.data = b""
        self.start()

    def run(self) -> None:
        self.data = read_all(*self._arguments)

    def all(self) -> bytes:
        self.join(20)
        assert not self.is_alive(), "the stream has no end"
        return self.data
