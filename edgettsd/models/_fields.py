"""Strict access to parsed JSON: every refusal names the field, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ModelInvalidError


class Fields:
    """One JSON table; `where` is its dotted path, for messages.

    Every getter raises ModelInvalidError for a missing or wrong value; `done` does for keys nobody asked for.
    """

    def __init__(self, source: str, where: str, value: Any) -> None:
        self._source, self._where = source, where
        if not isinstance(value, dict):
            raise self._error(where or "the manifest", value, "a table is needed")
        self._table: Mapping[str, Any] = value
        self._asked: set[str] = set()

    def _error(self, field: str, value: Any, allowed: str) -> ModelInvalidError:
        shown = repr(value)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        return ModelInvalidError(f"{self._source}: {field} is {shown}; {allowed}")

    def path(self, key: str) -> str:
        """Dotted path of a key."""
        return f"{self._where}.{key}" if self._where else key

    def refuse(self, key: str, allowed: str) -> ModelInvalidError:
        """The error to raise when a key's value is not allowed for a reason of the caller's."""
        return self._error(self.path(key), self._table.get(key), allowed)

    def has(self, key: str) -> bool:
        """Whether an optional key is there."""
        return key in self._table

    def any(self, key: str) -> Any:
        """The value as it is."""
        self._asked.add(key)
        if key not in self._table:
            raise ModelInvalidError(f"{self._source}: {self.path(key)} is missing")
        return self._table[key]

    def text(self, key: str, allowed: Sequence[str] = (), empty: bool = False) -> str:
        """A string, one of `allowed` if that is given."""
        value = self.any(key)
        if not isinstance(value, str) or (not value and not empty):
            raise self.refuse(key, "a text is needed")
        if allowed and value not in allowed:
            raise self.refuse(key, f"allowed are {', '.join(allowed)}")
        return value

    def flag(self, key: str) -> bool:
        """true or false."""
        value = self.any(key)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false is needed")
        return value

    def whole(self, key: str, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        value = self.any(key)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(key, f"a whole number from {low} to {high} is needed")
        return value

    def real(self, key: str, low: float, high: float) -> float:
        """A finite number in [low, high]."""
        value = self.any(key)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not low <= value <= high:
            raise self.refuse(key, f"a number from {low:g} to {high:g} is needed")
        return float(value)

    def wholes(self, key: str, low: int, high: int, most: int = 4096) -> tuple[int, ...]:
        """A list, not empty and of at most `most`, of whole numbers in [low, high]."""
        value = self.any(key)
        if not isinstance(value, list) or not value or not all(_is_whole(item, low, high) for item in value):
            raise self.refuse(key, f"a list of whole numbers from {low} to {high} is needed")
        if len(value) > most:
            raise self.refuse(key, f"at most {most} numbers are allowed, not {len(value)}")
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.any(key)
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self.refuse(key, "a list of texts is needed")
        return tuple(value)

    def table(self, key: str) -> Fields:
        """A table inside this one."""
        return Fields(self._source, self.path(key), self.any(key))

    def tables(self) -> Iterator[tuple[str, Fields]]:
        """Every value of this table, each of which is a table."""
        for key in self._table:
            yield key, self.table(key)

    def plain(self) -> Mapping[str, Any]:
        """The table as it is in the file."""
        return self._table

    def names(self) -> tuple[str, ...]:
        """The keys in the file's order."""
        return tuple(self._table)

    def done(self) -> None:
        """Refuse keys that nobody asked for."""
        for key in self._table:
            if key not in self._asked:
                known = ", ".join(sorted(self._asked))
                raise ModelInvalidError(f"{self._source}: {self.path(key)} is unknown; known are {known}")


def _is_whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
