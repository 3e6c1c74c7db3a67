"""The command line: one module a command, the bus options before or after it."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from edgettsd.ctl import _control, _doctor, _hw, _speak, _stats, _status, _version, _voices
from edgettsd.ctl._exit import TABLE, CtlError, Exit

COMMANDS = (_speak, _control, _voices, _status, _stats, _doctor, _hw, _version)


class _Parser(argparse.ArgumentParser):
    """Usage errors have status 1: 2 and above belong to utterances."""

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit."""
        self.print_usage(sys.stderr)
        self.exit(Exit.ERROR, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    options = parser().parse_args(arguments)
    options.session = getattr(options, "session", False)
    address = getattr(options, "bus_address", None) or os.environ.get("EDGETTSD_BUS_ADDRESS", "")
    options.bus_address = "" if options.session else address
    try:
        return int(asyncio.run(options.run(options)))
    except CtlError as error:
        print(f"edgettsctl: {error}", file=sys.stderr)
        return error.status
    except BrokenPipeError:
        # The reader of our output has gone; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR
    except KeyboardInterrupt:
        return Exit.ABORTED


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    bus = common.add_mutually_exclusive_group()
    bus.add_argument("--session", action="store_true", help="use the session bus instead of the system bus")
    bus.add_argument(
        "--bus-address",
        metavar="ADDRESS",
        help="use the bus at this address (or set EDGETTSD_BUS_ADDRESS)",
    )
    result = _Parser(
        prog="edgettsctl",
        description="Speak, and see how the text-to-speech daemon is.",
        parents=[common],
        epilog=TABLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = result.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for module in COMMANDS:
        module.add(commands, common)
    return result
