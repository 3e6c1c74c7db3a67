"""The English front end of a bundle: text to the ids that its talker is fed, one a frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path

from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.frontends.english.durations import Durations, sequence
from edgettsd.frontends.english.frames import SPECIAL_IDS, pair_ids, slots
from edgettsd.frontends.english.letters import LetterToSound
from edgettsd.frontends.english.lexicon import Lexicon
from edgettsd.frontends.english.pronounce import MARKS, Pronouncer
from edgettsd.frontends.english.reader import read

FILES = ("lexicon.bin", "letters.bin", "durations.bin")
"""Names of the data files in a bundle."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What is said: `words` as read, their `phones`, and the mark after each (a blank where there "
    "is none)."""

    words: tuple[str, ...]
    phones: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...]


class EnglishFrontEnd:
    """Text to pair tokens: reader, pronouncer, durations, slots."""

    def __init__(self, lexicon: Lexicon, letters: LetterToSound, durations: Durations) -> None:
        self._pronouncer = Pronouncer(lexicon, letters)
        self._durations = durations

    @classmethod
    def load(cls, files: Mapping[str, str | PathLike[str]]) -> EnglishFrontEnd:
        """Open the data files, by name; raises ModelInvalidError that names the file."""
        paths: list[Path] = []
        for name in FILES:
            if name not in files:
                raise ModelInvalidError(f"{name} is missing")
            paths.append(Path(files[name]))
        try:
            return cls(Lexicon.load(paths[0]), LetterToSound.load(paths[1]), Durations.load(paths[2]))
        except OSError as error:
            raise ModelInvalidError(f"cannot read {error.filename}: {error.strerror}") from error

    def spoken(self, text: str) -> Spoken:
        """The words of a text with their phones and marks."""
        items = read(text, self._pronouncer.known)
        words: list[str] = []
        phones: list[tuple[str, ...]] = []
        marks: list[str] = []
        for item, said in zip(items, self._pronouncer.sentence(items), strict=True):
            if item in MARKS:
                if marks:
                    marks[-1] = item
            elif said:
                words.append(item)
                phones.append(tuple(said))
                marks.append(" ")
        return Spoken(tuple(words), tuple(phones), tuple(marks))

    def tokens(self, text: str, rate: float = 1.0) -> list[int]:
        """Pair tokens of a text, one a frame of 80 ms; one or more, silence when there is nothing to say.

        `rate` is the speed, 0.5 to 2 (ValueError else); a phone is never shorter than 40 ms.
        """
        spoken = self.spoken(text)
        seconds = self._durations.seconds(spoken.phones, spoken.marks, spoken.words, rate)
        return pair_ids(slots(sequence(spoken.phones), seconds.tolist()))


class FrameTokenizer:
    """The front end in the place of a byte-pair tokenizer: the official frame of control ids "
    "around its tokens."""

    HEAD = 3
    TAIL = 5

    def __init__(self, frontend: EnglishFrontEnd, rate: float = 1.0) -> None:
        # Tokens are kept because each sentence is asked for twice, for its length and for its tokens.
        self._tokens = lru_cache(32)(frontend.tokens)
        self.rate = rate
        self._role = [SPECIAL_IDS[name] for name in ("im_start", "assistant", "newline")]
        self._end = [SPECIAL_IDS[name] for name in ("im_end", "newline")]

    def speech(self, text: str) -> list[int]:
        """Ids of an utterance: 3 of the role, one a frame of `text`, 5 that close the turn."""
        return [*self._role, *self._tokens(text, self.rate), *self._end, *self._role]

    def plain(self, text: str) -> list[int]:
        """Ids of a piece of text alone."""
        return list(self._tokens(text, self.rate))

    def instruction(self, instruct: str) -> list[int]:
        """This front end has no words to instruct with: raises InvalidOptionError."""
        raise InvalidOptionError(f"instruct: {instruct!r} given, but this model takes no instructions")
