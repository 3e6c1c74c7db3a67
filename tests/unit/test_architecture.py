"""Every path that docs/architecture.md names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FOLDERS = ("edgettsd", "cython_kernels", "systemd", "tools", "tests", "docs", "yocto-layer")
# Paths may leave out the folder that the text around them is about.
BASES = (
    "",
    "edgettsd",
    "cython_kernels",
    "tools",
    "edgettsd/engine",
    "edgettsd/families",
    "edgettsd/frontends",
)
PATH = re.compile(r"(?:[\w*-]+/)+[\w.*-]*|\b_?[\w*-]+\.(?:py|pyx|pxd|c|h|md|toml)\b")
NO_PATHS = {"DOOR/NAME", "I/O."}


def _named() -> set[str]:
    """Paths in code marks and drawings."""
    code = re.findall(r"`([^`\n]+)`", PAGE) + re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return {path for piece in code for path in PATH.findall(piece)} - NO_PATHS


def _exists(path: str) -> bool:
    # A word in capitals stands for any name.
    path = re.sub(r"\b[A-Z]{3,}\b(?=/|$)", "*", path)
    if "/" in path.rstrip("/") or path.endswith("/"):
        return any(next((ROOT / base).glob(path.rstrip("/")), None) for base in BASES)
    # A name alone: a C source of some room, or a file of some folder.
    ending = path if not path.startswith("_") else f"*{path}"
    return any(next((ROOT / folder).rglob(ending), None) for folder in FOLDERS) or (ROOT / path).exists()


def test_enough_is_named() -> None:
    assert len(_named()) > 80


@pytest.mark.parametrize("path", sorted(_named()))
def test_path_exists(path: str) -> None:
    assert _exists(path)


def test_a_path_that_is_gone_is_noticed() -> None:
    assert not _exists("edgettsd/engine/gone.py") and not _exists("et_gone.c")
    assert _exists("engine/plan.py") and _exists("et_generate.c")


def test_every_room_and_package_is_in_the_tables() -> None:
    rooms = {path.parent.name for path in (ROOT / "cython_kernels").glob("*/README.md")}
    packages = {path.parent.name for path in (ROOT / "edgettsd").glob("*/__init__.py")}
    assert {room for room in rooms if f"| `{room}/` |" not in PAGE} == set()
    assert {package for package in packages if f"`edgettsd/{package}/`" not in PAGE} == set()


def test_every_dependency_is_in_its_table() -> None:
    table = PAGE.split("## What it depends on")[1].split("\n## ")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[=<>]", entry)[0] for entry in project["dependencies"]]
    names += [re.split(r"[=<>]", entry)[0] for entry in project["optional-dependencies"]["gateway"]]
    assert names and all(f"`{name}`" in table for name in names)
    linked = re.findall(r"dependency\('(\w+)'", (ROOT / "cython_kernels" / "meson.build").read_text())
    for name, library in {"soxr": "libsoxr", "alsa": "libasound"}.items():
        assert name in linked and f"| {library} |" in table
