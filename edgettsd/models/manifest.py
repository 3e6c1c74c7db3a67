"""The manifest of a model bundle: what the model is, and what each of its files must be.

Here is what every model family has. What else a manifest says is read by the family that it names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .. import families, limits
from ..errors import ModelInvalidError
from ._fields import Fields

FORMAT = 1
LM_PRECISIONS = ("f32", "f16", "q8_0", "q4_K", "q4_0")
DECODER_PRECISIONS = ("f32", "f16", "int8", "w8")
EMBEDDING_DTYPES = ("f32", "f16")
SCHEDULES = ("fixed", "ramp", "adaptive")
MAX_MANIFEST = 1 << 20
DECODER = "decoder.tflite"
"""The file that every family's bundle has."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the bundle: size in bytes and SHA-256 in lower-case hex."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DecoderInfo:
    """The decoder: precision of its weights, chunk sizes it has signatures for, number of state tensors."""

    precision: str
    chunks: tuple[int, ...]
    states: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is known of a bundle of any family; each family derives a class with fields of its own.

    `code_groups` is the number of codebooks of a frame; `raw` is the manifest as plain JSON values.
    """

    family: str
    name: str
    license: str
    source: Mapping[str, Any]
    sample_rate: int
    samples_per_frame: int
    code_groups: int
    files: Mapping[str, FileEntry]
    decoder: DecoderInfo
    schedule_kind: str
    schedule_chunks: tuple[int, ...]
    raw: Mapping[str, Any]


def parse_manifest(data: bytes, source: str = "manifest.json") -> Manifest:
    """Check a manifest. `source` names the file in messages.

    Raises ModelInvalidError for whatever is missing, unknown, of a wrong type or out of range.
    """
    if len(data) > MAX_MANIFEST:
        raise ModelInvalidError(f"{source}: {len(data)} bytes, at most {MAX_MANIFEST} are allowed")
    try:
        raw = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ModelInvalidError(f"{source}: not valid JSON: {error}") from None
    top = Fields(source, "", raw)
    version = top.any("format")
    if version != FORMAT or isinstance(version, bool):
        raise top.refuse("format", f"this version of edgettsd reads format {FORMAT}")
    manifest = families.find(top.text("family", families.names())).manifest(top)
    top.done()
    return manifest


def common(top: Fields, files: Sequence[str]) -> dict[str, Any]:
    """The fields of `Manifest`, by name; `files` are the names of the bundle's files, the manifest apart.

    Raises ModelInvalidError.
    """
    decoder = _decoder(top.table("decoder"))
    schedule_kind, schedule_chunks = _schedule(top.table("schedule"), decoder)
    source = top.table("source")
    return {
        "family": top.text("family"),
        "name": top.text("name"),
        "license": top.text("license", empty=True),
        "source": MappingProxyType({key: source.any(key) for key in source.names()}),
        "sample_rate": top.whole("sample_rate", 8000, 192000),
        "samples_per_frame": top.whole("samples_per_frame", 1, limits.MAX_SPF),
        "code_groups": top.whole("code_groups", 1, limits.MAX_GROUPS),
        "files": _files(top.table("files"), files),
        "decoder": decoder,
        "schedule_kind": schedule_kind,
        "schedule_chunks": schedule_chunks,
        "raw": MappingProxyType(top.plain()),
    }


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"key {key!r} appears twice")
        result[key] = value
    return result


def _decoder(table: Fields) -> DecoderInfo:
    chunks = table.wholes("chunks", 1, limits.MAX_CHUNK, limits.MAX_SIZES)
    # The last frames of an utterance come one by one.
    if list(chunks) != sorted(set(chunks)) or chunks[0] != 1:
        raise table.refuse("chunks", "ascending sizes that begin with 1 are needed")
    info = DecoderInfo(
        table.text("precision", DECODER_PRECISIONS), chunks, table.whole("states", 1, limits.MAX_STATES)
    )
    table.done()
    return info


def _schedule(table: Fields, decoder: DecoderInfo) -> tuple[str, tuple[int, ...]]:
    kind, chunks = (
        table.text("kind", SCHEDULES),
        table.wholes("chunks", 1, limits.MAX_CHUNK, limits.MAX_STEPS),
    )
    if not set(chunks) <= set(decoder.chunks):
        raise table.refuse("chunks", f"the decoder has {', '.join(map(str, decoder.chunks))}")
    table.done()
    return kind, chunks


def _files(table: Fields, wanted: Sequence[str]) -> Mapping[str, FileEntry]:
    files: dict[str, FileEntry] = {}
    for name in table.names():
        if name not in wanted:
            plain = not set(name) & set("/\\") and name not in (".", "..")
            what = "is unknown" if plain else "is not a plain file name"
            raise table.refuse(name, f"this name {what}, allowed are {', '.join(wanted)}")
    for name in wanted:
        entry = table.table(name)
        size, digest = entry.whole("size", 1, 1 << 48), entry.text("sha256")
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise entry.refuse("sha256", "64 lower-case hexadecimal digits are needed")
        entry.done()
        files[name] = FileEntry(size, digest)
    return MappingProxyType(files)
