"""Opens model bundles: everything about the files is checked before any library loads one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from .. import families
from ..errors import ModelInvalidError
from .manifest import DECODER, MAX_MANIFEST, Manifest, parse_manifest
from .safetensors import SafetensorsFile

MANIFEST = "manifest.json"
# Part of the name of a folder that a conversion is still writing, or left behind when it was killed.
PARTIAL = ".partial-"
VERIFY = ("size", "full")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A checked bundle: where it is, its manifest, and its files by name."""

    path: Path
    manifest: Manifest
    files: Mapping[str, Path]

    def open_embeddings(self) -> SafetensorsFile:
        """Map the embedding tables; the caller closes them."""
        return SafetensorsFile(self.files["embeddings.safetensors"])


def open_bundle(path: Path | str, verify: str = "size") -> Bundle:
    """Check the bundle in folder `path` and describe it.

    `verify` is "size" (names, sizes, the headers of the files: milliseconds) or "full" (SHA-256 of every file
    too). Raises ModelInvalidError that names the file, field or tensor that is wrong.
    """
    if verify not in VERIFY:
        raise ValueError(f"verify is {verify!r}; allowed are {', '.join(VERIFY)}")
    folder = Path(path)
    if PARTIAL in folder.name:
        raise ModelInvalidError(f"{folder} is an unfinished conversion")
    return check_bundle(folder, verify)


def check_bundle(folder: Path, verify: str = "size") -> Bundle:
    """As `open_bundle`, for a conversion that is about to be finished."""
    manifest = parse_manifest(_read_manifest(folder), str(folder / MANIFEST))
    try:
        files = MappingProxyType({name: _check_file(folder, name, manifest) for name in manifest.files})
        if verify == "full":
            for name, file in files.items():
                _check_digest(file, manifest.files[name].sha256)
        families.find(manifest.family).check(files, manifest)
        _check_decoder(files[DECODER])
    except OSError as error:
        raise ModelInvalidError(f"cannot read {error.filename or folder}: {error.strerror}") from error
    return Bundle(folder, manifest, files)


def _read_manifest(folder: Path) -> bytes:
    file = folder / MANIFEST
    try:
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise ModelInvalidError(f"{folder} is not a folder")
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise ModelInvalidError(f"{file} is not a regular file")
        with open(file, "rb") as stream:
            return stream.read(MAX_MANIFEST + 1)
    except FileNotFoundError as error:
        raise ModelInvalidError(f"{error.filename} is missing") from None
    except OSError as error:
        raise ModelInvalidError(f"cannot read {file}: {error.strerror}") from error


def _check_file(folder: Path, name: str, manifest: Manifest) -> Path:
    file = folder / name
    try:
        resolved = file.resolve(strict=True)
    except FileNotFoundError:
        raise ModelInvalidError(f"{file} is missing") from None
    except RuntimeError:
        raise ModelInvalidError(f"{file} is a link to itself") from None
    if not resolved.is_relative_to(folder.resolve()):
        raise ModelInvalidError(f"{file} leads out of the bundle, to {resolved}")
    status = os.stat(resolved)
    if not stat.S_ISREG(status.st_mode):
        raise ModelInvalidError(f"{file} is not a regular file")
    expected = manifest.files[name].size
    if status.st_size != expected:
        raise ModelInvalidError(f"{file} has {status.st_size} bytes, {expected} are needed")
    return file


def _check_digest(file: Path, expected: str) -> None:
    with open(file, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise ModelInvalidError(f"{file} is damaged: SHA-256 is {found}, {expected} is needed")


def _check_decoder(file: Path) -> None:
    with open(file, "rb") as stream:
        if stream.read(8)[4:] != b"TFL3":
            raise ModelInvalidError(f"{file} is not a TFLite file")
