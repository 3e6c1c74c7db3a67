"""Write reference files of a checkpoint's official model, by the module of the checkpoint's family."""

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
        family = of_arguments(given)
    except ModelInvalidError as error:
        die(str(error))
    return int(family.module("oracle").main(given))


if __name__ == "__main__":
    sys.exit(main())
