"""edgettsctl status."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import Exit
from edgettsd.ctl._pausers import pausers


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "show what the daemon does; never starts it"
    command = commands.add_parser("status", parents=[common], help=text, description=text.capitalize() + ".")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


async def run(options: argparse.Namespace) -> int:
    """Print the properties."""
    async with connect(options.session, options.bus_address) as daemon:
        properties = await daemon.properties(start=False)
        paused_by = await pausers(daemon) if properties["State"] == "paused" else []
    if options.json:
        values = {_snake(name): value for name, value in properties.items()}
        print(json.dumps(values | {"paused_by": paused_by}, indent=2))
        return Exit.OK
    active = f", utterance {properties['Active']}" if properties["Active"] else ""
    print(f"state    {properties['State']}{active}")
    if paused_by:
        print(f"paused   by {', '.join(paused_by)}")
    print(f"waiting  {properties['QueueLength']}")
    print(f"model    {properties['Model']}, {properties['SampleRate']} Hz")
    print(f"version  {properties['Version']}")
    for problem in properties["Problems"]:
        print(f"problem  {problem}")
    return Exit.OK


def _snake(name: str) -> str:
    """QueueLength -> queue_length."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
