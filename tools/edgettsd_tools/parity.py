"""Compare a bundle with the official model's reference files, by the module of the bundle's family."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from edgettsd.errors import ModelInvalidError
from edgettsd_tools.families import of_arguments
from edgettsd_tools.progress import die


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        family = of_arguments(given, manifest=True)
    except ModelInvalidError as error:
        die(str(error))
    return int(family.module("parity").main(given))


if __name__ == "__main__":
    sys.exit(main())
