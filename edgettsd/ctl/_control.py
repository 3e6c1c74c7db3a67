"""edgettsctl stop, pause and resume."""

from __future__ import annotations

import argparse
from typing import Any

from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import Exit
from edgettsd.ctl._pausers import pausers


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the commands."""
    for name, member, text in (
        ("stop", "AbortAll", "end everything that is spoken or waits, of every caller"),
        # Hold instead of Pause, because a Pause ends with the connection of this command.
        ("pause", "Hold", "hold the speech where it is, until resume"),
        ("resume", "Resume", "go on after pause"),
    ):
        command = commands.add_parser(name, parents=[common], help=text, description=text.capitalize() + ".")
        command.set_defaults(run=run, member=member)
        if name == "resume":
            command.add_argument(
                "--all",
                action="store_const",
                const="ResumeAll",
                dest="member",
                help="end also the pauses of other programs",
            )


async def run(options: argparse.Namespace) -> int:
    """Make the one call."""
    async with connect(options.session, options.bus_address) as daemon:
        # There is nothing to stop in a daemon that does not run, but pause holds what is still to come.
        count = await daemon.call(options.member, start=options.member == "Hold")
        paused_by = await pausers(daemon) if options.member == "Resume" else []
    if options.member == "AbortAll":
        print(f"{count} stopped")
    if paused_by:
        print(f"still paused by {', '.join(paused_by)}; edgettsctl resume --all ends that, too")
    return Exit.OK
