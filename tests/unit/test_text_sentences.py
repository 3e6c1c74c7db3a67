"""Sentence splitting."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgettsd.text import normalise, speakable, split_sentences

# One sentence each: nothing in it may be taken for an end.
WHOLE = [
    "The fever is 98.6 degrees.",
    "Dr. Kim is in.",
    "Mr. and Mrs. Smith met Prof. Jones.",
    "Dr. Who is on.",
    "Fruit, e.g. apples, is fine.",
    "See e.g. Apple or i.e. Microsoft.",
    "We meet at 5 p.m. today.",
    "We meet at 5 p.m. Monday at the gate.",
    "It starts at 9 a.m. GMT sharp.",
    "J. R. R. Tolkien wrote it.",
    "J.R.R. Tolkien wrote it.",
    "George W. Bush spoke.",
    "She joined the U.S. Army in May.",
    "He has a Ph.D. Thesis on bees.",
    "Wait... what is that?",
    "Wait… what is that?",
    "Look at https://example.org/a.b?c=d!e for more.",
    "Pi is 3.14 and e is 2.718.",
    "It is No. 5 of ten.",
    "See Fig. 3 and Vol. IV for it.",
    "On Jan. 12 it rained.",
    "Es kostet 3,14 Euro.",
    "Version v1.2.3 is out.",
    "“What?” he said.",
    '"Stop!" she cried.',
    "Yahoo! is a company.",
    "Am 5. Mai war es kalt.",
    "Das ist z. B. Hans.",
    "Das ist d.h. Otto.",
    "M. Dupont est là.",
    "El Sr. García no está.",
    "「おはよう。」と言った。",
    "Apple Inc. Chairman Levinson spoke.",
    "Node.js is fine.",
    "Mail a.b@example.org now.",
    "The U.N. Charter is old.",
    "1. Open the lid.",
    "Acme Ltd. Partners met vs. Borg.",
]

SPLIT = [
    ("It is 5 p.m. The kettle is ready.", ["It is 5 p.m.", "The kettle is ready."]),
    ("It is 5 p.m. Kim left.", ["It is 5 p.m.", "Kim left."]),
    ("Good morning. The kettle is ready.", ["Good morning.", "The kettle is ready."]),
    ("I live in the U.S. It is big.", ["I live in the U.S.", "It is big."]),
    ("Plan B. We go.", ["Plan B.", "We go."]),
    ("He is taller than I. Tom knows.", ["He is taller than I.", "Tom knows."]),
    ("Is it No. 5? No. Five it is.", ["Is it No. 5?", "No.", "Five it is."]),
    ("He works for Acme Inc. She does not.", ["He works for Acme Inc.", "She does not."]),
    ("It weighs 5. Then it fell.", ["It weighs 5.", "Then it fell."]),
    ("He left. 5 people came.", ["He left.", "5 people came."]),
    ("What?! Yes!!! No.", ["What?!", "Yes!!!", "No."]),
    ("“Hi.” She left.", ["“Hi.”", "She left."]),
    ('He said "Go." Then he went.', ['He said "Go."', "Then he went."]),
    ("It is (really.) Ok then.", ["It is (really.)", "Ok then."]),
    ("¿Qué? ¡Sí! Bueno.", ["¿Qué?", "¡Sí!", "Bueno."]),
    ("Yes... No.", ["Yes...", "No."]),
    ("你好。我是小明！你呢？好。", ["你好。", "我是小明！", "你呢？", "好。"]),
    ("你好!我是谁?不知道", ["你好!", "我是谁?", "不知道"]),
    ("こんにちは。元気ですか？はい。", ["こんにちは。", "元気ですか？", "はい。"]),
    ("他说：“走。”我走了。", ["他说：“走。”", "我走了。"]),
    ("안녕하세요. 반갑습니다.", ["안녕하세요.", "반갑습니다."]),
    ("Это г. Москва. Она большая.", ["Это г. Москва.", "Она большая."]),
    ("क्या हाल है। ठीक है।", ["क्या हाल है।", "ठीक है।"]),
    ("1. Open it. 2. Close it.", ["1. Open it.", "2. Close it."]),
    ("See https://a.b/c. Then go.", ["See https://a.b/c.", "Then go."]),
    ("A title\n\nThe text. More.", ["A title", "The text.", "More."]),
    ("milk\neggs\nbread", ["milk", "eggs", "bread"]),
    ("- one\n- two", ["- one", "- two"]),
    (
        "This line was wrapped by an editor of sixty columns or so, as\nmail often is. Next.",
        ["This line was wrapped by an editor of sixty columns or so, as mail often is.", "Next."],
    ),
    ("Hello. 😀 World", ["Hello.", "😀 World"]),
    ("Hello! ... ", ["Hello!"]),
    ("no end", ["no end"]),
    ("hello there. how are you?", ["hello there. how are you?"]),
    ("", []),
    ("... ?! 😀\n\n—", []),
]


@pytest.mark.parametrize("sentence", WHOLE)
def test_one_sentence_stays_whole(sentence: str) -> None:
    assert split_sentences(sentence) == [sentence]


@pytest.mark.parametrize("sentence", [s for s in WHOLE if s[0] != "「"])
def test_a_sentence_ends_before_the_next(sentence: str) -> None:
    assert split_sentences(sentence + " The next one follows.") == [sentence, "The next one follows."]


@pytest.mark.parametrize(("text", "expected"), SPLIT)
def test_split(text: str, expected: list[str]) -> None:
    assert split_sentences(normalise(text)) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("one two; three four, five", 16, ["one two;", "three four, five"]),
        ("one two, three four five", 16, ["one two,", "three four five"]),
        ("it costs 3,14 euro", 12, ["it costs", "3,14 euro"]),
        ("一二三四，五六七八九十", 8, ["一二三四，", "五六七八九十"]),
        ("abcdefgh", 4, ["abcd", "efgh"]),
        ("abce\u0301efg", 4, ["abc", "e\u0301ef", "g"]),
        ("ab", 1, ["a", "b"]),
    ],
)
def test_long_sentences_are_cut_where_it_hurts_least(text: str, limit: int, expected: list[str]) -> None:
    assert split_sentences(text, limit) == expected


def test_the_pieces_of_a_long_sentence_have_about_equal_length() -> None:
    pieces = split_sentences("word " * 130, 300)
    assert [len(piece) for piece in pieces] == [pytest.approx(216, abs=6)] * 3


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"max_chars is {limit}; allowed: 1 or more"):
        split_sentences("a", limit)


def _spoken(text: str) -> list[str]:
    return [c for c in text if speakable(c)]


PROSE = st.lists(
    st.sampled_from(
        [
            "Dr",
            "Mr",
            "e.g",
            "p.m",
            "No",
            "5",
            "I",
            "J",
            "The",
            "word",
            "中文",
            ".",
            ". ",
            "! ",
            "?",
            "。",
            "」",
        ]
        + [
            "\n",
            "\n\n",
            " ",
            ", ",
            "; ",
            "...",
            "…",
            '"',
            "(",
            ")",
            "http://a",
            "é",
            "e\u0301",
            "😀\u200d",
            "각",
        ]
    ),
    max_size=60,
).map("".join)


@given(PROSE | st.text(), st.integers(1, 40) | st.just(300))
def test_every_letter_is_in_exactly_one_sentence(text: str, limit: int) -> None:
    sentences = split_sentences(text, limit)
    assert _spoken("".join(sentences)) == _spoken(text)
    for sentence in sentences:
        assert 1 <= len(sentence) <= limit
        assert speakable(sentence)
        assert "\n" not in sentence


@given(PROSE, PROSE)
def test_paragraphs_do_not_influence_each_other(first: str, second: str) -> None:
    assert split_sentences(f"{first}\n\n{second}") == split_sentences(first) + split_sentences(second)


LONG = {
    "a hundred thousand words": "word " * 200_000,
    "prose": "Dr. Kim, who is 98.6 percent sure, said so at 5 p.m. yesterday; nobody believed it. " * 12_000,
    "one word": "x" * 1_000_000,
    "stops": "." * 1_000_000,
    "brackets": "(" * 1_000_000 + "a. B",
    "quotes behind stops": '."' * 500_000,
    "spaced stops": ". " * 500_000 + "a",
    "initials": "A. " * 333_333,
    "abbreviations": "U.S. A" * 166_666,
    "commas": ",a" * 500_000,
    "marks": "a" + "\u0903" * 1_000_000,
    "Chinese": "你好吗，" * 250_000,
    "lines": "abc\n" * 250_000,
}


@pytest.mark.parametrize("name", LONG)
def test_a_megabyte_takes_less_than_a_second(name: str) -> None:
    start = time.process_time()
    sentences = split_sentences(LONG[name])
    assert time.process_time() - start < 1.0
    assert max(map(len, sentences), default=0) <= 300


def test_time_grows_with_length_only() -> None:
    def seconds(count: int) -> float:
        text = "A. !中 U.S. It ... \n(“x" * count
        start = time.process_time()
        split_sentences(text)
        return time.process_time() - start

    # Quadratic work would make the factor 8 here.
    assert min(seconds(16_000) for _ in range(3)) < 16 * min(seconds(2_000) for _ in range(3))
