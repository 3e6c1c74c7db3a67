"""Strict access to parsed JSON: every refusal names the field, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .. import strict
from ..errors import ModelInvalidError
from ..strict import NotAllowedError, Range

T = TypeVar("T")


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
        return ModelInvalidError(f"{self._source}: {field} is {strict.shown(value)}; {allowed}")

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
        return self._checked(key, lambda value: strict.text(value, allowed, empty=empty))

    def flag(self, key: str) -> bool:
        """true or false."""
        return self._checked(key, strict.flag)

    def whole(self, key: str, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return self._checked(key, lambda value: strict.whole(value, Range(low, high)))

    def real(self, key: str, low: float, high: float) -> float:
        """A finite number in [low, high]."""
        return self._checked(key, lambda value: strict.real(value, Range(low, high)))

    def wholes(self, key: str, low: int, high: int, most: int = strict.MOST) -> tuple[int, ...]:
        """A list, not empty and of at most `most`, of whole numbers in [low, high]."""
        return self._checked(
            key, lambda value: strict.wholes(value, Range(low, high), most=most, empty=False)
        )

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        return self._checked(key, strict.texts)

    def _checked(self, key: str, check: Callable[[Any], T]) -> T:
        value = self.any(key)
        try:
            return check(value)
        except NotAllowedError as error:
            if error.choices:
                raise self.refuse(key, f"allowed are {', '.join(error.choices)}") from None
            raise self.refuse(key, f"{error} is needed") from None

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
