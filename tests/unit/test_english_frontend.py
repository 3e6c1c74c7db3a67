"""Durations, and the front end from text to tokens."""

from __future__ import annotations

import dataclasses
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.voice import durations as tool
from edgettsd_tools.voice.tensors import write_tensors
from english_files import WORDS, small_durations, small_files
from hypothesis import given, settings
from hypothesis import strategies as st

from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.frontends.english.durations import (
    PAUSES,
    TEMPLATES,
    Durations,
    Network,
    features,
    offsets,
    sequence,
)
from edgettsd.frontends.english.frames import PAIRS, SPECIAL_IDS, pair_phones
from edgettsd.frontends.english.frontend import EnglishFrontEnd, FrameTokenizer

SAID = [WORDS[w].split() for w in ("hello", "world", "yes")]


@pytest.fixture(scope="module")
def frontend(tmp_path_factory: pytest.TempPathFactory) -> EnglishFrontEnd:
    return EnglishFrontEnd.load(small_files(tmp_path_factory.mktemp("frontend")))


def phones_of(tokens: list[int]) -> str:
    slots = [phone for token in tokens for phone in pair_phones(token)]
    return " ".join(phone for phone, _ in groupby(slots))


def test_features_are_within_their_tables() -> None:
    got = features(SAID, [",", " ", "?"], ["hello", "world", "yes"])
    assert got.shape == (len(sequence(SAID)), len(TEMPLATES))
    assert (got >= 0).all() and (got < np.array([*TEMPLATES.values()])).all()


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(["B", "AE1", "S", "NG", "ER0"]), min_size=1, max_size=15),
                  st.sampled_from([" ", *PAUSES]), st.sampled_from(["the", "cat"])),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_features_of_any_words(words: list[tuple[list[str], str, str]]) -> None:
    said, marks, spelling = (list(column) for column in zip(*words, strict=True))
    got = features(said, marks, spelling)
    assert (got >= 0).all() and (got < np.array([*TEMPLATES.values()])).all()


def test_features_tell_places_apart() -> None:
    names = list(TEMPLATES)
    got = features([["B", "AE1", "D"], ["AH0"]], [",", "."], ["bad", "a"])
    column = dict(zip(names, got.T.tolist(), strict=True))
    places = [value % 4 for value in column["base and place in word"]]
    assert places == [0, 1, 0, 2, 0, 3, 0]
    marks = [value % 5 for value in column["base and mark after word"]]
    assert marks == [1, 1, 1, 1, 1, 2, 2]
    assert [value % 4 for value in column["base and words to the end"]] == [1, 1, 1, 1, 1, 0, 0]
    assert column["words in text"] == [2] * 7


def test_durations(tmp_path: Path) -> None:
    small_durations(tmp_path / "durations.bin")
    model = Durations.load(tmp_path / "durations.bin")
    expected = [0.04 if p == "SP" else 0.12 if p[-1].isdigit() else 0.06 for p in sequence(SAID)]
    assert model.predict(SAID, [" ", ",", "."], ["x"] * 3) == pytest.approx(expected, rel=1e-5)
    got = model.seconds(SAID, [" ", ",", "."], ["x"] * 3, rate=2.0)
    # The comma is at phone 10; the end keeps the teacher's silence.
    assert got[10] == pytest.approx(PAUSES[","] / 2) and got[-1] == pytest.approx(0.02)
    assert got[1] == pytest.approx(0.03)
    assert len(model.predict([], [], [])) == 1


@pytest.mark.parametrize("rate", [0.0, 0.49, 2.01, -1.0, float("nan"), float("inf")])
def test_bad_rates_are_refused(tmp_path: Path, rate: float) -> None:
    small_durations(tmp_path / "durations.bin")
    with pytest.raises(ValueError, match="rate is"):
        Durations.load(tmp_path / "durations.bin").seconds(SAID, [" "] * 3, ["x"] * 3, rate)


