"""Reads a checkpoint's tokenizer: vocab.json and merges.txt as published, or tokenizer.json alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgettsd.errors import ModelInvalidError
from edgettsd.models._fields import Fields

from ...checkpoint import read_json

CONFIG, VOCAB, MERGES, WHOLE = "tokenizer_config.json", "vocab.json", "merges.txt", "tokenizer.json"
CLASSES = ("Qwen2Tokenizer", "Qwen2TokenizerFast")
# How Qwen2 cuts a text into the words that merges work in: what libllama does for the pre-tokenizer "qwen2".
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """`config` is tokenizer_config.json; `vocab` token -> id, 0 to its length - 1; `merges` each two tokens
    with a blank between, of the vocabulary; `added` id -> (text, is it a control token)."""

    config: dict[str, Any]
    vocab: dict[str, int]
    merges: list[str]
    added: dict[int, tuple[str, bool]]
    vocab_path: Path
    merges_path: Path


def read_tokenizer(folder: Path, size: int) -> TokenizerFiles:
    """The tokenizer of the checkpoint in `folder`, of at most `size` tokens. Raises ModelInvalidError."""
    config_path = folder / CONFIG
    config = read_json(config_path)
    found = config.get("tokenizer_class")
    if found not in CLASSES:
        raise ModelInvalidError(
            f"{config_path}: tokenizer_class is {found!r}, allowed are {', '.join(CLASSES)}"
        )
    published = all((folder / name).exists() for name in (VOCAB, MERGES)) or not (folder / WHOLE).exists()
    added_path, table = config_path, config.get("added_tokens_decoder")
    if published:
        vocab_path, merges_path = folder / VOCAB, folder / MERGES
        vocab, merges = read_json(vocab_path), _merge_lines(merges_path)
    else:
        vocab_path = merges_path = folder / WHOLE
        whole = read_json(vocab_path)
        vocab, merges = _whole(vocab_path, whole)
        if table is None:
            added_path, table = vocab_path, _added_list(vocab_path, whole)
    if len(vocab) > size or sorted(vocab.values(), key=str) != sorted(range(len(vocab)), key=str):
        raise ModelInvalidError(f"{vocab_path}: ids are not 0 to {len(vocab) - 1}, at most {size}")
    for merge in merges:
        if merge.count(" ") != 1:
            raise ModelInvalidError(
                f"{merges_path}: merge {merge!r}, two tokens with a blank between are needed"
            )
        if not all(part in vocab for part in merge.split(" ")) or merge.replace(" ", "") not in vocab:
            raise ModelInvalidError(f"{merges_path}: merge {merge!r} has tokens not in {vocab_path.name}")
    return TokenizerFiles(config, vocab, merges, _added(added_path, table, size), vocab_path, merges_path)


def _merge_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ModelInvalidError(f"{path} is missing") from None
    except UnicodeDecodeError as error:
        raise ModelInvalidError(f"{path} is not UTF-8: {error}") from None
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    return [line for line in lines if line]


def _whole(path: Path, whole: dict[str, Any]) -> tuple[dict[str, int], list[str]]:
    """Vocabulary and merges of a tokenizer.json, which must cut texts as Qwen2 does."""
    fields = Fields(str(path), "", whole)
    model = fields.table("model")
    model.text("type", ("BPE",))
    for key in ("byte_fallback", "ignore_merges"):
        if model.has(key) and model.any(key) is not False:
            raise model.refuse(key, "only false is supported")
    model.table("vocab")
    steps = whole.get("pre_tokenizer")
    steps = steps.get("pretokenizers") if isinstance(steps, dict) else None
    if not isinstance(steps, list) or not any(_is_split(step) for step in steps):
        raise fields.refuse("pre_tokenizer", "that of Qwen2 is needed")
    merges = model.any("merges")
    if not isinstance(merges, list):
        raise model.refuse("merges", "a list of pairs is needed")
    return model.any("vocab"), [_merge(path, merge) for merge in merges]


def _is_split(step: Any) -> bool:
    pattern = step.get("pattern") if isinstance(step, dict) else None
    return isinstance(pattern, dict) and pattern.get("Regex") == SPLIT


def _merge(path: Path, merge: Any) -> str:
    """A merge as one line; the tokenizers library wrote lines before it wrote pairs."""
    parts: Sequence[Any] = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2:
        raise ModelInvalidError(f"{path}: merge {merge!r}, two tokens are needed")
    if not all(isinstance(part, str) and part and " " not in part for part in parts):
        raise ModelInvalidError(f"{path}: merge {merge!r}, two tokens without blanks are needed")
    return " ".join(parts)


def _added_list(path: Path, whole: dict[str, Any]) -> dict[str, Any]:
    """The added tokens of a tokenizer.json in the form of tokenizer_config.json."""
    table = whole.get("added_tokens")
    if not isinstance(table, list):
        raise Fields(str(path), "", whole).refuse("added_tokens", "a list is needed")
    return {str(entry.get("id")) if isinstance(entry, dict) else "": entry for entry in table}


def _added(path: Path, table: Any, size: int) -> dict[int, tuple[str, bool]]:
    """Added tokens: id -> (text, is it a control token)."""
    if not isinstance(table, dict):
        raise ModelInvalidError(f"{path}: added_tokens_decoder is missing")
    added: dict[int, tuple[str, bool]] = {}
    for key, entry in table.items():
        if not key.isascii() or not key.isdigit() or int(key) >= size:
            raise ModelInvalidError(f"{path}: added token id {key!r}, allowed are 0 to {size - 1}")
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise ModelInvalidError(f"{path}: added token {key} has no content")
        added[int(key)] = (entry["content"], bool(entry.get("special")))
    return added
