"""Tables of texts and how they are read, and a check of them."""

from __future__ import annotations

import re
from functools import lru_cache

from edgettsd_tools.voice.lexicon import read_cmudict

from edgettsd.frontends.english.reader import read

MARKS = (",", ";", ":", ".", "!", "?")
WORD = re.compile(r"[a-z](?:\.(?:'s)?)|'?[a-z]+(?:'[a-z]+)*")


@lru_cache(1)
def _words() -> frozenset[str]:
    return frozenset(read_cmudict())


def said(text: str) -> str:
    """What is said for a text, without the full stop at its end."""
    return " ".join(read(text, _words().__contains__)).removesuffix(" .")


def readings(table: str) -> list[tuple[str, str]]:
    """Pairs of text and reading, from lines of "text => reading"."""
    rows = [line.split(" => ") for line in table.strip().splitlines() if line.strip()]
    pairs = [(text.strip(), reading.strip()) for text, reading in rows]
    assert len(pairs) == len(dict(pairs)), "a text stands twice in the table"
    return pairs


def well_formed(items: list[str]) -> bool:
    """Whether marks and words are what `read` promises."""
    for before, item in zip(["."] + items, items, strict=False):
        if item in MARKS:
            if before in MARKS:
                return False
        elif not WORD.fullmatch(item):
            return False
    return not items or items[-1] in ".!?"
