"""The daemon for foreign clients: a process of its own that reaches it over D-Bus alone."""

from __future__ import annotations

import sys


def start() -> int:
    """The command edgettsd-gateway; returns its exit status."""
    try:
        # Imported late because the libraries of the gateway are an extra of the package.
        from edgettsd.gateways.main import main
    except ModuleNotFoundError as error:
        missing = f"{error.name} is not installed; edgettsd-gateway needs the package's extra [gateway]"
        print(f"edgettsd-gateway: {missing}", file=sys.stderr)
        return 2
    return main()
