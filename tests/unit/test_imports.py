"""The package's modules import each other without circles, wherever in a module the import stands."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "edgettsd"


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package by its full name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a module imports; those for type checkers alone do not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unreal = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in unreal:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in known else base)
    return (found & known.keys()) - {name}


def circle(uses: dict[str, set[str]]) -> list[str]:
    """A way of imports that leads back to its beginning, or nothing."""
    left = dict(uses)
    while left:
        free = [name for name, others in left.items() if not others & left.keys()]
        if not free:
            way = [min(left)]
            while way[-1] not in way[:-1]:
                way.append(min(left[way[-1]] & left.keys()))
            return way[way.index(way[-1]) :]
        for name in free:
            del left[name]
    return []


def graph(root: Path) -> dict[str, set[str]]:
    known = modules(root)
    return {name: imported(name, path, known) for name, path in known.items()}


def test_no_module_imports_itself_in_a_circle() -> None:
    uses = graph(ROOT)
    assert sum(map(len, uses.values())) > 150
    assert circle(uses) == []


@pytest.mark.parametrize("low", ["engine", "hw", "bus", "models", "families", "text", "audio"])
def test_tuning_knows_the_engine_and_not_the_other_way(low: str) -> None:
    for name, others in graph(ROOT).items():
        if name.startswith(f"{PACKAGE}.{low}"):
            assert not [other for other in others if other.startswith(f"{PACKAGE}.tuning")], name


@pytest.mark.parametrize(
    "line",
    [
        "import edgettsd.b",
        "from edgettsd import b",
        "from . import b",
        "from .b import x",
        "def f():\n    from edgettsd.b import x",
    ],
)
def test_a_circle_is_found_wherever_it_is(line: str, tmp_path: Path) -> None:
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text(f"{line}\n")
    (folder / "b.py").write_text("from edgettsd.c import y\n")
    (folder / "c.py").write_text("import edgettsd.a\n")
    assert circle(graph(tmp_path)) == ["edgettsd.a", "edgettsd.b", "edgettsd.c", "edgettsd.a"]
    (folder / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import edgettsd.b\n"
    )
    assert circle(graph(tmp_path)) == []
