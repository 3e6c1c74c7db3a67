"""edgettsctl hw: what the machine has and what follows from it, without the daemon."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from edgettsd import config as config_file
from edgettsd.config import ConfigError
from edgettsd.ctl._exit import CtlError, Exit
from edgettsd.hw import Decision, Plan, Profile, ProfileError, adapt, load_profile, own_isa
from edgettsd.hw.placement import ranges


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "show the hardware and what is decided for it, with reasons"
    epilog = (
        "EDGETTSD_HW_PROFILE=FILE replaces fields of the profile: the object that --json shows under "
        '"profile", or parts of it. EDGETTSD_ISA=generic switches the products of our own off (auto: on).'
    )
    command = commands.add_parser(
        "hw", parents=[common], help=text, description=text.capitalize() + ".", epilog=epilog
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help=f"the daemon's configuration (default {config_file.DEFAULT_PATH})",
    )
    command.set_defaults(run=run)


async def run(options: argparse.Namespace) -> int:
    """Print profile and decisions; a configuration or profile that cannot be used is an error."""
    try:
        isa = own_isa()
        profile = load_profile()
        plan = adapt(profile, config_file.load(options.config))
    except (ConfigError, ProfileError) as error:
        raise CtlError(str(error)) from None
    if options.json:
        print(json.dumps(to_json(profile, plan, isa), indent=2))
    else:
        print("\n".join(lines(profile, plan, isa)))
    return Exit.OK


def to_json(profile: Profile, plan: Plan, isa: str) -> dict[str, Any]:
    """Profile and decisions as plain data; CPU sets are lists."""
    decisions = {
        d.name: {
            "value": list(d.value) if isinstance(d.value, tuple) else d.value,
            "origin": d.origin,
            "reason": d.reason,
        }
        for d in plan.decisions
    }
    return {"profile": profile.to_dict(), "own_isa": isa, "decisions": decisions}


def lines(profile: Profile, plan: Plan, isa: str) -> list[str]:
    """The text for people: the machine of this process, then a line a decision."""
    little = [cpu.id for cpu in profile.cpus if cpu.id not in profile.big()]
    cores = len({cpu.core for cpu in profile.cpus})
    cpus = f"{len(profile.cpus)} CPUs on {cores} cores"
    if little:
        cpus += f"; big {ranges(profile.big())}, little {ranges(tuple(little))}"
    cpus += f"; allowed {ranges(profile.allowed)}"
    if profile.isolated:
        cpus += f"; isolated {ranges(profile.isolated)}"
    limit = f", limited to {profile.memory_limit_mb} MB" if profile.memory_limit_mb else ""
    graphics: list[str] = [profile.gpu] if profile.gpu != "none" else []
    graphics += [name for name in ("vulkan", "opencl") if getattr(profile, name)]
    graphics += [f"NPU {profile.npu}"] if profile.npu else []
    heat = [f"{zone.type} {zone.trip_c} C" for zone in profile.zones if zone.trip_c]
    facts = {
        "machine": f"{profile.model or 'unnamed'} ({profile.machine}, {profile.arch})",
        "CPUs": cpus,
        "kinds": ", ".join(sorted({cpu.kind for cpu in profile.cpus} - {""})),
        "can do": ", ".join(profile.isa),
        "own code": isa if isa != "generic" else "generic (libllama and ggml compute)",
        "memory": f"{profile.ram_mb} MB{limit}",
        "devices": ", ".join(graphics),
        "slows at": ", ".join(heat),
    }
    result = [f"{name + ':':10}{value}" for name, value in facts.items() if value]
    return [*result, "", *map(_line, plan.decisions)]


def _line(decision: Decision) -> str:
    value = decision.value
    if isinstance(value, tuple) and decision.name.startswith("cpus_"):
        value = ranges(value)
    elif isinstance(value, tuple):
        value = ",".join(map(str, value))
    elif isinstance(value, float):
        value = f"{value:g}"
    return f"{decision.name:18} {value or '-'!s:10} {decision.reason}"
