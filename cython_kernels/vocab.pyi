from collections.abc import Iterable
from os import PathLike

MAX_PIECE: int
"""Bytes of the longest piece that `Vocab.encode` takes."""

class Vocab:
    """Byte-pair vocabulary and merges, read from a GGUF file (keys tokenizer.ggml.tokens and .merges).

    Loaded once; `encode` works without the GIL and may be called from several threads.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        """Raises FileNotFoundError, MemoryError, or ValueError that says what is wrong with the file."""

    @property
    def size(self) -> int:
        """Number of token ids."""

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """Ids of the pieces, one piece after another; merges never cross from one piece to the next.

        Nothing is added, and control tokens written in the text stay plain text. Raises UnicodeEncodeError
        for lone surrogates, ValueError for a piece of more than MAX_PIECE bytes, MemoryError.
        """
