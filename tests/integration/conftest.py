"""Fixtures: a private bus, and the real daemon on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.harness import PrivateBus, System, running


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a path short enough for unix sockets."""
    path = Path(tempfile.mkdtemp(prefix="edgettsd-"))
    yield path
    shutil.rmtree(path)


def _bus(system: bool) -> Iterator[PrivateBus]:
    path = Path(tempfile.mkdtemp(prefix="edgettsd-bus-"))
    bus = PrivateBus(path, system=system)
    yield bus
    bus.close()
    shutil.rmtree(path)


@pytest.fixture
def bus() -> Iterator[PrivateBus]:
    """A private bus on which everybody may do everything."""
    yield from _bus(system=False)


@pytest.fixture
def system_bus() -> Iterator[PrivateBus]:
    """A private bus with the rules of a system bus and the shipped policy."""
    yield from _bus(system=True)


@pytest.fixture
def start(bus: PrivateBus) -> Iterator[Callable[..., System]]:
    """Starts daemons on the private bus; each must run to the end of the test and stop with status 0."""
    with ExitStack() as stack:

        def starter(**options: Any) -> System:
            path = Path(tempfile.mkdtemp(prefix="edgettsd-"))
            stack.callback(shutil.rmtree, path)
            return stack.enter_context(running(System(bus, path, **options)))

        yield starter


@pytest.fixture
def system(start: Callable[..., System]) -> System:
    """A daemon with the fake engine, 20 times faster than real time."""
    return start()
