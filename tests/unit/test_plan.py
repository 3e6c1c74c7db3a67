"""Sentences with their expected and greatest length."""

from __future__ import annotations

import pytest

from edgettsd.engine.plan import EXACT_FRAMES, MOST_FRAMES, measure, sentences

FRAME = 0.08


def test_sentences_in_order_and_silence_for_nothing() -> None:
    texts = [s.text for s in sentences("One here. Two here!  Three?", FRAME)]
    assert texts == ["One here.", "Two here!", "Three?"]
    for nothing in ("", "   \n", "... !? --", "\u200b\u00ad"):
        assert list(sentences(nothing, FRAME)) == []


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("Good morning. The kettle is ready.", 2.2),
        ("The quick brown fox jumps over the lazy dog.", 2.7),
        ("今天天气很好", 1.6),
        ("Call 0800 123 456 now.", 4.2),
    ],
)
def test_the_estimate_is_near_ordinary_speech(text: str, seconds: float) -> None:
    assert measure(text, FRAME).expected_frames * FRAME == pytest.approx(seconds, rel=0.35)


@pytest.mark.parametrize(
    "text", ["Yes.", "a b c d e f g", "word " * 100, "今天天气很好", "ein Wort", "1 2 3"]
)
def test_twelve_frames_a_word_stay_below_the_bound(text: str) -> None:
    words = max(len(text.split()), sum(ch > "\u3000" for ch in text))
    sentence = measure(text, FRAME)
    assert sentence.max_frames > 12 * words + 25
    assert sentence.max_frames < 40 * words + 60 + 6 * len(text)
    assert sentence.max_frames > 2 * sentence.expected_frames


def test_the_bound_is_time_not_frames() -> None:
    fast, slow = measure("Hello there.", 0.04), measure("Hello there.", 0.08)
    assert fast.max_frames == pytest.approx(2 * slow.max_frames, abs=1)


@pytest.mark.parametrize(
    "text",
    [
        "我们明天上午在图书馆门口见面然后一起去吃饭" * 14,
        "ninety nine bottles stand on the wall and nobody knows why " * 5,
        "4815162342 " * 27,
    ],
)
def test_no_piece_needs_more_than_the_models_memory_holds(text: str) -> None:
    pieces = list(sentences(text, FRAME))
    assert len(pieces) >= 1
    assert max(piece.expected_frames for piece in pieces) <= MOST_FRAMES
    # Nothing is lost where a piece is cut once more.
    kept = "".join("".join(piece.text.split()) for piece in pieces)
    assert kept == "".join(text.split())


def test_a_known_length_is_the_expected_one() -> None:
    pieces = list(sentences("Hello there. How are you?", FRAME, len))
    assert [(piece.text, piece.expected_frames) for piece in pieces] == [
        ("Hello there.", 12),
        ("How are you?", 12),
    ]
    unknown = list(sentences("Hello there.", FRAME, lambda text: 0))
    assert unknown == list(sentences("Hello there.", FRAME))


def test_known_lengths_cut_where_estimates_would_not() -> None:
    text = "a few words of a sentence that is not long at all but is spoken very slowly"
    assert len(list(sentences(text, FRAME))) == 1
    pieces = list(sentences(text, FRAME, lambda part: 5 * len(part)))
    assert len(pieces) > 1
    assert max(piece.expected_frames for piece in pieces) <= MOST_FRAMES
    assert " ".join(piece.text for piece in pieces) == text


def test_only_the_beginning_of_a_long_text_is_measured_exactly() -> None:
    """The rest is estimated, at the rate of speech, so that the first sound does not wait for it."""
    asked: list[str] = []

    def length(part: str) -> int:
        asked.append(part)
        return EXACT_FRAMES // 5

    pieces = list(sentences("Hello there. " * 40, FRAME, length, rate=0.5))
    assert len(pieces) == 40 and len(asked) == 5
    estimate = measure("Hello there.", FRAME).expected_frames
    assert {piece.expected_frames for piece in pieces[5:]} == {2 * estimate}


def test_letters_late_in_a_text_are_cut_by_their_exact_length() -> None:
    """An estimate of them may be a sixth of the truth, and too long a piece would end the utterance."""

    def length(part: str) -> int:
        return sum(5 if len(word) == 1 else 6 for word in part.split())

    text = "Word after word goes by. " * 60 + " ".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 4) + "."
    assert all(length(piece.text) <= MOST_FRAMES for piece in sentences(text, 0.08, length))


def test_a_sentence_that_is_cut_counts_once_towards_what_is_known() -> None:
    asked: list[str] = []

    def length(part: str) -> int:
        asked.append(part)
        return 10 * len(part.split())

    found = list(sentences(" ".join(["word"] * 26) + ".", 0.08, length))
    assert len(found) > 1
    assert all(piece.expected_frames == 10 * len(piece.text.split()) for piece in found)
