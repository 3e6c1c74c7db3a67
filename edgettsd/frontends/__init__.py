"""Text front ends that are more than a tokenizer; a model family imports the one that its bundle names."""

from __future__ import annotations

from typing import Protocol


class Timed(Protocol):
    """A front end that gives every frame its token: lengths are known before anything is spoken."""

    rate: float
    """The speed of what is asked for next, 0.5 to 2."""

    def plain(self, text: str) -> list[int]:
        """The tokens of a text, one a frame."""
        ...
