"""Where the reader is in a text, and what it has said so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Known = Callable[[str], bool]
_LETTERS = re.compile(r"[a-z]")
_WORDS = re.compile(r"'?[a-z]+(?:'[a-z]+)*")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")


@dataclass(slots=True)
class Scan:
    """`text` is clean (see `reader.clean`), `at` the position of what comes next, `out` what was said.

    `capital_before` tells whether the last word began with a capital, `name_before` whether the one before it
    did, `initial` whether it was an initial with its full stop; `shouting` whether the whole text is in
    capitals, so that capitals mean nothing. `code_end` is how much was said when a numbered name ended.
    """

    text: str
    known: Known
    at: int = 0
    out: list[str] = field(default_factory=list)
    capital_before: bool = False
    name_before: bool = False
    initial: bool = False
    code_end: int = -1
    shouting: bool = field(init=False)

    def __post_init__(self) -> None:
        capitals = len(_CAPITALS.findall(self.text))
        self.shouting = capitals > 1 and not _LETTERS.search(self.text)

    @property
    def done(self) -> bool:
        """Whether everything was read."""
        return self.at >= len(self.text)

    @property
    def before(self) -> str:
        """The character before, or an empty string."""
        return self.text[self.at - 1 : self.at] if self.at else ""

    @property
    def last(self) -> str:
        """What was said last, or an empty string."""
        return self.out[-1] if self.out else ""

    def look(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """A match that begins here."""
        return pattern.match(self.text, self.at)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """A match that begins here; the position moves behind it."""
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def say(self, *items: str) -> None:
        """Add words, letters or marks."""
        self.out += items

    def place(self) -> tuple[int, int, bool, bool, bool]:
        """Where the scan is, for `back`."""
        return self.at, len(self.out), self.capital_before, self.name_before, self.initial

    def back(self, place: tuple[int, int, bool, bool, bool]) -> None:
        """Undo everything since `place`."""
        self.at, said, self.capital_before, self.name_before, self.initial = place
        del self.out[said:]

    def skip(self, end: int, items: Sequence[str], stop: bool = False) -> bool:
        """Say `items` and go on at `end`; `stop` adds the full stop that an abbreviation swallowed."""
        self.out += items
        if stop:
            self.out.append(".")
        self.at = end
        self.capital_before = False
        return True


def letters(text: str) -> list[str]:
    """The letters of a word as spelled-letter items: "USB" -> u. s. b."""
    return [f"{c}." for c in text.lower() if "a" <= c <= "z"]


def words_of(text: str) -> list[str]:
    """The words in a lower-case text that holds letters and apostrophes."""
    return _WORDS.findall(text)
