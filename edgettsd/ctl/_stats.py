"""edgettsctl stats."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from edgettsd.ctl._client import connect
from edgettsd.ctl._exit import Exit
from edgettsd.ctl._pausers import NOBODY


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "show counters and where the time goes; never starts the daemon"
    command = commands.add_parser("stats", parents=[common], help=text, description=text.capitalize() + ".")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


async def run(options: argparse.Namespace) -> int:
    """Print the figures."""
    async with connect(options.session, options.bus_address) as daemon:
        text = await daemon.call("Stats", start=False)
    stats = json.loads(text)
    if options.json:
        print(json.dumps(stats, indent=2, ensure_ascii=False))
        return Exit.OK
    for line in table(stats):
        print(line)
    return Exit.OK


def table(stats: Mapping[str, Any]) -> list[str]:
    """The figures as lines of text."""
    plain = {name: value for name, value in stats.items() if not isinstance(value, (dict, list))}
    width = max(map(len, plain), default=0)
    lines = [f"{name:{width}}  {value}" for name, value in plain.items()]
    if owners := stats.get("paused_by"):
        lines.append(f"{'paused_by':{width}}  {', '.join(owner or NOBODY for owner in owners)}")
    if failed := {name: task for name, task in stats.get("tasks", {}).items() if task["failures"]}:
        lines += ["", "task                   failures  state"]
        lines += [
            f"  {name:20} {task['failures']:8}  {task['state']}: {task['reason']}"
            for name, task in failed.items()
        ]
    shares = stats.get("attribution", {})
    if shares.get("wall"):
        lines += ["", "last utterance                ms  share"]
        lines += [f"  {name:20} {ms:9.1f}  {ms / shares['wall']:5.1%}" for name, ms in shares.items()]
    if first := stats.get("first_audio"):
        lines += ["", "to its first sample           ms"]
        lines += [f"  {name:20} {ms:9.1f}" for name, ms in first.items()]
    steps = stats.get("steps", {})
    rows = [(name, entry) for name, entry in steps.items() if isinstance(entry, dict) and "median" in entry]
    rows += [(f"decoder, {size} frames", entry) for size, entry in steps.get("decoder", {}).items()]
    if rows:
        lines += ["", "step, ms                  median       p95       max  disturbed"]
        for name, entry in rows:
            share = f"{entry['disturbed']:9.0%}" if "disturbed" in entry else ""
            lines.append(
                f"  {name:20} {entry['median']:9.2f} {entry['p95']:9.2f} {entry['max']:9.2f} {share}".rstrip()
            )
    elif not stats.get("step_statistics", True):
        lines += ["", "steps are not recorded: [engine] step_statistics = true"]
    return lines
