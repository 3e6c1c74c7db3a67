"""The sources keep the rules of pyproject.toml, and every compiled module has a typed interface."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILED = sorted((ROOT / "cython_kernels").glob("*/*.pyx"))
CHECKED = ("edgettsd", "cython_kernels", "tools", "tests")


def _stub(module: Path) -> Path:
    """A module's interface: at the package's top, where its import name says."""
    return ROOT / "cython_kernels" / f"{module.stem}.pyi"


def _run(*command: str) -> str:
    """What the command printed when it failed, else nothing."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170)
    return "" if done.returncode == 0 else f"{done.stdout[-8000:]}{done.stderr[-2000:]}" or "failed silently"


def _tool(name: str) -> str:
    """The program that belongs to the interpreter that runs the tests."""
    path = shutil.which(name, path=f"{Path(sys.executable).parent}:{sysconfig.get_path('scripts')}")
    assert path is not None, f"{name} is not installed beside {sys.executable}"
    return path


def test_ruff_finds_nothing() -> None:
    problems = _run(_tool("ruff"), "check", "--output-format=concise", *CHECKED)
    assert not problems, problems


def test_the_sources_are_formatted() -> None:
    problems = _run(_tool("ruff"), "format", "--check", "--output-format=concise", *CHECKED)
    assert not problems, problems


@pytest.mark.parametrize("package", ["edgettsd", "tools/edgettsd_tools"])
def test_mypy_finds_nothing(package: str) -> None:
    problems = _run(sys.executable, "-m", "mypy", package)
    assert not problems, problems


def test_every_compiled_module_has_a_stub() -> None:
    assert COMPILED, "no .pyx files found"
    assert [m.name for m in COMPILED if not _stub(m).is_file()] == []
    assert (ROOT / "cython_kernels" / "py.typed").is_file()


def test_a_stub_names_what_its_module_has() -> None:
    """Every public class and function of a .pyx is in its .pyi."""
    for module in COMPILED:
        names = {
            path.suffix: set(re.findall(r"^(?:cdef class|class|def|cpdef \w+) (\w+)", text, re.MULTILINE))
            for path in (module, _stub(module))
            for text in [path.read_text()]
        }
        public = {suffix: {n for n in found if not n.startswith("_")} for suffix, found in names.items()}
        assert public[".pyx"] - public[".pyi"] == set(), module.name


def test_nothing_is_left_to_do() -> None:
    marks = re.compile(
        r"\b(TODO|FIXME|XXX|HACK)\b|pytest\.(skip|mark\.skip|mark\.xfail|xfail|importorskip)\b"
    )
    found = []
    for folder in (*CHECKED, "systemd", "docs"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".sh", ".md", ".build"):
                if path.name in ("test_lint.py", "test_skips.py"):
                    continue
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    if marks.search(line):
                        found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_shell_scripts_parse() -> None:
    scripts = [ROOT / "tools/try", ROOT / "tools/test", ROOT / ".ci/run", *(ROOT / "tools/lib").glob("*.sh")]
    assert len(scripts) > 3
    assert {str(script): said for script in scripts if (said := _run("bash", "-n", str(script)))} == {}
