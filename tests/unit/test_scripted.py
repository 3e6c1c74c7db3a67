"""The engine over scripted kernels is there in builds for tests only, and says so where it is not."""

from __future__ import annotations

import sys

import pytest

from edgettsd.config import Config, ConfigError
from edgettsd.engine import scripted


def test_without_the_scripted_kernels_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cython_kernels.fake", None)
    with pytest.raises(ConfigError, match=r"cython_kernels\.fake.*-Dtesting=true"):
        scripted.make(Config(), "frames=2")


def test_with_them_it_makes_an_engine() -> None:
    assert scripted.make(Config(), "frames=2").state is not None
