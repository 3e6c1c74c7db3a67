"""Words become phones: lexicon file, letter-to-sound file, and what is derived from known words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.voice import letters as letters_tool
from edgettsd_tools.voice import lexicon as lexicon_tool
from edgettsd_tools.voice.tensors import write_tensors
from english_files import small_letters
from hypothesis import given
from hypothesis import strategies as st

from edgettsd.errors import ModelInvalidError
from edgettsd.frontends.english.letters import ALPHABET, LetterToSound, one_stress
from edgettsd.frontends.english.lexicon import Lexicon
from edgettsd.frontends.english.phones import PHONES
from edgettsd.frontends.english.pronounce import Pronouncer
from edgettsd.models.safetensors import SafetensorsFile


@pytest.fixture(scope="module")
def entries() -> dict[str, list[list[str]]]:
    return lexicon_tool.read_cmudict()


@pytest.fixture(scope="module")
def lexicon_file(tmp_path_factory: pytest.TempPathFactory, entries: dict[str, list[list[str]]]) -> Path:
    path = tmp_path_factory.mktemp("english") / "lexicon.bin"
    lexicon_tool.build(entries, path)
    return path


@pytest.fixture(scope="module")
def pronouncer(tmp_path_factory: pytest.TempPathFactory, lexicon_file: Path) -> Pronouncer:
    path = tmp_path_factory.mktemp("english") / "letters.bin"
    small_letters(path)
    return Pronouncer(Lexicon.load(lexicon_file), LetterToSound.load(path))


def test_words_that_the_letters_say_need_no_phones(tmp_path: Path) -> None:
    class Letters:
        def phones(self, word: str) -> list[str]:
            return ["K", "AE1", "T"] if word == "cat" else ["D"]

    entries = {"cat": [["K", "AE1", "T"]], "cats": [["K", "AE1", "T", "S"]], "cog": [["K", "AA1", "G"]]}
    small, large = tmp_path / "small.bin", tmp_path / "large.bin"
    assert lexicon_tool.build(entries, small, Letters()) < lexicon_tool.build(entries, large)  # type: ignore[arg-type]
    lexicon = Lexicon.load(small)
    assert [lexicon.phones(w) for w in ("cat", "cog", "dog")] == [["SP"], ["K", "AA1", "G"], None]
    said = Pronouncer(lexicon, Letters())  # type: ignore[arg-type]
    assert said.known("cat") and not said.known("dog")
    assert said.word("cat") == ["K", "AE1", "T"] and said.word("cats") == ["K", "AE1", "T", "S"]
    # A stem whose phones the letters say serves for other words too.
    assert said.word("catness") == ["K", "AE1", "T", "N", "AH0", "S"]


def test_the_dictionary_is_whole(entries: dict[str, list[list[str]]]) -> None:
    assert len(entries) == 124_926
    assert entries["tomato"] == [["T", "AH0", "M", "EY1", "T", "OW2"], ["T", "AH0", "M", "AA1", "T", "OW2"]]
    assert {p for variants in entries.values() for v in variants for p in v} <= set(PHONES)


def test_every_word_is_found(lexicon_file: Path, entries: dict[str, list[list[str]]]) -> None:
    lexicon = Lexicon.load(lexicon_file)
    assert lexicon_file.stat().st_size < 1_300_000
    for word in list(entries)[::17]:
        assert lexicon.phones(word) == entries[word][0]
    assert "zyzzyva" in entries or "zyzzyva" not in lexicon


@given(st.text(st.sampled_from("abcdez'"), max_size=8))
def test_other_words_are_not_found(
    lexicon_file: Path, entries: dict[str, list[list[str]]], word: str
) -> None:
    assert (word in Lexicon.load(lexicon_file)) == (word in entries)


@pytest.mark.parametrize("word", ["", " ", "Hello", "é", "a" * 61, "~", "\x00", "hello\n"])
def test_odd_words_are_not_found(lexicon_file: Path, word: str) -> None:
    assert Lexicon.load(lexicon_file).phones(word) is None


def test_long_and_prefixed_words(tmp_path: Path) -> None:
    words = ["a", "ab", "abc", "supercalifragilistic", "supercalifragilisticexpialidocious", "z'z"]
    entries = {word: [["AH0", "B"], ["B"]] for word in words}
    lexicon_tool.build(entries, tmp_path / "lexicon.bin")
    lexicon = Lexicon.load(tmp_path / "lexicon.bin")
    assert all(lexicon.phones(word) == ["AH0", "B"] for word in words)
    assert lexicon.phones("abcd") is None


def test_a_damaged_lexicon_is_refused(tmp_path: Path, lexicon_file: Path) -> None:
    whole = lexicon_file.read_bytes()
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path = tmp_path / "cut.bin"
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelInvalidError, match=r"cut\.bin"):
            Lexicon.load(path)


@pytest.mark.parametrize(
    ("data", "blocks"),
    [
        ([0x01, 97, 0x81], [0]),
        ([0x01, 97, 0x81], [0, 2]),
        ([0x01, 97, 0x81], [1, 3]),
        ([0x01, 97, 0x81], [0, 3, 3]),
        ([0x01, 97, 0x81], [0, 5, 3]),
        ([0x01, 97, 0x81], [0, -1, 3]),
    ],
)
def test_bad_blocks_are_refused(tmp_path: Path, data: list[int], blocks: list[int]) -> None:
    path = tmp_path / "bad.bin"
    write_tensors(path, {"data": np.array(data, np.uint8), "blocks": np.array(blocks, np.int32)})
    with pytest.raises(ModelInvalidError, match=r"bad\.bin"):
        Lexicon.load(path)


@pytest.mark.parametrize(
    "data",
    [
        [0x01, 97, 0x01],  # the phones do not end
        [0x0F],  # no length
        [0x05, 97],  # the letters do not end
        [0x01, 97, 0x80 | 70],  # no such phone
        [0x31, 97, 0x81],  # shares letters with nothing
    ],
)
def test_bad_entries_are_refused(tmp_path: Path, data: list[int]) -> None:
    path = tmp_path / "bad.bin"
    blocks = np.array([0, len(data)], np.int32)
    write_tensors(path, {"data": np.array(data, np.uint8), "blocks": blocks})
    with pytest.raises(ModelInvalidError, match=r"bad\.bin"):
        Lexicon.load(path).phones("zz")


@given(st.binary(min_size=1, max_size=64), st.text(st.sampled_from("az"), min_size=1, max_size=3))
def test_any_entries_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, word: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bin"
    blocks = np.array([0, len(data)], np.int32)
    write_tensors(path, {"data": np.frombuffer(data, np.uint8), "blocks": blocks})
    try:
        found = Lexicon.load(path).phones(word)
    except ModelInvalidError:
        return
    assert found is None or set(found) <= set(PHONES)


def test_missing_tensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.bin"
    write_tensors(path, {"data": np.zeros(3, np.uint8)})
    with pytest.raises(ModelInvalidError, match="data and blocks"):
        Lexicon.load(path)
    write_tensors(path, {"data": np.zeros(3, np.int8), "blocks": np.array([0, 3], np.int32)})
    with pytest.raises(ModelInvalidError, match="dtype I8"):
        Lexicon.load(path)


# Letters to sound


def test_letters_give_phones_with_one_stress(tmp_path: Path) -> None:
    small_letters(tmp_path / "letters.bin")
    model = LetterToSound.load(tmp_path / "letters.bin")
    for word in ("a", "strength", "o'clock", "x" * 500, "ab" * 30):
        got = model.phones(word)
        assert set(got) <= set(PHONES[1:])
        vowels = [p for p in got if p[-1].isdigit()]
        assert sum(p[-1] == "1" for p in vowels) == (1 if vowels else 0)
        assert model.phones(word) == got
    assert model.phones("") == model.phones("123 é") == []
    assert model.phones("STRENGTH") == model.phones("strength")


def test_the_device_computes_what_was_trained(tmp_path: Path) -> None:
    # One channel a letter: the embedding copies it, the layers add nothing, the output names the phone.
    n, phones = len(ALPHABET), len(PHONES)
    embed = np.zeros((n + 1, n), np.float32)
    embed[np.arange(1, n + 1), np.arange(n)] = 1
    weights = {"embed.weight": embed, "out.weight": np.zeros((2 * phones, n, 1), np.float32)}
    weights["out.bias"] = np.zeros(2 * phones, np.float32)
    for index in range(len(letters_tool.DILATIONS)):
        weights[f"convs.{index}.weight"] = np.zeros((n, n, 3), np.float32)
        weights[f"convs.{index}.bias"] = np.zeros(n, np.float32)
    # b is B; x is K S; any letter right after an a is also T in its second slot.
    weights["out.weight"][PHONES.index("B"), ALPHABET.index("b")] = 1
    weights["out.weight"][PHONES.index("K"), ALPHABET.index("x")] = 1
    weights["out.weight"][phones + PHONES.index("S"), ALPHABET.index("x")] = 1
    letters_tool.export(weights, tmp_path / "letters.bin")
    assert LetterToSound.load(tmp_path / "letters.bin").phones("bxcb") == ["B", "K", "S", "B"]
    # A tap that looks one letter back.
    weights["convs.0.weight"][ALPHABET.index("x"), ALPHABET.index("b"), 0] = 1
    letters_tool.export(weights, tmp_path / "letters.bin")
    assert LetterToSound.load(tmp_path / "letters.bin").phones("bc") == ["B", "K", "S"]


@pytest.mark.parametrize(
    ("given_phones", "expected"),
    [
        ("", ""),
        ("S T", "S T"),
        ("AH0 B AH0", "AH1 B AH0"),
        ("AH0 B AH2", "AH0 B AH1"),
        ("AH1 B AH1", "AH1 B AH2"),
        ("AH2 B AH1", "AH2 B AH1"),
    ],
)
def test_one_stress(given_phones: str, expected: str) -> None:
    assert one_stress(given_phones.split()) == expected.split()


def test_damaged_letters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "letters.bin"
    small_letters(path)
    whole = path.read_bytes()
    for cut in (0, 9, 300, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelInvalidError, match=r"letters\.bin"):
            LetterToSound.load(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("embed.weight", np.zeros((3, 8), np.int8), "embed.weight has shape"),
        ("embed.weight", np.zeros((28, 8), np.uint8), "dtype U8"),
        ("embed.weight", np.zeros((28, 0), np.int8), "layers of 0 channels"),
        ("embed.weight", np.zeros((28, 2000), np.int8), "layers of 2000 channels"),
        ("embed.scale", np.full(8, np.nan, np.float32), "not finite"),
        ("out.bias", np.full(140, np.inf, np.float32), "not finite"),
        ("out.bias", np.zeros(139, np.float32), "out.bias has shape"),
        ("dilations", np.array([1, 0], np.int32), "dilations are"),
        ("dilations", np.array([1, 1 << 30], np.int32), "dilations are"),
        ("dilations", np.zeros(0, np.int32), "0 layers"),
        ("dilations", np.ones(40, np.int32), "40 layers"),
        ("dilations", np.ones(3, np.int32), "conv.2.weight is missing"),
        ("conv.1.weight", np.zeros((5, 8, 8), np.int8), "conv.1.weight has shape"),
    ],
)
def test_bad_letters_are_refused(tmp_path: Path, name: str, value: np.ndarray, message: str) -> None:
    path = tmp_path / "letters.bin"
    small_letters(path)
    with SafetensorsFile(path) as file:
        tensors = {key: np.array(file[key]) for key in file}
    write_tensors(path, tensors | {name: value})
    with pytest.raises(ModelInvalidError, match=message):
        LetterToSound.load(path)


def test_examples_and_batches() -> None:
    import random

    entries = {"ox": [["AA1", "K", "S"]], "x": [["EH1", "K", "S"]], "ab": [["AE1", "B"]], "zz": [["Z"] * 5]}
    data = letters_tool.examples(entries)
    assert [word for word, _ in data] == ["ox", "ab"]
    assert sorted(w for batch in letters_tool.batches(data, random.Random(1)) for w, _ in batch) == [
        "ab",
        "ox",
    ]
    share = sum(letters_tool.held_out(f"word{i}") for i in range(2000)) / 2000
    assert 0.03 < share < 0.07


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("ab", "ba", 2)],
)
def test_distance(a: str, b: str, edits: int) -> None:
    assert letters_tool.distance(a, b) == edits == letters_tool.distance(b, a)


# Pronouncer


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("hello", "HH AH0 L OW1"),
        ("b.", "B IY1"),
        ("a.", "EY1"),
        ("b.'s", "B IY1 Z"),
        ("x.'s", "EH1 K S AH0 Z"),
        ("smartwatch", "S M AA1 R T W AA2 CH"),
        ("smartwatch's", "S M AA1 R T W AA2 CH AH0 Z"),
        ("smartwatches", None),
        ("it'd've", None),
        ("bluetooth", "B L UW1 T UW2 TH"),
    ],
)
def test_words(pronouncer: Pronouncer, word: str, phones: str | None) -> None:
    got = pronouncer.word(word)
    assert got and set(got) <= set(PHONES)
    if phones is not None:
        assert " ".join(got) == phones


@pytest.mark.parametrize(
    ("known", "unknown", "phones"),
    [
        ("tweet", "tweetings", "T W IY1 T IH0 NG Z"),
        ("upload", "uploadable", "AH1 P L OW2 D AH0 B AH0 L"),
        ("gnarl", "gnarled", "N AA1 R L D"),
        ("hype", "hyped", "HH AY1 P T"),
        ("plod", "ploddish", "P L AA1 D IH0 SH"),
        ("geek", "geekish", "G IY1 K IH0 SH"),
        ("route", "rerouted", "R IY2 R UW1 T AH0 D"),
        ("reboot", "reboots", "R IY0 B UW1 T S"),
    ],
)
def test_endings_of_known_words(tmp_path: Path, known: str, unknown: str, phones: str) -> None:
    own = {
        "tweet": "T W IY1 T", "upload": "AH1 P L OW2 D", "gnarl": "N AA1 R L", "hype": "HH AY1 P",
        "plod": "P L AA1 D", "geek": "G IY1 K", "route": "R UW1 T", "reboot": "R IY0 B UW1 T",
    }  # fmt: skip
    lexicon_tool.build({word: [said.split()] for word, said in own.items()}, tmp_path / "lexicon.bin")
    small_letters(tmp_path / "letters.bin")
    pronouncer = Pronouncer(
        Lexicon.load(tmp_path / "lexicon.bin"), LetterToSound.load(tmp_path / "letters.bin")
    )
    assert " ".join(pronouncer.word(known)) == own[known]
    assert " ".join(pronouncer.word(unknown)) == phones


@pytest.mark.parametrize(
    ("text", "index", "phones"),
    [
        ("close the door .", 0, "K L OW1 Z"),
        ("please close it .", 1, "K L OW1 Z"),
        ("it is close by .", 2, "K L OW1 S"),
        ("i have read it .", 2, "R EH1 D"),
        ("please read it .", 1, "R IY1 D"),
        ("we live here .", 1, "L IH1 V"),
        ("a live stream .", 1, "L AY1 V"),
        ("use the key .", 0, "Y UW1 Z"),
        ("no use .", 1, "Y UW1 S"),
        ("the record .", 1, "R EH1 K ER0 D"),
        ("to record .", 1, "R IH0 K AO1 R D"),
        ("it is here .", 0, "IH0 T"),
        ("the end .", 0, "DH AH0"),
    ],
)
def test_context(pronouncer: Pronouncer, text: str, index: int, phones: str) -> None:
    assert " ".join(pronouncer.sentence(text.split())[index]) == phones


@given(st.text(st.sampled_from("abcdeings'"), max_size=30))
def test_any_word_is_said(pronouncer: Pronouncer, word: str) -> None:
    assert set(pronouncer.word(word)) <= set(PHONES)


def test_a_word_alone_is_said_in_full(pronouncer: Pronouncer) -> None:
    assert pronouncer.sentence(["a", "."]) == [["EY1"], []]
    assert pronouncer.sentence(["for"]) == [["F", "AO1", "R"]]
    assert pronouncer.sentence(["for", "a", "day"])[:2] == [["F", "AO0", "R"], ["AH0"]]
