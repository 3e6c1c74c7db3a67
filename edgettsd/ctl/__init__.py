"""edgettsctl: the daemon from the command line."""

from edgettsd.ctl._main import main

__all__ = ["main"]
