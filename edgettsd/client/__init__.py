"""The daemon as its clients see it: edgettsctl and the gateways speak to it by these classes alone."""

from edgettsd.client._daemon import Daemon, connect, variant_options
from edgettsd.client._errors import ClientError, DeniedError, RefusedError, UnreachableError
from edgettsd.client._render import Render, render

__all__ = [
    "ClientError",
    "Daemon",
    "DeniedError",
    "RefusedError",
    "Render",
    "UnreachableError",
    "connect",
    "render",
    "variant_options",
]
