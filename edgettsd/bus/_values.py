"""From plain Python values to D-Bus variants, for the a{sv} of signals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbus_fast import Variant


def variant(value: Any) -> Variant:
    """bool: b, int: t (x when negative), float: d, str (and its enums): s, sequence of str: as.

    numpy scalars count as their Python kind. Raises TypeError for anything else.
    """
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    match value:
        case bool():
            return Variant("b", value)
        case int():
            return Variant("t" if value >= 0 else "x", int(value))
        case float():
            return Variant("d", value)
        case str():
            return Variant("s", str(value))
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return Variant("as", list(value))
    raise TypeError(f"no D-Bus type for {value!r} of type {type(value).__name__}")


def variants(values: Mapping[str, Any]) -> dict[str, Variant]:
    """Every value as a variant; None is left out."""
    return {key: variant(value) for key, value in values.items() if value is not None}
