"""Type, range and choice of values from outside: configuration, manifest and D-Bus options share these.

Each check returns the value and raises NotAllowedError otherwise; whoever reads a source adds where the value
stands, and the value itself as `shown`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST = 4096
_SHOWN = 80


class NotAllowedError(ValueError):
    """The message says what is allowed, such as "a whole number from 1 to 64"; `choices` lists texts."""

    def __init__(self, allowed: str, choices: Sequence[str] = ()) -> None:
        super().__init__(allowed)
        self.choices = tuple(choices)


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number, both allowed; `open_low` leaves `low` itself out."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def holds(self, value: float) -> bool:
        """Whether the value is allowed; never for NaN."""
        return self.low <= value <= self.high and not (self.open_low and value == self.low)

    def __str__(self) -> str:
        low = "" if math.isinf(self.low) else f" {'above' if self.open_low else 'from'} {self.low:.12g}"
        return low + ("" if math.isinf(self.high) else f" to {self.high:.12g}")


ANY = Range()


def text(value: Any, choices: Sequence[str] = (), *, empty: bool = True) -> str:
    """A string without NUL, one of `choices` if there are any; not an empty one unless `empty`."""
    if not isinstance(value, str) or (not value and not empty):
        raise NotAllowedError("a text" if empty else "a text that is not empty")
    if choices and value not in choices:
        raise NotAllowedError("one of " + ", ".join(choice or '""' for choice in choices), choices)
    if "\0" in value:
        raise NotAllowedError("a text without NUL characters")
    return value


def flag(value: Any) -> bool:
    """A bool."""
    if not isinstance(value, bool):
        raise NotAllowedError("true or false")
    return value


def whole(value: Any, allowed: Range = ANY) -> int:
    """An int, no bool, in the range."""
    if isinstance(value, bool) or not isinstance(value, int) or not allowed.holds(value):
        raise NotAllowedError(f"a whole number{allowed}")
    return value


def real(value: Any, allowed: Range = ANY) -> float:
    """A finite int or float, no bool, in the range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        good = number and math.isfinite(value) and allowed.holds(value)
    except OverflowError:
        good = False
    if not good:
        raise NotAllowedError(f"a number{allowed}")
    return float(value)


def wholes(value: Any, allowed: Range = ANY, *, most: int = MOST, empty: bool = True) -> tuple[int, ...]:
    """A list of whole numbers in the range, at most `most` of them; not an empty one unless `empty`."""
    try:
        if not isinstance(value, list) or not (value or empty):
            raise NotAllowedError("")
        numbers = tuple(whole(item, allowed) for item in value)
    except NotAllowedError:
        raise NotAllowedError(f"a list of whole numbers{allowed}") from None
    if len(numbers) > most:
        raise NotAllowedError(f"a list of at most {most} numbers, not {len(numbers)}")
    return numbers


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts, none of them empty."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise NotAllowedError("a list of texts")
    return tuple(value)


def shown(value: object) -> str:
    """A value for a message, cut short."""
    found = repr(value)
    return found if len(found) <= _SHOWN else found[: _SHOWN - 3] + "..."
