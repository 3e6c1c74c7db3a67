"""Word error rates, spectra and the sentences of the built-in voice's training."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.voice import corpus, listen

LISTS = Path(__file__).resolve().parents[2] / "tools" / "data"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is 8:05.", "it is eight five"),
        ("1,250 people, 40%", "one thousand two hundred fifty people forty percent"),
        ("well-known; DON'T", "well known don't"),
    ],
)
def test_words(text: str, said: str) -> None:
    assert listen.words(text) == said.split()


@pytest.mark.parametrize(
    ("reference", "heard", "rate"),
    [
        ("the code is nine one two", "The code is 912.", 0),
        ("nine hundred twelve people", "912 people", 0),
        ("nine one two people", "92 people", 0.25),
        ("room twelve", "Room 13", 0.5),
    ],
)
def test_a_number_in_figures_counts_in_either_reading(
    monkeypatch: pytest.MonkeyPatch, reference: str, heard: str, rate: float
) -> None:
    monkeypatch.setattr(listen, "hear", lambda audio: heard)
    assert listen.word_error_rate([(reference, np.zeros(1, np.float32))]) == rate


@pytest.mark.parametrize(
    ("reference", "heard", "errors"),
    [("a b c", "a b c", 0), ("a b c", "a c", 1), ("a b c", "a x c", 1), ("a", "b a c", 2), ("a b", "", 2)],
)
def test_distance(reference: str, heard: str, errors: int) -> None:
    assert listen.distance(reference.split(), heard.split()) == errors


def test_a_sentence_counts_at_most_as_all_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "hear", lambda audio: "x " * int(audio[0]))
    sounds = [("one two", np.array([50.0], np.float32)), ("x x", np.array([2.0], np.float32))]
    assert listen.word_error_rate(sounds) == 0.5


def test_a_spectrum_shows_a_tone_where_it_is(tmp_path: Path) -> None:
    t = np.arange(24_000) / 24_000
    picture = listen.spectrogram((0.5 * np.sin(2 * np.pi * 6000 * t)).astype(np.float32))
    assert picture.shape[0] == 256
    assert abs(int(picture[:, 100].argmax()) - 128) <= 2
    listen.write_png(tmp_path / "x.png", picture)
    data = (tmp_path / "x.png").read_bytes()
    start = data.index(b"IDAT") + 4
    rows = zlib.decompressobj().decompress(data[start:])
    assert len(rows) == 256 * (picture.shape[1] + 1)


def test_device_sentences_are_speakable_and_the_same_every_time() -> None:
    made = list(corpus.device_sentences(random.Random(1), 400))
    assert made == list(corpus.device_sentences(random.Random(1), 400))
    for text in made:
        assert not any(c.isdigit() for c in text)
        assert text[0].isupper() and text[-1] in ".?!"
        assert corpus.WORD.search(text.lower())


@pytest.mark.parametrize(("n", "said"), [(0, "zero"), (70, "seventy"), (342, "three hundred forty two")])
def test_number(n: int, said: str) -> None:
    assert corpus.number(n) == said


def test_the_committed_sentences_are_held_out_from_training() -> None:
    texts = (LISTS / "voice-heldout.txt").read_text(encoding="utf-8").splitlines()
    assert len(set(texts)) >= 100
    assert all(corpus.held_out(text) for text in texts)


def test_the_harvard_style_sentences_are_80() -> None:
    texts = (LISTS / "voice-harvard-style.txt").read_text(encoding="utf-8").splitlines()
    assert len(set(texts)) == 80
