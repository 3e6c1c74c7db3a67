"""Unicode clean-up."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgettsd.text import normalise, speakable

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("", ""),
        (" \t\r\n ", ""),
        ("plain", "plain"),
        ("two  spaces", "two spaces"),
        ("tab\tand\u00a0nbsp\u3000wide", "tab and nbsp wide"),
        ("one\nline", "one\nline"),
        ("one \n line", "one\nline"),
        ("dos\r\nline", "dos\nline"),
        ("old mac\rline", "old mac\nline"),
        ("next\u0085line", "next\nline"),
        ("ls\u2028line", "ls\nline"),
        ("para\n\n\n\ngraph", "para\n\ngraph"),
        ("para\n \t\ngraph", "para\n\ngraph"),
        ("dos\r\n\r\npara", "dos\n\npara"),
        ("e\u0301", "\u00e9"),
        ("e\u200b\u0301", "\u00e9"),
        ("A\u030a", "\u00c5"),
        ("\u1112\u1161\u11ab", "\ud55c"),
        ("zero\u200bwidth\u200d\ufeff", "zerowidth"),
        ("so\u00adft", "soft"),
        ("\u202eright\u202c \u2067left\u2069", "right left"),
        ("bell\x07bell\x00nul\x7f", "bell bell nul"),
        ("emoji \u2764\ufe0f", "emoji \u2764"),
        ("lone\ud800", "lone"),
        ("lone\udcffmiddle", "lone middle"),
        ("\ud83d\ude00", "\U0001f600"),
        ("private\ue000use", "private use"),
        ("non\uffffchar", "non char"),
        ("filler\u3164\u115f", "filler"),
        ("full width ＡＢＣ stays", "full width ＡＢＣ stays"),
        ("a" + "\u0316" * 100, "a" + "\u0316" * 30),
    ],
)
def test_normalise(given_text: str, expected: str) -> None:
    assert normalise(given_text) == expected


@given(ANY_TEXT)
def test_the_result_is_clean_and_stable(text: str) -> None:
    result = normalise(text)
    result.encode()
    assert unicodedata.is_normalized("NFC", result)
    assert normalise(result) == result
    assert result == result.strip()
    assert "  " not in result and "\n\n\n" not in result and " \n" not in result and "\n " not in result
    assert {unicodedata.category(c) for c in result if c not in " \n"}.isdisjoint(
        {"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"}
    )


@given(st.text(st.characters(categories=["L", "Nd", "P"])))
def test_letters_are_kept(text: str) -> None:
    nfc = unicodedata.normalize("NFC", text)
    assert [c for c in normalise(text) if speakable(c)] == [c for c in nfc if speakable(c)]


@pytest.mark.parametrize("text", ["a", "7", "½", "中", "カ", "한", "…no", "é", "x" * 10, "Ⅳ", "?a?"])
def test_speakable(text: str) -> None:
    assert speakable(text)


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "...", "?!", "—", "* * *", "🙂", "€$", "_", "\u3164", "\u200b", "\u0301", "。"]
)
def test_not_speakable(text: str) -> None:
    assert not speakable(text)


@pytest.mark.parametrize(
    "text",
    [
        "a" + "\u0301\u0316" * 500_000,
        "\u1161" * 1_000_000,
        " \n" * 500_000,
        "\ud800" * 1_000_000,
        "e\u0301" * 500_000,
        "word " * 200_000,
    ],
    ids=["marks", "jamo", "newlines", "surrogates", "accents", "words"],
)
def test_a_megabyte_takes_less_than_a_second(text: str) -> None:
    start = time.process_time()
    normalise(text)
    assert time.process_time() - start < 1.0
