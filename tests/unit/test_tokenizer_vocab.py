"""The byte-pair encoding against a plain one, the split of text into pieces, and damaged vocabulary files."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cython_kernels.vocab import MAX_PIECE, Vocab
from edgettsd.families.qwen3_tts.split import pieces


def _alphabet() -> list[str]:
    """The GPT-2 characters of the bytes 0 to 255."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(b) if b in shown else chr(next(hidden)) for b in range(256)]


BYTES = _alphabet()
# Merges that overlap and tie, over letters and the two bytes of "é".
MERGES = ["a b", "b c", "ab c", "a a", "aa aa", "b a", "ba ba", "\u00c3 \u00a9", "c \u00c3\u00a9", "abc abc"]
TOKENS = [*BYTES, *dict.fromkeys(merge.replace(" ", "") for merge in MERGES), "<|im_end|>"]

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    folder = tmp_path_factory.mktemp("vocab")

    def make(tokens: object = TOKENS, merges: object = MERGES) -> Path:
        path = folder / f"{len(list(folder.iterdir()))}.gguf"
        writer = gguf.GGUFWriter(path, "qwen2")
        for key, value in (("tokenizer.ggml.tokens", tokens), ("tokenizer.ggml.merges", merges)):
            if isinstance(value, list):
                writer.add_array(key, value)
            elif value is not None:
                writer.add_uint32(key, 7)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        return path

    return make


@pytest.fixture(scope="module")
def vocab(write: Write) -> Vocab:
    return Vocab(write())


def _plain(text: str) -> list[int]:
    """Textbook byte-pair encoding: the first of the lowest-ranked pairs is merged until none is left."""
    parts = [BYTES[byte] for byte in text.encode()]
    while True:
        pairs = [f"{a} {b}" for a, b in pairwise(parts)]
        found = [(MERGES.index(pair), at) for at, pair in enumerate(pairs) if pair in MERGES]
        if not found:
            return [TOKENS.index(part) for part in parts]
        at = min(found)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@given(text=st.text(alphabet="abcé \x00\x7f😀", max_size=40))
def test_ids_are_those_of_the_plain_algorithm(vocab: Vocab, text: str) -> None:
    assert vocab.encode([text]) == _plain(text)


def test_pieces_are_encoded_apart(vocab: Vocab) -> None:
    assert vocab.encode(["abc", "", "abc"]) == 2 * _plain("abc")
    assert vocab.encode(["abcabc"]) == [TOKENS.index("abcabc")]
    assert vocab.encode([]) == []
    assert vocab.size == len(TOKENS)


def test_control_tokens_are_plain_text(vocab: Vocab) -> None:
    assert len(vocab.encode(["<|im_end|>"])) == len("<|im_end|>")


def test_a_long_piece_is_quick_and_too_long_a_piece_is_refused(vocab: Vocab) -> None:
    ids = vocab.encode(["a" * 200_000])
    assert ids == [TOKENS.index("aaaa")] * 50_000
    with pytest.raises(ValueError, match=f"at most {MAX_PIECE}"):
        vocab.encode(["a" * (MAX_PIECE + 1)])
    with pytest.raises(UnicodeEncodeError):
        vocab.encode(["\ud800"])


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"tokens": None}, r"tokenizer\.ggml\.tokens is not a list"),
        ({"tokens": 7}, r"tokenizer\.ggml\.tokens is not a list"),
        ({"tokens": [1, 2]}, r"tokenizer\.ggml\.tokens is not a list"),
        ({"tokens": [*TOKENS, "ab"]}, rf"has token {len(TOKENS)} twice"),
        ({"tokens": TOKENS[1:]}, "has no token for byte 0"),
        ({"merges": None}, r"tokenizer\.ggml\.merges is not a list"),
        ({"merges": [*MERGES, "ab"]}, rf"merge {len(MERGES)} is not two tokens"),
        ({"merges": ["a" * 2000 + " b"]}, "merge 0 is not two tokens"),
        ({"merges": [*MERGES, "q q"]}, rf"merge {len(MERGES)} \(q q\) names a token that is missing"),
        ({"merges": ["aab c"]}, r"merge 0 \(aab c\) names a token that is missing"),
    ],
)
def test_a_wrong_file_is_refused_by_name(write: Write, changes: dict[str, object], said: str) -> None:
    path = write(**changes)
    with pytest.raises(ValueError, match=rf"{path}.*{said}"):
        Vocab(path)


def test_the_merges_are_those_of_the_file(write: Write) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.ggml\.merges"):
        Vocab(write(merges=7))
    assert Vocab(write(merges=["a b"])).encode(["abc"]) == [TOKENS.index("ab"), TOKENS.index("c")]


def test_a_cut_file_is_refused(write: Write, tmp_path: Path) -> None:
    data = write().read_bytes()
    for length in (0, 3, 24, len(data) // 2, len(data) - 1):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"cut\.gguf.*"):
            Vocab(cut)
    with pytest.raises(FileNotFoundError, match=r"gone\.gguf"):
        Vocab(tmp_path / "gone.gguf")


@given(text=st.text())
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert all(pieces(text))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("YouTube iPhone", ["You", "Tube", " i", "Phone"]),
        ("NASAish USA's", ["NASAish", " USA", "'s"]),
        ("'sorry' I'll", ["'sorry", "'", " I", "'ll"]),
        ("a  b   ", ["a", " ", " b", "   "]),
        ("a \n\n b", ["a", " \n\n", " b"]),
        ("ok!?\n/x 12", ["ok", "!?\n/", "x", " ", "1", "2"]),
        ("สวัสดี", ["สวัสดี"]),
        ("x\u3000y\x1cz", ["x", "\u3000y", "\x1cz"]),
        ("ÉCOLE Élan", ["ÉCOLE", " Élan"]),
    ],
)
def test_pieces(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected
