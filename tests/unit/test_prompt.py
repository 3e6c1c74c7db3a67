"""Prompt rows against sums written out by hand; the official model's rows are compared in test_parity."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from edgettsd.errors import InvalidOptionError, InvalidTextError, ModelInvalidError, UnknownVoiceError
from edgettsd.families.qwen3_tts import PromptBuilder, TextTokenizer

H = 8
TOKENS = {"im_start": 300, "im_end": 301, "tts_pad": 302, "tts_bos": 303, "tts_eos": 304}
CODEC = {"pad": 40, "bos": 41, "eos": 42, "think": 43, "nothink": 44, "think_bos": 45, "think_eos": 46}
MANIFEST: dict[str, Any] = {
    "name": "model-x",
    "tokens": TOKENS,
    "codec_tokens": CODEC,
    "languages": {"chinese": 50, "english": 51, "sichuan_dialect": 52},
    "voices": {
        "ryan": {"codec_id": 60, "dialect": None, "languages": []},
        "eric": {"codec_id": 61, "dialect": "sichuan_dialect", "languages": []},
        "mine": {"row": "speaker.mine", "dialect": None, "languages": []},
    },
    "supports_instruct": True,
    "layout": "streaming",
}
RNG = np.random.default_rng(3)
TEXT = RNG.normal(size=(310, H)).astype(np.float32)
ROWS = RNG.normal(size=(64, H)).astype(np.float32)
SPEAKER = RNG.normal(size=H).astype(np.float32)


class Letters:
    """One id per character, but "assistant" and "user" are words."""

    def encode(self, pieces: Iterable[str]) -> list[int]:
        words = "".join(pieces).replace("assistant", "\x01").replace("user", "\x02")
        return [ord(c) % 256 for c in words]


def builder(**changes: Any) -> PromptBuilder:
    manifest = MANIFEST | changes
    tensors = {"text": TEXT, "codec.0": ROWS, "speaker.mine": SPEAKER}
    return PromptBuilder(manifest, tensors, TextTokenizer(Letters(), manifest["tokens"]))


def text(*ids: int) -> np.ndarray:
    return TEXT[list(ids)]


def codec(*names: str | int) -> np.ndarray:
    return ROWS[[CODEC[n] if isinstance(n, str) else n for n in names]]


ROLE = text(300, 1, 10)
PAD, BOS, EOS = text(302), text(303), text(304)


def test_streaming_puts_the_first_token_in_the_prompt_and_the_rest_behind() -> None:
    prompt = builder().build("abc", voice="ryan", language="english")
    intro = codec("think", "think_bos", 51, "think_eos", 60, "pad") + np.concatenate([PAD] * 5 + [BOS])
    expected = np.concatenate([ROLE, intro, text(ord("a")) + codec("bos")])
    np.testing.assert_array_equal(prompt.prompt, expected)
    np.testing.assert_array_equal(prompt.trailing, np.concatenate([text(ord("b"), ord("c")), EOS]))
    np.testing.assert_array_equal(prompt.pad_row, PAD[0])
    assert prompt.prompt.dtype == prompt.trailing.dtype == prompt.pad_row.dtype == np.float32
    assert prompt.ids == (300, 1, 10, 97, 98, 99, 301, 10, 300, 1, 10)


def test_full_puts_the_whole_text_in_the_prompt() -> None:
    prompt = builder().build("abc", voice="ryan", language="english", layout="full")
    body = np.concatenate([text(97, 98, 99), EOS]) + codec("pad")
    np.testing.assert_array_equal(prompt.prompt[-5:], np.concatenate([body, PAD + codec("bos")]))
    assert len(prompt.prompt) == 3 + 6 + 5
    np.testing.assert_array_equal(prompt.trailing, PAD)


@pytest.mark.parametrize("layout", ["streaming", "full"])
def test_no_voice_and_no_language(layout: str) -> None:
    prompt = builder().build("a", layout=layout)
    intro = codec("nothink", "think_bos", "think_eos", "pad") + np.concatenate([PAD] * 3 + [BOS])
    np.testing.assert_array_equal(prompt.prompt[3:7], intro)


def test_an_empty_text_has_its_end_of_turn_where_the_first_token_goes() -> None:
    streaming = builder().build("")
    np.testing.assert_array_equal(streaming.prompt[-1:], text(301) + codec("bos"))
    np.testing.assert_array_equal(streaming.trailing, EOS)
    full = builder().build("", layout="full")
    np.testing.assert_array_equal(full.prompt[-2:], np.concatenate([EOS + codec("pad"), PAD + codec("bos")]))


def test_one_token_leaves_only_the_end_row() -> None:
    prompt = builder().build("a")
    np.testing.assert_array_equal(prompt.prompt[-1:], text(97) + codec("bos"))
    np.testing.assert_array_equal(prompt.trailing, EOS)


@pytest.mark.parametrize(
    "voice, language, tag",
    [
        ("eric", None, 52),
        ("eric", "Auto", 52),
        ("ERIC", "Chinese", 52),
        ("eric", "english", 51),
        ("ryan", "chinese", 50),
        ("ryan", "auto", None),
        ("", "english", 51),
    ],
)
def test_a_dialect_voice_speaks_it_in_auto_and_chinese(
    voice: str, language: str | None, tag: int | None
) -> None:
    prompt = builder().build("a", voice=voice, language=language).prompt
    if tag is None:
        np.testing.assert_array_equal(prompt[3:4], codec("nothink") + PAD)
    else:
        np.testing.assert_array_equal(prompt[3:6], codec("think", "think_bos", tag) + PAD)


def test_a_voice_may_be_a_row_of_its_own() -> None:
    prompt = builder().build("a", voice="Mine").prompt
    np.testing.assert_array_equal(prompt[6], SPEAKER + PAD[0])


def test_an_instruction_goes_first() -> None:
    plain = builder().build("a", voice="ryan")
    led = builder().build("a", voice="ryan", instruct="hi")
    turn = text(300, 2, 10, ord("h"), ord("i"), 301, 10)
    np.testing.assert_array_equal(led.prompt, np.concatenate([turn, plain.prompt]))
    np.testing.assert_array_equal(led.trailing, plain.trailing)
    np.testing.assert_array_equal(builder().build("a", voice="ryan", instruct="").prompt, plain.prompt)


def test_half_precision_tables_give_float32_sums() -> None:
    tensors = {"text": TEXT.astype(np.float16), "codec.0": ROWS.astype(np.float16)}
    half = PromptBuilder(MANIFEST, tensors, TextTokenizer(Letters(), TOKENS)).build("a")
    assert half.prompt.dtype == np.float32
    row = TEXT[97].astype(np.float16).astype(np.float32) + ROWS[41].astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(half.prompt[-1], row)


def test_the_tables_are_left_alone() -> None:
    before = TEXT.copy(), ROWS.copy()
    builder().build("abc", voice="mine", language="english").prompt[:] = 0.0
    np.testing.assert_array_equal(before[0], TEXT)
    np.testing.assert_array_equal(before[1], ROWS)


def test_an_unknown_voice_names_the_known_ones() -> None:
    with pytest.raises(UnknownVoiceError, match=r"'bob'.*model-x.*ryan, eric, mine"):
        builder().build("a", voice="bob")
    with pytest.raises(UnknownVoiceError, match="allowed: none"):
        builder(voices={}).build("a", voice="ryan")


@pytest.mark.parametrize("language", ["klingon", "sichuan_dialect"])
def test_an_unknown_language_names_the_known_ones(language: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"'{language}'.*allowed: auto, chinese, english$"):
        builder().build("a", language=language)


def test_an_unknown_layout_and_an_unwanted_instruction_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"'sideways'.*streaming, full"):
        builder().build("a", layout="sideways")
    with pytest.raises(InvalidOptionError, match=r"model-x.*no instructions"):
        builder(supports_instruct=False).build("a", instruct="hi")


def test_invalid_unicode_is_refused() -> None:
    with pytest.raises(InvalidTextError, match=r"U\+D800 at 1$"):
        builder().build("b\ud800")


def test_a_missing_tensor_is_named() -> None:
    tokenizer = TextTokenizer(Letters(), TOKENS)
    with pytest.raises(ModelInvalidError, match=r"'codec\.0'"):
        PromptBuilder(MANIFEST, {"text": TEXT}, tokenizer)
    with pytest.raises(ModelInvalidError, match=r"'speaker\.mine'"):
        PromptBuilder(MANIFEST, {"text": TEXT, "codec.0": ROWS}, tokenizer).build("a", voice="mine")
