"""The Qwen2 byte-pair vocabulary and the special tokens that Qwen3-TTS adds to it.

Only the merges are stored (tools/data/qwen2-merges.txt.xz): the vocabulary follows from them, 256 byte
tokens in GPT-2's order and then one token per merge.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[3] / "data" / "qwen2-merges.txt.xz"

# Added tokens in id order from 151643; the ones in PLAIN are ordinary text to a decoder, not control tokens.
ADDED_FIRST = 151643
ADDED = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> "
    "<|file_sep|> <tool_response> </tool_response> <think> </think> <|audio_start|> <|audio_end|> <tts_pad> "
    "<tts_text_bos> <tts_text_eod> <tts_text_bos_single> <|audio_pad|>"
).split()
PLAIN = frozenset(
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> "
    "<|file_sep|> <tool_response> </tool_response> <think> </think>".split()
)


def byte_tokens() -> list[str]:
    """The 256 printable stand-ins for bytes in vocabulary order: printable bytes first, then the others."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = 256 - len(printable)
    return [chr(byte) for byte in printable] + [chr(256 + index) for index in range(others)]


@cache
def merges() -> tuple[str, ...]:
    """The merges, most frequent first, each as two tokens with a blank between."""
    return tuple(lzma.decompress(DATA.read_bytes()).decode().splitlines())


def vocabulary() -> dict[str, int]:
    """Token -> id of the ordinary tokens (0 to 151642)."""
    tokens = byte_tokens() + [merge.replace(" ", "") for merge in merges()]
    return {token: index for index, token in enumerate(tokens)}


def tokenizer_config() -> dict[str, Any]:
    """tokenizer_config.json of the official checkpoints: Qwen2's settings and every added token."""
    added = {
        str(ADDED_FIRST + index): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": token not in PLAIN,
        }
        for index, token in enumerate(ADDED)
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": [
            token for token in ADDED if token not in PLAIN and token != "<|endoftext|>"
        ],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "processor_class": "Qwen3TTSProcessor",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def write_tokenizer(folder: Path) -> None:
    """Write vocab.json, merges.txt and tokenizer_config.json."""
    (folder / "vocab.json").write_text(
        json.dumps(vocabulary(), ensure_ascii=False, separators=(",", ":")), encoding="utf-8"
    )
    (folder / "merges.txt").write_text(
        "#version: 0.2\n" + "".join(merge + "\n" for merge in merges()), encoding="utf-8"
    )
    (folder / "tokenizer_config.json").write_text(
        json.dumps(tokenizer_config(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )
