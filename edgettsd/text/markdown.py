"""What is read aloud of a text in Markdown.

Parsed by markdown-it-py (CommonMark, and tables); spoken are headings, paragraphs, items, quotes and table
cells, not code blocks, addresses of links and pictures, HTML, or the signs themselves. Emoji and other
pictures go as well.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

# Inside these nothing is spoken.
_SILENT = {"fence", "code_block", "html_block", "html_inline"}
_ENDS = ".!?:;,…。!?:;"
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"


def spoken(text: str) -> str:
    """The text to speak, a block a line; blocks without an end of their own get a full stop.

    Text without any Markdown comes back with its words as they were.
    """
    tokens = MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(text)
    lines = [line for line in map(_tidy, _blocks(tokens)) if line]
    if len(lines) > 1:
        lines = [line if line.endswith(tuple(_ENDS)) else f"{line}." for line in lines]
    return "\n".join(lines)


def _blocks(tokens: list[Token]) -> Iterator[str]:
    row: list[str] = []
    cells = False
    for token in tokens:
        if token.type == "tr_open":
            row, cells = [], True
        elif token.type == "tr_close":
            cells = False
            yield ", ".join(filter(None, map(_tidy, row)))
        elif token.type == "inline":
            line = "".join(_inline(token.children or []))
            if cells:
                row.append(line)
            else:
                yield line


def _inline(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type == "image":
            yield "".join(_inline(token.children or []))


def _tidy(line: str) -> str:
    """Without pictures, and with single spaces."""
    kept = "".join(c for c in line if c not in _JOINERS and not _is_picture(c))
    return re.sub(r"[^\S\n]+", " ", kept).strip()


def _is_picture(character: str) -> bool:
    code = ord(character)
    if code < 0x2190:
        return False
    # Symbols, modifiers of skin and the letters of flags; arrows and mathematics are the text front end's.
    return 0x1F000 <= code <= 0x1FAFF or (
        0x2600 <= code <= 0x27BF and unicodedata.category(character) == "So"
    )
