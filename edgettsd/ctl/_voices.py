"""edgettsctl voices."""

from __future__ import annotations

import argparse
import json
from typing import Any

from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import Exit


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "list the voices of the model; the default one is marked *"
    command = commands.add_parser("voices", parents=[common], help=text, description=text.capitalize() + ".")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


async def run(options: argparse.Namespace) -> int:
    """Print the voices."""
    async with connect(options.session, options.bus_address) as daemon:
        voices = await daemon.call("ListVoices")
    if options.json:
        print(json.dumps(voices, indent=2, ensure_ascii=False))
        return Exit.OK
    width = max((len(voice["id"]) for voice in voices), default=0)
    for voice in voices:
        mark = "*" if voice["default"] else " "
        languages = ", ".join(voice["languages"])
        print(f"{mark} {voice['id']:{width}}  {languages}  {voice['description']}".rstrip())
    return Exit.OK
