"""Configuration files: TOML into frozen dataclasses; unknown keys and bad values are refused by name.

A file is a dataclass of sections, a section a dataclass of keys that are declared by `key`, each once with
its default, its range and its documentation; the commented sample file is made from the same declarations.
"""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from edgettsd import strict
from edgettsd.strict import NotAllowedError, Range


class ConfigError(Exception):
    """The configuration cannot be used; the message names file, key, value and what is allowed."""


class Settings(Protocol):
    """A whole file: a frozen dataclass of sections."""

    def updated(self, tables: Mapping[str, Any], origin: str) -> Self:
        """A copy with the keys of `tables` replaced; raises ConfigError."""


T = TypeVar("T")
S = TypeVar("S", bound=Settings)


def key(
    default: Any,
    doc: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    most: int = 0,
    cpus: bool = False,
    texts: bool = False,
) -> Any:
    """Declare one key: `low`/`high` are inclusive bounds, `above` an exclusive one (of each list
    item); `most` of how many a list has. A tuple is a list of whole numbers, with `texts` one of texts."""
    bounds = Range(low, high) if above is None else Range(above, high, open_low=True)
    rules = {"doc": doc, "range": bounds, "choices": choices, "most": most, "cpus": cpus, "texts": texts}
    return dataclasses.field(default=default, metadata=rules)


def updated(old: T, tables: Mapping[str, Any], origin: str) -> T:
    """A copy of a file's dataclass with the keys of `tables` ({section: {key: value}}) replaced and checked.

    `origin` names the source in errors. Raises ConfigError.
    """
    sections = {f.name: getattr(old, f.name) for f in dataclasses.fields(old)}  # type: ignore[arg-type]
    for name, table in tables.items():
        if name not in sections:
            raise ConfigError(f"{origin}: unknown section [{name}]; allowed: {', '.join(sections)}")
        if not isinstance(table, Mapping):
            raise ConfigError(f"{origin}: {name} must be a section [{name}], not {table!r}")
        sections[name] = _updated_section(sections[name], name, table, origin)
    return type(old)(**sections)


def load(default: S, default_path: Path, path: Path | None = None) -> S:
    """Read a configuration over `default`.

    With `path` only that file; without, `default_path` and then the *.toml in the folder of its name with .d
    by name, later files winning; a missing default file means defaults. Raises ConfigError.
    """
    if path is not None:
        return _read_into(default, path)
    result = default
    if default_path.exists():
        result = _read_into(result, default_path)
    for extra in sorted(default_path.with_name(default_path.name + ".d").glob("*.toml")):
        result = _read_into(result, extra)
    return result


def sample(kind: type, program: str, path: Path) -> str:
    """The commented sample of the file at `path`: every key with its documentation and default."""
    lines = [
        f"# Configuration of {program}. Every key is shown with its default; remove the # to change it.",
        f"# Files {path}.d/*.toml are read after it, unless --config names a file.",
    ]
    for section in dataclasses.fields(kind):
        keys: Any = section.default_factory
        lines += ["", f"# {keys.__doc__}", f"[{section.name}]"]
        for entry in dataclasses.fields(keys):
            text = entry.metadata["doc"] + _range_text(entry)
            lines += [""] + [f"# {line}" for line in textwrap.wrap(text, 100)]
            lines.append(f"#{entry.name} = {_toml(entry)}")
    return "\n".join(lines) + "\n"


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of a list such as "0-1,3", ascending; raises ValueError."""
    cpus: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part, re.ASCII)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{part!r} is not a CPU or a range of CPUs")
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(cpus))


def _read_into(old: S, path: Path) -> S:
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    return old.updated(tables, str(path))


def _updated_section(old: Any, section: str, table: Mapping[str, Any], origin: str) -> Any:
    keys = {entry.name: entry for entry in dataclasses.fields(old)}
    values: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{origin}: [{section}] {name}"
        if name not in keys:
            raise ConfigError(f"{where}: unknown key; allowed: {', '.join(keys)}")
        try:
            values[name] = _checked(keys[name], value)
        except NotAllowedError as error:
            raise ConfigError(f"{where} = {strict.shown(value)}: must be {error}") from None
    return dataclasses.replace(old, **values)


def _checked(entry: dataclasses.Field[Any], value: Any) -> Any:
    """The value in the field's type; raises NotAllowedError."""
    default, rules = entry.default, entry.metadata
    if rules["cpus"]:
        try:
            return parse_cpus(strict.text(value))
        except NotAllowedError:
            raise NotAllowedError('a text such as "0-1,3"') from None
        except ValueError as error:
            raise NotAllowedError(f'CPUs such as "0-1,3", but {error}') from None
    if rules["texts"]:
        return strict.texts(value)
    if isinstance(default, tuple):
        return strict.wholes(value, rules["range"], most=rules["most"] or strict.MOST)
    if isinstance(default, str):
        return strict.text(value, rules["choices"])
    if isinstance(default, float):
        return strict.real(value, rules["range"])
    return strict.flag(value) if isinstance(default, bool) else strict.whole(value, rules["range"])


def _range_text(entry: dataclasses.Field[Any]) -> str:
    rules = entry.metadata
    if rules["choices"]:
        return " One of " + ", ".join(f'"{choice}"' for choice in rules["choices"]) + "."
    return f" Allowed:{rules['range']}." if str(rules["range"]) else ""


def _toml(entry: dataclasses.Field[Any]) -> str:
    default = entry.default
    if entry.metadata["cpus"]:
        return '""'
    if isinstance(default, tuple):
        return str(list(default))
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else str(default)
