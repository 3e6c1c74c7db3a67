"""The engine over scripted kernels is there in builds for tests only, and says so where it is not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import edgettsd
from edgettsd.config import Config, ConfigError
from edgettsd.engine import scripted


def test_without_the_scripted_kernels_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cython_kernels.fake", None)
    with pytest.raises(ConfigError, match=r"cython_kernels\.fake.*-Dtesting=true"):
        scripted.make(Config(), "frames=2")


def test_with_them_it_makes_an_engine() -> None:
    assert scripted.make(Config(), "frames=2").state is not None


def test_nothing_else_of_the_product_needs_what_is_built_for_tests() -> None:
    doubles = re.compile(r"cython_kernels(?:\.| import )\(?(?:fake|fake_sink|probe|probe_audio|sampler)\b")
    package = Path(edgettsd.__path__[0])
    users = {str(p.relative_to(package)) for p in package.rglob("*.py") if doubles.search(p.read_text())}
    assert users == {"engine/parts.py", "engine/scripted.py"}
