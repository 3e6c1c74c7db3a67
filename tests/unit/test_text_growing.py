"""Sentences of a text that is still being written are those of the whole text, however it is cut."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgettsd.text import SentenceStream, normalise, split_sentences

# What makes the end of a sentence, of a paragraph or of a character uncertain.
PARTS = [
    *("98", ".6", "98.6", " is ", "Dr", "Dr.", " Smith", "e.g.", "U.S.", " No", ". ", ".", "...", "…", "?"),
    *(
        "!",
        "?!",
        "i",
        "I",
        "I.",
        "A",
        "B.",
        "am 5.",
        " Mai",
        " p.m.",
        " The",
        " and",
        "the",
        "Hello",
        "word ",
    ),
    *("zug", " ", "  ", "\n", "\n\n", "\r", "\r\n", "\t", "- ", "• ", "1. ", '"', "'", "”", ")", "(", "»"),
    *("*", "_", "https://a.b/?q.", "今天天气很好", "。", "！", "」", "と", "、", "한", "ᄒ", "ᅡ", "ᆫ", "e"),
    *("\u0301", "\u0323", "\u0300" * 40, "\u200d", "\ud83d", "\ude00", "😀", "\u00ad", "\ufeff", "\u3164"),
    *("\ue000", "\u0958", "\u09be", "क", "ß", "İ", "2026", "forty characters are in this short line."),
    *("x" * 30, "- " * 26, "a clause, " * 12, "semi; " * 20, "_" * 40),
    "A line that is long enough to be taken for the wrapping of a paragraph, which goes on",
]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=24).map("".join) | st.text(max_size=40)


def stream(text: str, cuts: list[int], max_chars: int = 300) -> list[list[str]]:
    """What a stream tells after each piece of the text, and at its end."""
    growing = SentenceStream(max_chars)
    edges = [0, *sorted(cuts), len(text)]
    told = [growing.feed(text[a:b]) for a, b in pairwise(edges)]
    return [*told, growing.feed("", closed=True)]


@given(TEXTS, st.data())
@example("It is 98.6 degrees. Yes.", None)
def test_any_way_of_cutting_gives_the_plan_of_the_whole_text(text: str, data: st.DataObject | None) -> None:
    whole = split_sentences(normalise(text))
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12)) if data else list(range(len(text)))
    told = stream(text, cuts)
    assert [sentence for part in told for sentence in part] == whole


@given(TEXTS)
def test_character_by_character_is_the_whole_text_too(text: str) -> None:
    told = stream(text, list(range(len(text))))
    assert [sentence for part in told for sentence in part] == split_sentences(normalise(text))


@given(TEXTS, st.integers(1, 40), st.data())
def test_with_short_pieces_as_well(text: str, limit: int, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6))
    told = stream(text, cuts, limit)
    assert [sentence for part in told for sentence in part] == split_sentences(normalise(text), limit)


@given(TEXTS, TEXTS)
def test_what_was_told_holds_whatever_comes(begin: str, rest: str) -> None:
    told = SentenceStream().feed(begin)
    whole = split_sentences(normalise(begin + rest))
    assert whole[: len(told)] == told


@pytest.mark.parametrize(
    ("begin", "told"),
    [
        ("It is 98", []),
        ("It is 98.", []),
        ("It is 98.6 degrees.", []),
        ("It is 98.6 degrees. ", []),
        ("It is warm. Ye", []),
        ("It is warm. Yes it", ["It is warm."]),
        ("Ask Dr. Smith now", []),
        ("Really?! Yes it", ["Really?!"]),
        ("今天很好。我们", ["今天很好。"]),
        ("A title\n\nThe t", ["A title"]),
        ("A title\n", []),
        ("One. Two. Three. Fo", ["One.", "Two."]),
    ],
)
def test_a_sentence_is_told_with_the_word_behind_it(begin: str, told: list[str]) -> None:
    assert SentenceStream().feed(begin) == told


def test_a_long_text_takes_time_in_proportion() -> None:
    """Paragraph by paragraph: what has been told is not looked at again."""
    paragraph = "This is a sentence of the text. Another one follows it, and a third. " * 4 + "\n\n"

    def seconds(paragraphs: int) -> float:
        growing, t0, count = SentenceStream(), time.process_time(), 0
        for _ in range(paragraphs):
            for at in range(0, len(paragraph), 7):
                count += len(growing.feed(paragraph[at : at + 7]))
        count += len(growing.feed("", closed=True))
        assert count == 8 * paragraphs
        return time.process_time() - t0

    few, many = min(seconds(10) for _ in range(3)), min(seconds(80) for _ in range(3))
    assert many < 8 * 4 * few


def test_nothing_to_say_and_bad_limits() -> None:
    growing = SentenceStream()
    assert growing.feed("... !?\n") == growing.feed("", closed=True) == []
    with pytest.raises(ValueError, match="max_chars is 0"):
        SentenceStream(0)
