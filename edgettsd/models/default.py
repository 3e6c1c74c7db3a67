"""Which model speaks where none is configured: the one in its usual place, else the package's own voice."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from edgettsd.config import Config

USUAL = Path("/var/lib/edgettsd/models/default")
"""Where a model is looked for; also what is named when there is none at all."""
BUILT_IN = Path(__file__).absolute().parents[1] / "voice"
"""The voice inside the package; a package may come without it."""


def with_model(config: Config) -> Config:
    """`config` with a folder in [model] path: the configured one, the usual one, or the built-in voice."""
    if config.model.path:
        return config
    # A link that leads nowhere is a mistake to be told, not a reason to speak with another voice.
    found = BUILT_IN if has_built_in() and not _may_be(USUAL) else USUAL
    return dataclasses.replace(config, model=dataclasses.replace(config.model, path=str(found)))


def has_built_in() -> bool:
    """Whether this package has a voice inside."""
    return _may_be(BUILT_IN / "manifest.json")


def _may_be(path: Path) -> bool:
    """Whether something is there. Also where that cannot be seen: then opening it tells the reason."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def built_in_name() -> str:
    """Name of the voice inside the package; empty without one, or where its manifest cannot be read."""
    try:
        name = json.loads((BUILT_IN / "manifest.json").read_text(encoding="utf-8"))["name"]
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return str(name)


def origin(config: Config) -> str:
    """The model's folder for people, with a word where it is the built-in voice. After `with_model`."""
    path = config.model.path
    return f"{path} (the built-in voice)" if Path(path) == BUILT_IN else path
