"""Model families: what is true of one kind of model only, one folder each.

A bundle's manifest names its family; a family is imported only for a bundle that names it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from edgettsd.config import Config
    from edgettsd.engine.parts import Parts
    from edgettsd.models._fields import Fields
    from edgettsd.models.manifest import Manifest
    from edgettsd.models.store import Bundle

# By the manifest's word: the module whose FAMILY it is.
_MODULES = {"qwen3-tts-12hz": "edgettsd.families.qwen3_tts.family"}
_registered: dict[str, Family] = {}


class Family(Protocol):
    """What a family must provide; everything else in this package works with any of them.

    Attributes:
        name: what a manifest says in `family`.
    """

    @property
    def name(self) -> str: ...

    def manifest(self, top: Fields) -> Manifest:
        """Check all fields of a manifest, the common ones with `edgettsd.models.manifest.common`.

        Raises ModelInvalidError. Keys that are not asked for are refused by the caller.
        """
        ...

    def check(self, files: Mapping[str, Path], manifest: Manifest) -> None:
        """Check the bundle's files, whose names, sizes and digests are right; not the decoder's.

        Nothing may be loaded by a native library. Raises ModelInvalidError that names the file, OSError.
        """
        ...

    def parts(self, bundle: Bundle, config: Config) -> Parts:
        """Kernels, prompts and frame plan of a checked bundle; raises ModelInvalidError.

        Also UnknownVoiceError and InvalidOptionError for a configured voice or language that is not there.
        """
        ...


def register(family: Family) -> None:
    """Make a family known; raises ValueError where its name is taken."""
    if family.name in names():
        raise ValueError(f"family {family.name!r} is known already")
    _registered[family.name] = family


def unregister(name: str) -> None:
    """Forget a family that was registered; raises KeyError for others."""
    del _registered[name]


def names() -> tuple[str, ...]:
    """The known families."""
    return (*_MODULES, *_registered)


def find(name: str) -> Family:
    """The family of that name, one of `names`; raises KeyError."""
    if name in _registered:
        return _registered[name]
    return cast(Family, importlib.import_module(_MODULES[name]).FAMILY)
