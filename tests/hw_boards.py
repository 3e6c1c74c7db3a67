"""Snapshots of boards (tests/data/hw/*.json) as file trees.

A snapshot lists files with their content. `{0-3}` in a path stands for each of these numbers, and `{n}` in
the content for the number itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from edgettsd.config import parse_cpus
from edgettsd.hw import Profile, probe

DATA = Path(__file__).parent / "data" / "hw"
BOARDS = tuple(sorted(path.stem for path in DATA.glob("*.json")))


def write(root: Path, files: dict[str, str]) -> Path:
    """Write the files below `root`."""
    for pattern, content in files.items():
        numbers = re.search(r"\{([0-9,-]+)\}", pattern)
        for number in parse_cpus(numbers[1]) if numbers else (0,):
            path = root / (pattern.replace(numbers[0], str(number)) if numbers else pattern)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.replace("{n}", str(number)).encode())
    return root


def board(name: str, root: Path, **more: str) -> Profile:
    """The profile that is probed from a board's snapshot, with `more` files over it."""
    snapshot = json.loads((DATA / f"{name}.json").read_text())
    write(root, snapshot["files"] | more)
    return probe(root, snapshot["affinity"], snapshot["arch"])