def _arrays(units: int, inner: int, value: float = 0.0) -> dict[str, np.ndarray]:
    shapes = {
        "table": (sum(TEMPLATES.values()), units),
        "inner": (units, inner),
        "inner_bias": (inner,),
        "outer": (inner,),
        "outer_bias": (1,),
    }
    return {name: np.full(shape, value, np.float16) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"inner": np.zeros(3, np.float16)}, "tensor inner is of 0 and 0 units"),
        (
            {"inner": np.zeros((2000, 1), np.float16)},
            "tensor inner is of 2000 and 1 units; allowed are 1 to 1024",
        ),
        ({"table": np.zeros((3, 4), np.float16)}, r"table has shape \[3, 4\]"),
        ({"outer": np.zeros(5, np.float32)}, "dtype F32"),
        ({"outer": np.zeros(4, np.float16)}, r"outer has shape \[4\], \[5\] is needed"),
        ({"inner_bias": np.full(5, np.nan, np.float16)}, "inner_bias holds values that are not finite"),
    ],
)
def test_bad_durations_are_refused(tmp_path: Path, changed: dict[str, np.ndarray], message: str) -> None:
    write_tensors(tmp_path / "durations.bin", _arrays(4, 5) | changed)
    with pytest.raises(ModelInvalidError, match=message):
        Durations.load(tmp_path / "durations.bin")


def test_durations_without_a_tensor_are_refused(tmp_path: Path) -> None:
    arrays = _arrays(4, 5)
    del arrays["outer_bias"]
    write_tensors(tmp_path / "durations.bin", arrays)
    with pytest.raises(ModelInvalidError, match="tensor outer_bias is missing"):
        Durations.load(tmp_path / "durations.bin")


def test_extreme_coefficients_stay_bounded(tmp_path: Path) -> None:
    for value in (-6e4, 6e4):
        arrays = _arrays(1024, 1024, 6e4)
        write_tensors(tmp_path / "durations.bin", arrays | {"outer": np.full(1024, value, np.float16)})
        got = Durations.load(tmp_path / "durations.bin").predict(SAID, [" "] * 3, ["x"] * 3)
        assert (got >= 0.0099).all() and (got <= 0.61).all()


def test_gradients_are_those_of_the_loss() -> None:
    rng = np.random.default_rng(3)
    net = Network(**{name: rng.normal(0, 0.5, array.shape) for name, array in _arrays(4, 3).items()})
    indices = features(SAID, [",", " ", "?"], ["hello", "world", "yes"]) + offsets()
    target = rng.normal(-2, 1, len(indices))

    def loss(network: Network) -> float:
        units = np.maximum(network.table[indices].sum(1), 0)
        units = np.maximum(units @ network.inner + network.inner_bias, 0)
        error = np.abs(units @ network.outer + network.outer_bias - target)
        return float(np.where(error < tool.KNEE, error**2 / 2 / tool.KNEE, error - tool.KNEE / 2).mean())

    gradients = tool._gradients(net, indices, target)
    for name, gradient in gradients.items():
        direction = rng.normal(size=gradient.shape)
        moved = [
            loss(dataclasses.replace(net, **{name: getattr(net, name) + step * direction}))
            for step in (1e-6, -1e-6)
        ]
        assert (gradient * direction).sum() == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-3)


def _shard(path: Path, sentences: list[tuple[str, list[str], list[float]]]) -> None:
    np.savez(
        path,
        texts=np.array([s[0] for s in sentences]),
        phones=np.array([" ".join(s[1]) for s in sentences]),
        own=np.concatenate([np.array(s[2], np.float32) for s in sentences]),
        counts=np.array([len(s[2]) for s in sentences]),
    )


def test_fit_finds_the_durations_it_is_given(tmp_path: Path) -> None:
    # A teacher whose lengths depend on the phone and on a comma behind the word.
    rng = np.random.default_rng(5)
    names = ("hello", "world", "door", "open", "good", "morning", "five", "yes", "no")
    shard: list[tuple[str, list[str], list[float]]] = []
    for _ in range(400):
        words = [str(w) for w in rng.choice(names, rng.integers(2, 6))]
        comma = int(rng.integers(0, len(words) - 1))
        text = " ".join(w + ("," if i == comma else "") for i, w in enumerate(words))
        phones = sequence([WORDS[w].split() for w in words])
        lengths, gap = [], -1
        for phone in phones:
            gap += phone == "SP"
            base = 0.05 if phone == "SP" else 0.1 if phone[-1].isdigit() else 0.05
            lengths.append(base * (2.0 if phone == "SP" and gap == comma + 1 else 1.0))
        shard.append((text, phones, lengths))
    _shard(tmp_path / "shard-0000.npz", shard)
    figures = tool.train([tmp_path / "shard-0000.npz"], tmp_path / "durations.bin", pace=1.0)
    assert figures["ms a phone"] < 3 and figures["per cent a sentence"] < 2
    model = Durations.load(tmp_path / "durations.bin")
    got = model.predict(SAID, [",", " ", "."], ["hello", "world", "yes"])
    assert got[5] == pytest.approx(0.1, rel=0.1) and got[10] == pytest.approx(0.05, rel=0.1)
    again = tool.train([tmp_path / "shard-0000.npz"], tmp_path / "slow.bin", pace=1.2)
    assert again == figures
    slow = Durations.load(tmp_path / "slow.bin").predict(SAID, [",", " ", "."], ["hello", "world", "yes"])
    np.testing.assert_allclose(slow, 1.2 * got, rtol=0.01)


