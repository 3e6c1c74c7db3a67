"""What can go wrong between a client and the daemon."""

from __future__ import annotations

from edgettsd.bus import CallError
from edgettsd.errors import ERROR_PREFIX

DBUS_ERROR = "org.freedesktop.DBus.Error."
_UNREACHABLE = ("ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected", "TimedOut", "Timeout")


class ClientError(Exception):
    """A call failed; the message is for people."""


class UnreachableError(ClientError):
    """There is no bus, or no daemon on it, or it has ended."""


class DeniedError(ClientError):
    """The bus does not let this user call the daemon."""


class RefusedError(ClientError):
    """The daemon refused the call; `name` is its error without the prefix, such as "InvalidOption"."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def explain(error: CallError) -> ClientError:
    """The error of a call as what it means to a client."""
    if error.name.startswith(ERROR_PREFIX):
        return RefusedError(error.name.removeprefix(ERROR_PREFIX), str(error))
    name = error.name.removeprefix(DBUS_ERROR)
    if name == "AccessDenied":
        return DeniedError("this user may not call edgettsd")
    if name.startswith("Spawn") or name in _UNREACHABLE:
        return UnreachableError(f"edgettsd does not run: {error}")
    return RefusedError(error.name, str(error))
