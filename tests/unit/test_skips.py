"""The plugin that refuses skips."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = {
    "skip": "import pytest\ndef test_a():\n    pytest.skip('no card')\n",
    "mark": "import pytest\n@pytest.mark.skip(reason='no card')\ndef test_a(): pass\n",
    "module": "import pytest\npytest.skip('no card', allow_module_level=True)\n",
    "xfail": "import pytest\n@pytest.mark.xfail(reason='no card')\ndef test_a(): assert 0\n",
}


def _pytest(folder: Path, source: str, allowed: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "test_case.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    setup = "import plugin_skips, pytest, sys\n"
    if allowed:
        setup += f"plugin_skips.ALLOWED[{allowed!r}] = 'needs a sound card'\n"
    return subprocess.run(
        [
            sys.executable,
            "-c",
            setup + "sys.exit(pytest.main(['-q', '-p', 'plugin_skips', '-p', 'no:cacheprovider']))",
        ],
        cwd=folder,
        env={"PYTHONPATH": str(TESTS), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("case", CASES)
def test_an_unlisted_skip_fails(tmp_path: Path, case: str) -> None:
    done = _pytest(tmp_path, CASES[case])
    assert done.returncode != 0, done.stdout
    assert "was skipped and is not listed" in done.stdout
    assert "no card" in done.stdout


@pytest.mark.parametrize("case", ["skip", "mark"])
def test_a_listed_skip_is_reported_with_its_reason(tmp_path: Path, case: str) -> None:
    done = _pytest(tmp_path, CASES[case], "test_case.py::test_a")
    assert done.returncode == 0, done.stdout
    assert "SKIPPED test_case.py::test_a: needs a sound card" in done.stdout
    assert "1 skipped" in done.stdout


def test_passes_and_failures_are_left_alone(tmp_path: Path) -> None:
    assert "1 passed" in _pytest(tmp_path, "def test_a(): pass\n").stdout
    done = _pytest(tmp_path, "def test_a(): assert 0\n")
    assert "1 failed" in done.stdout and "not listed" not in done.stdout