def test_shards_of_another_dictionary_are_refused(tmp_path: Path) -> None:
    _shard(tmp_path / "shard-0000.npz", [("hello", ["SP", "B", "SP"], [0.1, 0.1, 0.1])])
    with pytest.raises(ValueError, match="'hello'"):
        list(tool.sentences([tmp_path / "shard-0000.npz"], {"hello": ["HH", "AH0", "L", "OW1"]}))
    with pytest.raises(ValueError, match="no sentences"):
        tool.fit([])


# Front end


def test_tokens(frontend: EnglishFrontEnd) -> None:
    tokens = frontend.tokens("Hello, world!")
    assert phones_of(tokens) == "SP HH AH0 L OW1 SP W ER1 L D SP"
    # 40 + (60+120+60+120) + 120 + (60+120+60+60) + 40 ms = 21.5 slots.
    assert len(tokens) == 11
    assert all(0 <= token < PAIRS for token in tokens)
    assert frontend.tokens("Hello, world!") == tokens


def test_words_are_a_slot_apart_unless_they_are_said_fast(frontend: EnglishFrontEnd) -> None:
    assert phones_of(frontend.tokens("hello world")) == "SP HH AH0 L OW1 SP W ER1 L D SP"
    assert phones_of(frontend.tokens("hello world", 1.5)) == "SP HH AH0 L OW1 W ER1 L D SP"


def test_rate(frontend: EnglishFrontEnd) -> None:
    slow, plain, fast = (len(frontend.tokens("Good morning, the door is open.", r)) for r in (0.5, 1.0, 1.25))
    assert slow == pytest.approx(2 * plain, abs=2) and fast < plain
    with pytest.raises(ValueError, match="rate"):
        frontend.tokens("yes", 3.0)


def test_pauses_grow_with_the_mark(frontend: EnglishFrontEnd) -> None:
    lengths = [len(frontend.tokens(f"hello{mark} world")) for mark in ("", ",", ";", ".")]
    assert lengths == sorted(lengths) and lengths[0] < lengths[1] < lengths[3]


def test_numbers_are_said(frontend: EnglishFrontEnd) -> None:
    assert frontend.spoken("It is 5:30.").words == ("it", "is", "five", "thirty")


@pytest.mark.parametrize("text", ["", " ", "...", "東京", "😀", "\ud800", "---"])
def test_silence_is_a_token(frontend: EnglishFrontEnd, text: str) -> None:
    assert phones_of(frontend.tokens(text)) == "SP"
    assert len(frontend.tokens(text)) == 1


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=80))
@settings(max_examples=150)
def test_any_text(frontend: EnglishFrontEnd, text: str) -> None:
    tokens = frontend.tokens(text)
    assert tokens and all(0 <= token < PAIRS for token in tokens)


def test_the_frame_of_control_ids(frontend: EnglishFrontEnd) -> None:
    tokenizer = FrameTokenizer(frontend)
    ids = tokenizer.speech("Hello")
    role = [SPECIAL_IDS[name] for name in ("im_start", "assistant", "newline")]
    assert ids[: tokenizer.HEAD] == role
    assert ids[tokenizer.HEAD : -tokenizer.TAIL] == frontend.tokens("Hello") == tokenizer.plain("Hello")
    assert ids[-tokenizer.TAIL :] == [SPECIAL_IDS["im_end"], SPECIAL_IDS["newline"], *role]
    with pytest.raises(InvalidOptionError, match="takes no instructions"):
        tokenizer.instruction("angry")


@pytest.mark.parametrize("name", ["lexicon.bin", "letters.bin", "durations.bin"])
def test_missing_and_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    files = small_files(tmp_path)
    with pytest.raises(ModelInvalidError, match=f"{name} is missing"):
        EnglishFrontEnd.load({key: path for key, path in files.items() if key != name})
    files[name].write_bytes(b"\xff" * 64)
    with pytest.raises(ModelInvalidError, match=name):
        EnglishFrontEnd.load(files)
    files[name].unlink()
    with pytest.raises(ModelInvalidError, match=name):
        EnglishFrontEnd.load(files)
