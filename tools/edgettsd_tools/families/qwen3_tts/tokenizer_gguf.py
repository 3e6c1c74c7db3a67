"""Writes a checkpoint's tokenizer as a vocabulary-only GGUF file, which libllama reads on the device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf

from edgettsd.errors import ModelInvalidError

from .tokenizer_files import CONFIG, read_tokenizer


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
    files = read_tokenizer(folder, size)
    config_path, vocab = folder / CONFIG, files.vocab
    tokens = [f"[PAD{index}]" for index in range(size)]
    kinds = [int(gguf.TokenType.UNUSED)] * size
    for token, index in vocab.items():
        tokens[index], kinds[index] = token, int(gguf.TokenType.NORMAL)
    for index, (token, control) in files.added.items():
        tokens[index] = token
        kinds[index] = int(gguf.TokenType.CONTROL if control else gguf.TokenType.USER_DEFINED)
    added = (gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED)
    for name, index in wanted.items():
        if not 0 <= index < size or kinds[index] not in added:
            raise ModelInvalidError(f"{config_path}: {name} is {index}, which is no added token")
    # Tokens of one byte are there from the start; each other one is made by a merge, or the file was cut off.
    made = {merge.replace(" ", "") for merge in files.merges}
    for token, index in vocab.items():
        if len(token) > 1 and token not in made and kinds[index] not in added:
            raise ModelInvalidError(
                f"{files.merges_path}: no merge makes {token!r} of {files.vocab_path.name}"
            )
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
    writer.add_token_merges(files.merges)
    writer.add_add_bos_token(False)
    end, pad = (_special_id(config_path, files.config, key, ids) for key in ("eos_token", "pad_token"))
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
