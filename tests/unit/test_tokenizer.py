"""The id frame around a text, and what the tokenizer refuses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from test_prompt import TOKENS, Letters

from edgettsd.errors import InvalidTextError, ModelInvalidError
from edgettsd.families.qwen3_tts import TextTokenizer


def test_speech_frames_the_text() -> None:
    assert TextTokenizer(Letters(), TOKENS).speech("hi") == [300, 1, 10, 104, 105, 301, 10, 300, 1, 10]


def test_instruction_is_a_user_turn() -> None:
    assert TextTokenizer(Letters(), TOKENS).instruction("hi") == [300, 2, 10, 104, 105, 301, 10]


def test_text_is_composed() -> None:
    tokenizer = TextTokenizer(Letters(), TOKENS)
    assert tokenizer.plain("e\u0301") == tokenizer.plain("\u00e9") == [0xE9]


def test_position_of_an_invalid_character_counts_from_the_text() -> None:
    with pytest.raises(InvalidTextError, match=r"U\+DC01 at 2"):
        TextTokenizer(Letters(), TOKENS).plain("ab\udc01")
    with pytest.raises(InvalidTextError, match=r"U\+DC01 at 2"):
        TextTokenizer(Letters(), TOKENS).speech("ab\udc01")


def test_a_vocabulary_without_the_role_is_refused() -> None:
    class Bytes:
        def encode(self, pieces: Iterable[str]) -> list[int]:
            return list("".join(pieces).encode())

    with pytest.raises(ModelInvalidError, match="10 ids"):
        TextTokenizer(Bytes(), TOKENS)


def test_a_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "tokenizer.gguf"
    with pytest.raises(ModelInvalidError, match=str(missing)):
        TextTokenizer.load(missing, TOKENS)
    missing.write_bytes(b"GGUF" + bytes(60))
    with pytest.raises(ModelInvalidError, match=str(missing)):
        TextTokenizer.load(missing, TOKENS)
