"""Rooms of cython_kernels/ know each other through doors only; no circle runs through rooms or files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import kernel_sources
import pytest

KERNELS = kernel_sources.KERNELS
ROOMS = sorted(path.parent.name for path in KERNELS.glob("*/README.md"))
SOURCES = sorted(path for path in KERNELS.glob("*/*") if path.suffix in (".c", ".h", ".pyx"))
INCLUDE = re.compile(r'(?:#include|cdef extern from) "((?:\w+/)?\w+\.h)"')
# A function's definition: its name is the first with et_ in a line at the margin, and a body follows.
DEFINITION = re.compile(
    r"^(?!static|typedef|extern|#)[a-zA-Z_][\w \*]*?\b(et_\w+)\s*\([^;{]*\)\s*\{", re.MULTILINE
)


def _code(path: Path) -> str:
    """A C file without comments and texts."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def _includes(path: Path) -> list[tuple[str, str]]:
    """Room and name of each header of ours that a file includes."""
    found = []
    for name in INCLUDE.findall(path.read_text()):
        room, _, header = name.rpartition("/")
        if (KERNELS / (room or path.parent.name) / header).exists() or room in ROOMS:
            found.append((room or path.parent.name, header))
    return found


def _doors(room: str) -> set[str]:
    (line,) = re.findall(r"^Doors?: (.*)$", (KERNELS / room / "README.md").read_text(), re.MULTILINE)
    return set(re.findall(r"`(\w+\.h)`", line))


def _circle(uses: Mapping[str, Iterable[str]]) -> list[str]:
    """A way that leads back to its beginning, or nothing."""
    left = {name: set(others) - {name} for name, others in uses.items()}
    while left:
        free = [name for name, others in left.items() if not others & left.keys()]
        if not free:
            way = [next(iter(sorted(left)))]
            while way[-1] not in way[:-1]:
                way.append(min(left[way[-1]] & left.keys()))
            return way[way.index(way[-1]) :]
        for name in free:
            del left[name]
    return []


def test_a_circle_is_found() -> None:
    assert _circle({"a": ["b"], "b": ["c"], "c": []}) == []
    assert _circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]


def test_every_source_is_in_a_room() -> None:
    assert len(ROOMS) > 10
    assert {path.parent.name for path in SOURCES} == set(ROOMS)
    assert len(SOURCES) > 80


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_in_a_few_lines(room: str) -> None:
    lines = [line for line in (KERNELS / room / "README.md").read_text().splitlines() if line]
    assert len(lines) == 3
    doors = _doors(room)
    assert doors
    assert {door for door in doors if not (KERNELS / room / door).is_file()} == set()


def test_rooms_are_entered_through_their_doors() -> None:
    doors = {room: _doors(room) for room in ROOMS}
    wrong = [
        f"{path.parent.name}/{path.name}: {room}/{header}"
        for path in SOURCES
        for room, header in _includes(path)
        if room != path.parent.name and header not in doors[room]
    ]
    assert wrong == []


def test_no_circle_of_rooms() -> None:
    uses = defaultdict(set)
    for path in SOURCES:
        uses[path.parent.name] |= {room for room, _ in _includes(path)}
    assert sum(map(len, uses.values())) > 20
    assert _circle(uses) == []


def test_the_architecture_page_lists_the_rooms_and_each_uses_only_those_above_it() -> None:
    page = (
        (KERNELS.parent / "docs" / "architecture.md").read_text().split("The rooms of `cython_kernels/`")[1]
    )
    rows = dict(re.findall(r"^\| `(\w+)/` \|.*\|(.*)\|$", page, re.MULTILINE))
    assert sorted(rows) == ROOMS
    order = list(rows)
    for path in SOURCES:
        used = {room for room, _ in _includes(path)}
        assert {room for room in used if order.index(room) > order.index(path.parent.name)} == set(), (
            path.name
        )
        if path.suffix == ".pyx":
            assert f"`{path.stem}`" in rows[path.parent.name]


def test_no_circle_of_headers() -> None:
    uses = {path.name: {header for _, header in _includes(path)} for path in SOURCES if path.suffix == ".h"}
    assert sum(map(len, uses.values())) > 40
    assert _circle(uses) == []


def test_no_circle_of_calls_between_files() -> None:
    code = {path.name: _code(path) for path in SOURCES if path.suffix == ".c"}
    home = {name: file for file, text in code.items() for name in DEFINITION.findall(text)}
    assert len(home) > 150
    uses = {
        file: {home[name] for name in re.findall(r"\bet_\w+", text) if name in home}
        for file, text in code.items()
    }
    assert _circle(uses) == []


def test_no_room_of_the_product_uses_the_tests_doubles() -> None:
    assert [p.name for p in SOURCES if p.parent.name != "testing" and "testing" in dict(_includes(p))] == []


def test_modules_are_thin() -> None:
    """At most 200 lines, or the architecture page names the module and says why it has more."""
    said = (KERNELS.parent / "docs" / "architecture.md").read_text()
    modules = [path for path in SOURCES if path.suffix == ".pyx"]
    assert len(modules) > 10
    long = [f"{p.parent.name}/{p.name}" for p in modules if len(p.read_text().splitlines()) > 200]
    assert [name for name in long if f"`{name}`" not in said] == []
