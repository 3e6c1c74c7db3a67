"""Writes a checkpoint's tokenizer as a vocabulary-only GGUF file, which libllama reads on the device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf

from edgettsd.errors import ModelInvalidError

from ...checkpoint import read_json

CLASSES = ("Qwen2Tokenizer", "Qwen2TokenizerFast")


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


def _merges(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ModelInvalidError(f"{path} is missing") from None
    except UnicodeDecodeError as error:
        raise ModelInvalidError(f"{path} is not UTF-8: {error}") from None
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    merges = [line for line in lines if line]
    for merge in merges:
        if merge.count(" ") != 1:
            raise ModelInvalidError(f"{path}: merge {merge!r}, two tokens with a blank between are needed")
    return merges


def _special_id(path: Path, config: dict[str, Any], key: str, ids: dict[str, int]) -> int | None:
    value = config.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    if text is None:
        return None
    if text not in ids:
        raise ModelInvalidError(f"{path}: {key} is {text!r}, which is no token")
    return ids[text]


def write_tokenizer(path: Path, folder: Path, size: int, wanted: dict[str, int]) -> None:
    """Write the tokenizer of the checkpoint in `folder`, filled up to `size` tokens.

    `wanted` are control token ids that must exist. Raises ModelInvalidError.
    """
    config_path, vocab_path = folder / "tokenizer_config.json", folder / "vocab.json"
    config, vocab = read_json(config_path), read_json(vocab_path)
    if config.get("tokenizer_class") not in CLASSES:
        found = config.get("tokenizer_class")
        allowed = ", ".join(CLASSES)
        raise ModelInvalidError(f"{config_path}: tokenizer_class is {found!r}, allowed are {allowed}")
    if len(vocab) > size or sorted(vocab.values(), key=str) != sorted(range(len(vocab)), key=str):
        raise ModelInvalidError(f"{vocab_path}: ids are not 0 to {len(vocab) - 1}, at most {size}")
    tokens = [f"[PAD{index}]" for index in range(size)]
    kinds = [int(gguf.TokenType.UNUSED)] * size
    for token, index in vocab.items():
        tokens[index], kinds[index] = token, int(gguf.TokenType.NORMAL)
    for index, (token, control) in _added(config_path, config.get("added_tokens_decoder"), size).items():
        tokens[index] = token
        kinds[index] = int(gguf.TokenType.CONTROL if control else gguf.TokenType.USER_DEFINED)
    added = (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED)
    for name, index in wanted.items():
        if not 0 <= index < size or kinds[index] not in added:
            raise ModelInvalidError(f"{config_path}: {name} is {index}, which is no added token")
    merges = _merges(folder / "merges.txt")
    for merge in merges:
        if not all(part in vocab for part in merge.split(" ")) or merge.replace(" ", "") not in vocab:
            raise ModelInvalidError(f"{folder / 'merges.txt'}: merge {merge!r} has tokens not in vocab.json")
    # Tokens of one byte are there from the start; each other one is made by a merge, or the file was cut off.
    made = {merge.replace(" ", "") for merge in merges}
    for token, index in vocab.items():
        if len(token) > 1 and token not in made and kinds[index] not in added:
            raise ModelInvalidError(f"{folder / 'merges.txt'}: no merge makes {token!r} of vocab.json")
    ids = {token: index for index, token in enumerate(tokens)}
    writer = gguf.GGUFWriter(None, "qwen2")
    # A vocabulary-only file is still asked for the sizes of a model; nothing uses them.
    writer.add_context_length(32768)
    writer.add_embedding_length(1)
    writer.add_block_count(1)
    writer.add_feed_forward_length(1)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_add_bos_token(False)
    end, pad = (_special_id(config_path, config, key, ids) for key in ("eos_token", "pad_token"))
    if end is not None:
        writer.add_eos_token_id(end)
    if pad is not None:
        writer.add_pad_token_id(pad)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.flush()
    writer.close()
    with open(path, "rb") as file:
        os.fsync(file.fileno())
