"""The daemon with its codes kept: `python daemon.py CODES.npy ARGUMENTS...` runs edgettsd with the arguments.

What tools/cross/check-aarch64 starts on both machines. The codes of every frame that was generated, [frames,
groups] int16, are written when the daemon ends.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np

from edgettsd import daemon
from edgettsd.engine.sources import local


class Recording(local.Generator):
    """The frame loop, which here collects the codes too."""

    codes: ClassVar[list[Any]] = []

    def run(self, *args: Any, **named: Any) -> dict[str, Any]:
        """As the frame loop's."""
        result: dict[str, Any] = super().run(*args, **named, collect=named["max_frames"])
        self.codes.append(result["codes"])
        return result


if __name__ == "__main__":
    local.Generator = Recording  # type: ignore[misc]
    status = daemon.main(sys.argv[2:])
    np.save(sys.argv[1], np.concatenate(Recording.codes))
    sys.exit(status)
