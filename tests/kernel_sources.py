"""Where the C files of the kernels are, for tests that compile some of them with a rig of their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "cython_kernels"
# Options for a C compiler.
INCLUDES = [f"-I{KERNELS}"]


def files(names: Iterable[str]) -> list[str]:
    """The paths of the C files of these names (without `.c`), whatever room they are in."""
    found = {path.stem: str(path) for path in KERNELS.glob("*/*.c")}
    return [found[name] for name in names]
