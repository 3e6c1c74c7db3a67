"""Text to Qwen2 byte-pair ids, in the chat frame that Qwen3-TTS was trained on."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Protocol

from edgettsd.errors import InvalidTextError, ModelInvalidError

from .split import pieces


class Encoder(Protocol):
    """Pieces of plain text to ids; `cython_kernels.vocab.Vocab` is the real one."""

    def encode(self, pieces: Iterable[str]) -> list[int]: ...


class Tokenizer(Protocol):
    """Text to the ids of a prompt; `speech` gives HEAD ids, those of the text, and TAIL ids."""

    HEAD: int
    TAIL: int

    def speech(self, text: str) -> list[int]: ...
    def instruction(self, instruct: str) -> list[int]: ...
    def plain(self, text: str) -> list[int]: ...


class TextTokenizer:
    """Builds the id sequences of the official text templates.

    Control ids are put in here, by number; the user's text is tokenised without looking for control tokens,
    so a text that contains ``<|im_end|>`` is spoken, not obeyed.
    """

    # Ids that the frame puts before and after the text; the official code slices the text out with these.
    HEAD = 3
    TAIL = 5

    def __init__(self, encoder: Encoder, tokens: Mapping[str, int]) -> None:
        """`tokens` is the manifest's table of control ids (at least im_start and im_end)."""
        self._encoder = encoder
        self._im_start = tokens["im_start"]
        self._im_end = tokens["im_end"]
        self._newline = encoder.encode(["\n"])
        self._assistant = encoder.encode(["assistant", "\n"])
        if len(self._assistant) != self.HEAD - 1 or len(self._newline) != 1:
            raise ModelInvalidError(
                f"tokenizer: 'assistant\\n' gives {len(self._assistant)} ids and a newline "
                f"{len(self._newline)}; a Qwen2 vocabulary gives 2 and 1"
            )

    @classmethod
    def load(cls, path: str | PathLike[str], tokens: Mapping[str, int]) -> TextTokenizer:
        """Read a vocab-only GGUF; raises ModelInvalidError naming the file."""
        from cython_kernels.vocab import Vocab

        try:
            vocab = Vocab(path)
        except (OSError, ValueError) as error:
            raise ModelInvalidError(str(error)) from error
        for name, token in tokens.items():
            if not 0 <= token < vocab.size:
                raise ModelInvalidError(
                    f"manifest tokens.{name} is {token}: allowed are 0 to {vocab.size - 1}"
                )
        return cls(vocab, tokens)

    def speech(self, text: str) -> list[int]:
        """Ids of an utterance: 3 of the role, those of `text`, then 5 that close the turn and open the next.

        A text that starts with line breaks shares an id with the role's own newline, as in the official code.
        Raises InvalidTextError for text that is not valid Unicode.
        """
        body = self._encode(text, "assistant\n")
        end = [self._im_end, *self._newline, self._im_start, *self._assistant]
        return [self._im_start, *body, *end]

    def instruction(self, instruct: str) -> list[int]:
        """Ids of a style instruction, a user turn before the speech."""
        return [self._im_start, *self._encode(instruct, "user\n"), self._im_end, *self._newline]

    def plain(self, text: str) -> list[int]:
        """Ids of a piece of text alone, for text that arrives while speech is playing."""
        return self._encode(text)

    def _encode(self, text: str, role: str = "") -> list[int]:
        for position, character in enumerate(text):
            if "\ud800" <= character <= "\udfff":
                raise InvalidTextError(
                    f"text is not valid Unicode: code point U+{ord(character):04X} at {position}"
                )
        # The official tokenizer composes its input (NFC).
        return self._encoder.encode(pieces(unicodedata.normalize("NFC", role + text)))
