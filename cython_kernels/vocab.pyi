from os import PathLike

class Vocab:
    """A byte-pair tokenizer read by libllama from a vocab-only GGUF.

    Loaded once; `encode` releases the GIL and may be called from several threads.
    """

    size: int
    """Number of token ids."""

    def __init__(self, path: str | PathLike[str]) -> None:
        """Raises FileNotFoundError, or ValueError when the file is not a byte-pair vocabulary."""

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, in order; nothing is added, and control tokens written in the text stay plain text.

        Raises UnicodeEncodeError for lone surrogates and ValueError for more than 16 MiB.
        """

    def token(self, index: int) -> str:
        """The vocabulary's own spelling of a token id; raises IndexError."""
