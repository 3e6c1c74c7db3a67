"""Who holds the speech. A pause belongs to its caller; speech goes on when nobody's pause is left."""

from __future__ import annotations

from edgettsd.engine.callers import NOBODY, Caller


class Pauses:
    """The pauses in force, at most one of each owner; true while there is one."""

    def __init__(self) -> None:
        self._owners: dict[Caller, None] = {}

    def __bool__(self) -> bool:
        """Whether speech is held."""
        return bool(self._owners)

    @property
    def owners(self) -> tuple[Caller, ...]:
        """Callers' names, and NOBODY for the one that outlives its caller, the oldest first."""
        return tuple(self._owners)

    def add(self, owner: Caller) -> None:
        """Pause for `owner`; a second time changes nothing."""
        self._owners.setdefault(owner)

    def release(self, owner: Caller) -> None:
        """End the pause of `owner`, or that of NOBODY when there is none of `owner`; never anybody else's."""
        if owner in self._owners:
            del self._owners[owner]
        else:
            self._owners.pop(NOBODY, None)

    def gone(self, owner: Caller) -> None:
        """End the pause of a caller that has left."""
        self._owners.pop(owner, None)

    def clear(self) -> None:
        """End every pause."""
        self._owners.clear()
