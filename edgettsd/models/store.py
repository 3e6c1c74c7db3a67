"""Opens model bundles: everything about the files is checked before any library loads one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ..errors import ModelInvalidError
from ..frontends.english.frontend import EnglishFrontEnd
from .gguf import read_gguf_header
from .manifest import FRAMES, MAX_MANIFEST, Manifest, TransformerSizes, parse_manifest
from .safetensors import SafetensorsFile

MANIFEST = "manifest.json"
# Part of the name of a folder that a conversion is still writing, or left behind when it was killed.
PARTIAL = ".partial-"
PREDICTOR_ARCH = "qwen3tts-predictor"
VERIFY = ("size", "full")

Shapes = dict[str, tuple[int, ...]]


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
        _check_talker(files["talker.gguf"], manifest)
        _check_predictor(files["predictor.gguf"], manifest)
        if manifest.text_frontend == FRAMES:
            EnglishFrontEnd.load(files)
        else:
            _check_tokenizer(files["tokenizer.gguf"], manifest)
        _check_embeddings(files["embeddings.safetensors"], manifest)
        _check_decoder(files["decoder.tflite"])
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


def layer_shapes(sizes: TransformerSizes) -> Shapes:
    """Tensors of the layers of a talker or predictor file, with the last norm."""
    hidden, queries, keys = sizes.hidden, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    shapes: Shapes = {}
    for index in range(sizes.layers):
        block = f"blk.{index}."
        shapes |= {
            block + "attn_norm.weight": (hidden,),
            block + "attn_q.weight": (queries, hidden),
            block + "attn_k.weight": (keys, hidden),
            block + "attn_v.weight": (keys, hidden),
            block + "attn_output.weight": (hidden, queries),
            block + "attn_q_norm.weight": (sizes.head_dim,),
            block + "attn_k_norm.weight": (sizes.head_dim,),
            block + "ffn_norm.weight": (hidden,),
            block + "ffn_gate.weight": (sizes.ffn, hidden),
            block + "ffn_up.weight": (sizes.ffn, hidden),
            block + "ffn_down.weight": (hidden, sizes.ffn),
        }
    shapes["output_norm.weight"] = (hidden,)
    return shapes


def talker_tensors(sizes: TransformerSizes) -> Shapes:
    """Every tensor of talker.gguf with its shape, rows first."""
    table = (sizes.vocab, sizes.hidden)
    return {"token_embd.weight": table} | layer_shapes(sizes) | {"output.weight": table}


def predictor_tensors(sizes: TransformerSizes, code_groups: int) -> Shapes:
    """Every tensor of predictor.gguf with its shape, rows first."""
    shapes = layer_shapes(sizes)
    for group in range(1, code_groups):
        shapes[f"head.{group}.weight"] = (sizes.vocab, sizes.hidden)
    if sizes.input_hidden != sizes.hidden:
        shapes["input_proj.weight"] = (sizes.hidden, sizes.input_hidden)
        shapes["input_proj.bias"] = (sizes.hidden,)
    return shapes


def embedding_tensors(manifest: Manifest) -> Shapes:
    """Every tensor of embeddings.safetensors with its shape."""
    hidden = manifest.talker.hidden
    shapes: Shapes = {"text": (manifest.text_vocab, hidden), "codec.0": (manifest.talker.vocab, hidden)}
    for group in range(1, manifest.code_groups):
        shapes[f"codec.{group}"] = (manifest.predictor.vocab, hidden)
    for voice in manifest.voices.values():
        if voice.row is not None:
            shapes[voice.row] = (hidden,)
    return shapes


def _check_talker(file: Path, manifest: Manifest) -> None:
    header, sizes = read_gguf_header(file), manifest.talker
    header.expect_value("general.architecture", "qwen3")
    for key, value in (
        ("block_count", sizes.layers),
        ("context_length", sizes.max_context),
        ("embedding_length", sizes.hidden),
        ("feed_forward_length", sizes.ffn),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.kv_heads),
        ("attention.key_length", sizes.head_dim),
        ("attention.value_length", sizes.head_dim),
        ("vocab_size", sizes.vocab),
        ("attention.layer_norm_rms_epsilon", sizes.rms_eps),
        ("rope.freq_base", sizes.rope_theta),
    ):
        header.expect_value(f"qwen3.{key}", value)
    header.expect_tensors(talker_tensors(sizes))


def _check_predictor(file: Path, manifest: Manifest) -> None:
    header, sizes = read_gguf_header(file), manifest.predictor
    header.expect_value("general.architecture", PREDICTOR_ARCH)
    for key, value in (
        ("embedding_length", sizes.hidden),
        ("input_embedding_length", sizes.input_hidden),
        ("block_count", sizes.layers),
        ("feed_forward_length", sizes.ffn),
        ("attention.head_count", sizes.heads),
        ("attention.head_count_kv", sizes.kv_heads),
        ("attention.key_length", sizes.head_dim),
        ("attention.layer_norm_rms_epsilon", sizes.rms_eps),
        ("rope.freq_base", sizes.rope_theta),
        ("vocab_size", sizes.vocab),
        ("code_groups", manifest.code_groups),
    ):
        header.expect_value(f"{PREDICTOR_ARCH}.{key}", value)
    header.expect_tensors(predictor_tensors(sizes, manifest.code_groups))


def _check_tokenizer(file: Path, manifest: Manifest) -> None:
    header = read_gguf_header(file)
    header.expect_value("tokenizer.ggml.model", "gpt2")
    header.expect_value("tokenizer.ggml.pre", "qwen2")
    header.expect_tensors({})
    for key, length in (
        ("tokenizer.ggml.tokens", manifest.text_vocab),
        ("tokenizer.ggml.token_type", manifest.text_vocab),
        ("tokenizer.ggml.merges", None),
    ):
        found = header.arrays.get(key)
        if found is None:
            raise ModelInvalidError(f"{file}: key {key} is missing")
        if length is not None and found != length:
            raise ModelInvalidError(f"{file}: key {key} has {found} entries, {length} are needed")


def _check_embeddings(file: Path, manifest: Manifest) -> None:
    dtype = manifest.embeddings_dtype.upper()
    with SafetensorsFile(file) as tables:
        expected = embedding_tensors(manifest)
        for name, shape in expected.items():
            tables.expect(name, shape, (dtype,))
        for name in tables.tensors:
            if name not in expected:
                raise ModelInvalidError(f"{file}: tensor {name} does not belong there")


def _check_decoder(file: Path) -> None:
    with open(file, "rb") as stream:
        if stream.read(8)[4:] != b"TFL3":
            raise ModelInvalidError(f"{file} is not a TFLite file")
