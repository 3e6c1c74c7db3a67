"""Who holds the speech, as edgettsctl shows it."""

from __future__ import annotations

import json
from pathlib import Path

from edgettsd.bus import CallError
from edgettsd.client import Daemon

NOBODY = "edgettsctl pause"


async def pausers(daemon: Daemon) -> list[str]:
    """Whose pauses are in force, the oldest first: bus name and process where they are known."""
    owners = json.loads(await daemon.call("Stats", start=False)).get("paused_by", [])
    return [await _program(daemon, owner) if owner.startswith(":") else owner or NOBODY for owner in owners]


async def _program(daemon: Daemon, name: str) -> str:
    try:
        pid = (await daemon.connection.call_bus("GetConnectionUnixProcessID", "s", [name]))[0]
        command = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except (CallError, OSError):
        return name
    return f"{name} ({command}, process {pid})"
