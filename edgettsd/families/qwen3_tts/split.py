"""Splits text into the pieces within which the byte-pair encoding may merge.

The official package loads its tokenizer with ``fix_mistral_regex=True``, which for the released checkpoints
replaces the split of Qwen2 by another one: "YouTube" is two pieces there, combining marks are letters, and
contractions have no rule of their own. Those are the pieces that the model is used with, so they are ours.

The rules speak of character classes only, so they are applied to a string with one class letter a character.
"""

from __future__ import annotations

import functools
import re
import unicodedata

# Unicode's White_Space without space and line breaks; str.isspace() would add U+001C to U+001F.
_SPACES = frozenset(
    "\t\v\f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
)
# b blank, n line break, s other white space, / slash, U L O letters (upper and title, lower, other), M mark,
# N number, P anything else
_GENERAL = {
    **dict.fromkeys(("Lu", "Lt"), "U"),
    "Ll": "L",
    **dict.fromkeys(("Lm", "Lo"), "O"),
    **dict.fromkeys(("Mn", "Mc", "Me"), "M"),
    **dict.fromkeys(("Nd", "Nl", "No"), "N"),
}
_PIECE = re.compile(
    "[^nULON]?[UOM]*[LOM]+"  # a word in lower case or with one capital run in front
    "|[^nULON]?[UOM]+[LOM]*"  # a word in capitals
    "|N"  # a digit
    "|b?[^bnsULON]+[n/]*"  # punctuation with the line breaks behind it
    "|[bns]*n+"  # white space up to the last line break
    "|[bns]+(?![^bns])"  # white space, leaving one for the word that follows
    "|[bns]+"
)


@functools.lru_cache(maxsize=4096)
def _class(character: str) -> str:
    if character == " ":
        return "b"
    if character in "\r\n":
        return "n"
    if character in _SPACES:
        return "s"
    if character == "/":
        return "/"
    return _GENERAL.get(unicodedata.category(character), "P")


def pieces(text: str) -> list[str]:
    """The pieces of `text`; joined they are the text again."""
    classes = "".join(map(_class, text))
    return [text[match.start() : match.end()] for match in _PIECE.finditer(classes)]
