"""edgettsctl status."""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import Exit


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
    if options.json:
        print(json.dumps({_snake(name): value for name, value in properties.items()}, indent=2))
        return Exit.OK
    active = f", utterance {properties['Active']}" if properties["Active"] else ""
    print(f"state    {properties['State']}{active}")
    print(f"waiting  {properties['QueueLength']}")
    print(f"model    {properties['Model']}, {properties['SampleRate']} Hz")
    print(f"version  {properties['Version']}")
    for problem in properties["Problems"]:
        print(f"problem  {problem}")
    return Exit.OK


def _snake(name: str) -> str:
    """QueueLength -> queue_length."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
