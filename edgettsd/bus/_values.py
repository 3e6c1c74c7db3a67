"""From plain Python values to D-Bus variants, for the a{sv} of signals and replies.

Every key has one type, which stands in the contract (annotation org.edgettsd.Keys of the XML).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from dbus_fast import Variant

log = logging.getLogger(__name__)

_WHOLE = {"u": 1 << 32, "t": 1 << 64}


def variant(value: Any, signature: str) -> Variant:
    """The value as b, d, s, as, t or u; numpy scalars count as their Python kind, a whole number may be d.

    Raises TypeError for a value that is not of this type.
    """
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match signature:
        case "b" if isinstance(value, bool):
            return Variant("b", value)
        case "d" if number:
            return Variant("d", float(value))
        case "s" if isinstance(value, str):
            return Variant("s", str(value))
        case "as" if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return Variant("as", list(value))
        case "t" | "u" if number and isinstance(value, int) and 0 <= value < _WHOLE[signature]:
            return Variant(signature, int(value))
    raise TypeError(f'{value!r} of type {type(value).__name__} is not of D-Bus type "{signature}"')


def variants(values: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Variant]:
    """Every value as a variant of its key's type; None is left out.

    So is, with an entry in the log, what the contract does not know: a signal is worth more than one figure.
    """
    made = {}
    for key, value in values.items():
        if value is None:
            continue
        try:
            made[key] = variant(value, types[key])
        except KeyError:
            log.error("%s = %r is not sent: the contract has no such key", key, value)
        except TypeError as error:
            log.error("%s is not sent: %s", key, error)
    return made
