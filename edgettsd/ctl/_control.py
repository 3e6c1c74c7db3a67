"""edgettsctl stop, pause and resume."""

from __future__ import annotations

import argparse
from typing import Any

from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import Exit


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the commands."""
    for name, member, text in (
        ("stop", "AbortAll", "end everything that is spoken or waits, of every caller"),
        ("pause", "Pause", "hold the speech where it is"),
        ("resume", "Resume", "go on after pause"),
    ):
        command = commands.add_parser(name, parents=[common], help=text, description=text.capitalize() + ".")
        command.set_defaults(run=run, member=member)


async def run(options: argparse.Namespace) -> int:
    """Make the one call."""
    async with connect(options.session, options.bus_address) as daemon:
        # There is nothing to stop in a daemon that does not run, but pause holds what is still to come.
        count = await daemon.call(options.member, start=options.member == "Pause")
    if count is not None:
        print(f"{count} stopped")
    return Exit.OK
