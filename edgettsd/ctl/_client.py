"""The daemon as edgettsctl sees it: what goes wrong becomes a message with an exit status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edgettsd import client
from edgettsd.client import ClientError, Daemon, DeniedError, RefusedError, UnreachableError
from edgettsd.ctl._exit import CtlError, Exit


@asynccontextmanager
async def connect(session: bool, address: str) -> AsyncIterator[Daemon]:
    """Connect to the session bus, the bus at `address`, or the system bus. Raises CtlError."""
    try:
        async with client.connect(session, address) as daemon:
            yield daemon
    except ClientError as error:
        raise explain(error) from error


def explain(error: ClientError) -> CtlError:
    """A client's error in the user's words, with its exit status."""
    if isinstance(error, DeniedError):
        return CtlError(f"{error}; see edgettsctl doctor", Exit.DENIED)
    if isinstance(error, UnreachableError):
        hint = "; see edgettsctl doctor" if "does not run" in str(error) else ""
        return CtlError(f"{error}{hint}", Exit.UNREACHABLE)
    if isinstance(error, RefusedError):
        # The daemon's errors begin with their name; the bus's long names follow the message.
        return CtlError(f"{error} ({error.name})" if "." in error.name else f"{error.name}: {error}")
    return CtlError(str(error))
