"""Model families as the tools know them: one folder each, recognised by the checkpoint.

A family's folder holds the modules `conversion` with a class `Conversion`, and `oracle`, `parity` and
`make_checkpoint`, each with `main(arguments) -> exit status`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from edgettsd.errors import ModelInvalidError

if TYPE_CHECKING:
    from ..convert import Options


class Conversion(Protocol):
    """A checkpoint that was opened and found whole, to be written as a bundle."""

    def write(self, partial: Path, name: str, source: Mapping[str, Any], quiet: bool) -> dict[str, Any]:
        """Write every file of the bundle into the folder `partial`, but not its manifest.

        Returns the manifest without `files`; `name` and `source` are two of its fields.
        """
        ...

    def close(self) -> None:
        """Close the checkpoint."""
        ...


@dataclass(frozen=True, slots=True)
class ToolFamily:
    """A family: its name in a manifest and for people, its folder here, its checkpoints' model_type."""

    name: str
    title: str
    folder: str
    model_types: tuple[str, ...]

    def module(self, name: str) -> ModuleType:
        """One of the family's modules, imported now."""
        return importlib.import_module(f"{__name__}.{self.folder}.{name}")

    def convert(self, folder: Path, options: Options, note: Callable[[str], None]) -> Conversion:
        """Open and check a checkpoint; `note` is given what people should know. Raises ModelInvalidError."""
        return cast(Conversion, self.module("conversion").Conversion(folder, options, note))


FAMILIES = (ToolFamily("qwen3-tts-12hz", "Qwen3-TTS-12Hz", "qwen3_tts", ("qwen3_tts",)),)
DEFAULT = FAMILIES[0]
"""The family of a tool that is told none."""


def named(name: str) -> ToolFamily:
    """The family that a manifest names so; raises ModelInvalidError."""
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ModelInvalidError(f"family is {name!r}; allowed are {', '.join(f.name for f in FAMILIES)}")


def of_checkpoint(folder: Path) -> ToolFamily:
    """The family that a checkpoint's config.json belongs to.

    Raises ModelInvalidError for a model_type that no family has. A folder without a readable config.json is
    left to the default family, which says what is wrong with it.
    """
    file = folder / "config.json"
    try:
        kind = json.loads(file.read_text(encoding="utf-8"))["model_type"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return DEFAULT
    for family in FAMILIES:
        if kind in family.model_types:
            return family
    known = ", ".join(kind for family in FAMILIES for kind in family.model_types)
    raise ModelInvalidError(f"{file}: model_type is {kind!r}; allowed are {known}")


def of_arguments(arguments: Sequence[str] | None, manifest: bool = False) -> ToolFamily:
    """The family of the first argument that is a checkpoint's folder, or with `manifest` a bundle's."""
    for argument in arguments or ():
        folder = Path(argument)
        if manifest and (folder / "manifest.json").is_file():
            try:
                return named(json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["family"])
            except (OSError, ValueError, LookupError, TypeError):
                return DEFAULT
        if not manifest and (folder / "config.json").is_file():
            return of_checkpoint(folder)
    return DEFAULT
