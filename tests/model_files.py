"""Tiny checkpoints and bundles for tests, made once a run, and ways to damage copies of them."""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.families.qwen3_tts.make_checkpoint import make_checkpoint
from edgettsd_tools.safetensors_writer import Entry, write_safetensors

from edgettsd.models.safetensors import SafetensorsFile

Tensors = dict[str, np.ndarray[Any, Any]]
# What every official checkpoint consists of.
CHECKPOINT_FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "speech_tokenizer/config.json",
    "speech_tokenizer/model.safetensors",
)


@functools.cache
def _home() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="edgettsd-models-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def checkpoint(size: str = "tiny", task: str = "custom_voice") -> Path:
    """A random checkpoint, seed 1; not to be changed."""
    folder = _home() / f"{size}-{task}"
    if not folder.exists():
        make_checkpoint(folder, size, task, 1)
    return folder


def bundle(size: str = "tiny", task: str = "custom_voice", precision: str = "q8_0") -> Path:
    """A bundle of `checkpoint(size, task)`; not to be changed."""
    folder = _home() / f"{size}-{task}-{precision}"
    if not folder.exists():
        convert(checkpoint(size, task), folder, Options(talker=precision, predictor=precision))
    return folder


def copy(folder: Path, target: Path) -> Path:
    """A copy whose files are links: replace files in it, never write into them."""
    shutil.copytree(folder, target, copy_function=os.link)
    return target


def replace(file: Path, data: bytes) -> None:
    """Give a file of a copy new content."""
    file.unlink()
    file.write_bytes(data)


def edit_json(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a JSON file of a copy."""
    value = json.loads(file.read_text(encoding="utf-8"))
    change(value)
    replace(file, json.dumps(value).encode())


def edit_safetensors(file: Path, change: Callable[[Tensors], None], dtype: str = "F32") -> None:
    """Change, add or remove tensors of a safetensors file of a copy; it is written anew in `dtype`."""
    with SafetensorsFile(file) as source:
        tensors = {name: np.array(source[name], dtype=np.float32) for name in source}
    change(tensors)
    file.unlink()
    entries = [Entry(name, dtype, value.shape) for name, value in tensors.items()]
    write_safetensors(file, entries, lambda entry: [tensors[entry.name]])


def gguf_without(file: Path, unwanted: str) -> bytes:
    """The bytes of a GGUF file of a copy without one tensor."""
    import gguf

    reader = gguf.GGUFReader(file)
    first = reader.tensors[0].field.offset
    infos, data = b"", b""
    for tensor in reader.tensors:
        if tensor.name == unwanted:
            continue
        name = tensor.name.encode()
        shape = [int(extent) for extent in tensor.shape]
        infos += struct.pack(f"<Q{len(name)}sI", len(name), name, len(shape))
        infos += struct.pack(f"<{len(shape)}QIQ", *shape, tensor.tensor_type, len(data))
        raw = tensor.data.tobytes()
        data += raw + bytes(-len(raw) % 32)
    head = bytearray(file.read_bytes()[:first])
    struct.pack_into("<Q", head, 8, len(reader.tensors) - 1)
    head += infos
    return bytes(head) + bytes(-len(head) % 32) + data


def restate(folder: Path) -> None:
    """Make the manifest of a bundle's copy agree with the sizes and digests of its files again."""

    def change(manifest: dict[str, Any]) -> None:
        for name, entry in manifest["files"].items():
            data = (folder / name).read_bytes()
            entry["size"], entry["sha256"] = len(data), hashlib.sha256(data).hexdigest()

    edit_json(folder / "manifest.json", change)
