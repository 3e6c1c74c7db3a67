"""edgettsctl version."""

from __future__ import annotations

import argparse
import importlib
import platform
from typing import Any

from edgettsd import __version__
from edgettsd.ctl._exit import Exit
from edgettsd.models import default

LIBRARIES = ("dbus-fast", "numpy", "llama-cpp-python", "ai-edge-litert")


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declare the command."""
    text = "print the version"
    command = commands.add_parser("version", parents=[common], help=text, description=text.capitalize() + ".")
    command.add_argument("--verbose", action="store_true", help="also how it was built, and the libraries")
    command.set_defaults(run=run)


async def run(options: argparse.Namespace) -> int:
    """Print the version of this program, which is installed together with the daemon."""
    print(f"edgettsctl {__version__}")
    if options.verbose:
        voice = default.built_in_name() or "none"
        for name, value in {**build(), **libraries(), "built-in voice": voice}.items():
            print(f"{name + ':':18} {value}")
    return Exit.OK


def build() -> dict[str, str]:
    """How the compiled kernels were built, or why that cannot be told."""
    try:
        # The module is imported by name, because the build generates it and the source tree has none.
        info: dict[str, object] = importlib.import_module("cython_kernels._build_info").BUILD_INFO
    except (ImportError, OSError) as error:
        return {"kernels": f"not usable: {error}"}
    return {f"kernels {key}": str(value) for key, value in info.items()}


def libraries() -> dict[str, str]:
    """Versions of Python and of the libraries."""
    # Imported late because the import takes a third of the start of every command.
    from importlib import metadata

    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed as a Python package"
    return found
