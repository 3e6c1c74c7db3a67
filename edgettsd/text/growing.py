"""Sentences of a text that is still being written: each as soon as no more text can change it."""

from __future__ import annotations

import unicodedata

from edgettsd.text.normalise import INVISIBLE, normalise
from edgettsd.text.sentences import DEFAULT_MAX_CHARS, paragraphs, pieces_of, sentences_of


class SentenceStream:
    """Gives the pieces of `split_sentences(normalise(text))` one after the other, for any way of cutting it.

    A sentence is certain with the word behind its end, or with the first character of the paragraph after
    it, and two characters more. Only the paragraph that is being written is looked at again.
    """

    def __init__(self, max_chars: int = DEFAULT_MAX_CHARS) -> None:
        if max_chars < 1:
            raise ValueError(f"max_chars is {max_chars}; allowed: 1 or more")
        self._max_chars = max_chars
        # `_text` is normalised, from the beginning of the last paragraph on; `_raw`, as written, follows it.
        self._text = ""
        self._raw = ""
        # How many paragraphs of `_text` were given whole, and how many sentences of the next paragraph.
        self._done = self._given = 0

    def feed(self, text: str, closed: bool = False) -> list[str]:
        """Append `text`; the pieces that are certain now, with `closed` all that are left."""
        self._raw += text
        self._commit()
        tail = normalise(self._raw)
        clean = self._text + (tail if closed else _settled(tail))
        found: list[str] = []
        parts = list(paragraphs(clean if closed else clean.rstrip()))
        for number in range(self._done, len(parts)):
            last = number == len(parts) - 1
            sentences = list(sentences_of(parts[number][1], growing=last and not closed))
            for sentence in sentences[self._given :]:
                found += pieces_of(sentence, self._max_chars)
            self._given = len(sentences) if last else 0
        self._done = max(self._done, len(parts) - 1)
        if parts and (begin := parts[-1][0]) <= len(self._text):
            self._text, self._done = self._text[begin:], 0
        return found

    def _commit(self) -> None:
        """Normalise for good what comes before the last place at which a text may be cut for that."""
        for at in range(len(self._raw) - 1, 0, -1):
            if _inert(self._raw[at - 1]) and _inert(self._raw[at]):
                self._text += normalise(self._raw[:at])
                self._raw = self._raw[at:]
                return


def _inert(c: str) -> bool:
    """Whether `c` is a letter or digit that stays what it is beside another such one."""
    # Hangul's letters compose with each other.
    return c.isalnum() and c not in INVISIBLE and c <= "\uffff" and not "\u1100" <= c <= "\u11ff"


def _settled(text: str) -> str:
    """The part of a normalised text that nothing written behind it changes: without its last character.

    That one may compose with marks, and its marks may change their order.
    """
    end = len(text)
    while end and unicodedata.combining(text[end - 1]):
        end -= 1
    return text[: max(0, end - 1)]
