"""The plugin that leaves out what has no environment, and the one profile of all Hypothesis tests."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import hypothesis
import plugin_environment
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TESTS = Path(__file__).parents[1]
CASES = "import pytest\n@pytest.mark.official_code\ndef test_a(): pass\ndef test_b(): pass\n"


def _pytest(folder: Path, **environment: str) -> str:
    """Output of a run of two tests in a repository of their own, of which one needs the official code."""
    tests = folder / "tests"
    tests.mkdir(exist_ok=True)
    shutil.copy(TESTS / "plugin_environment.py", tests)
    (tests / "test_case.py").write_text(CASES)
    (tests / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--strict-markers", "-p", "plugin_environment"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        cwd=tests,
        env={"PYTHONPATH": str(tests), "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    said = _pytest(tmp_path)
    assert "1 passed, 1 deselected" in said
    assert "LEFT OUT test_case.py::test_a: needs .venv-eval (tools/oracle --prepare" in said
    # An installation that was interrupted.
    (tmp_path / ".venv-eval" / "bin").mkdir(parents=True)
    (tmp_path / ".venv-eval" / "bin" / "python").symlink_to(sys.executable)
    assert "LEFT OUT" in _pytest(tmp_path)


def test_nothing_is_left_out_where_the_environment_is_or_in_ci(tmp_path: Path) -> None:
    assert "2 passed" in _pytest(tmp_path, CI="1")
    (tmp_path / ".venv-eval").mkdir()
    (tmp_path / ".venv-eval" / ".complete").touch()
    said = _pytest(tmp_path)
    assert "2 passed" in said and "LEFT OUT" not in said


def test_slow_generators_and_slow_examples_fail_no_test() -> None:
    slow = st.integers().map(lambda value: time.sleep(0.2) or value)

    def body(value: int) -> None:
        time.sleep(0.25)

    settings(max_examples=12)(given(slow)(body))()
    with pytest.raises((hypothesis.errors.FailedHealthCheck, hypothesis.errors.DeadlineExceeded)):
        # What Hypothesis asks by itself.
        settings(max_examples=12, deadline=200, suppress_health_check=[])(given(slow)(body))()


def test_no_test_has_a_profile_of_its_own() -> None:
    """Neither deadlines nor health checks are set anywhere else, so the profile holds for every test."""
    own = re.compile(r"deadline\s*=|suppress_health_check|register_profile|load_profile")
    ours = {Path(__file__).name, Path(plugin_environment.__file__).name}
    found = []
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name not in ours and "hypothesis" in text and own.search(text):
            found.append(path.name)
    assert found == []
