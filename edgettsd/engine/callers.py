"""Who asks the engine for something: a connection of the bus, or whoever comes through another door."""

from __future__ import annotations

import re

_DOOR = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAME = re.compile(r"[!-~]{1,200}")


class Caller(str):
    """The identity that utterances, pauses and queue limits belong to; compares and prints as its text.

    A connection of the bus is its unique name (":1.42"), anybody else "DOOR/NAME" ("http/10.0.0.7:51234"), so
    that two doors never give the same identity. The door tells the engine when its caller has gone.
    """

    __slots__ = ()

    @classmethod
    def bus(cls, unique_name: str) -> Caller:
        """The connection with this unique name. Raises ValueError."""
        if not unique_name.startswith(":"):
            raise ValueError(
                f"{unique_name!r} is no unique name of a connection; allowed: ':1.42' and the like"
            )
        return cls(unique_name)

    @classmethod
    def at(cls, door: str, name: str) -> Caller:
        """Somebody who came through another door and is called `name` there. Raises ValueError."""
        if not _DOOR.fullmatch(door):
            raise ValueError(
                f"door {door!r}: allowed are small letters, digits and '-', beginning with a letter"
            )
        if not _NAME.fullmatch(name):
            raise ValueError(f"name {name!r}: allowed are 1 to 200 visible ASCII characters")
        return cls(f"{door}/{name}")

    @property
    def door(self) -> str:
        """Where the caller came from: "bus", or the door's name; empty for nobody in particular."""
        return "bus" if self.startswith(":") else self.partition("/")[0]


NOBODY = Caller("")
"""Nobody in particular: what belongs to it outlives every caller."""
