"""Write a random checkpoint in the layout of the official ones of a family (--family NAME first)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from edgettsd_tools.families import DEFAULT, FAMILIES
from edgettsd_tools.progress import EXIT_USAGE, die


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    family = DEFAULT
    if given[:1] == ["--family"]:
        by_name = {known.name: known for known in FAMILIES}
        if len(given) < 2 or given[1] not in by_name:
            die(f"--family {' '.join(given[1:2])}: allowed are {', '.join(by_name)}", code=EXIT_USAGE)
        family, given = by_name[given[1]], given[2:]
    return int(family.module("make_checkpoint").main(given))


if __name__ == "__main__":
    sys.exit(main())
