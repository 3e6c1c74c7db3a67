"""Tags and entities of HTML, SSML and XML: the tags go, their text stays.

Linear in the text: a tag is matched inside one pair of angle brackets, and an end of a comment or script that
was not found once is not looked for again.
"""

from __future__ import annotations

import html
import re

# A name with "=" and a value, or one of the words that HTML allows without a value.
_ATTRIBUTE = (
    r"\s++(?:[A-Za-z_:][\w:.-]*+\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>=`]++)"
    r"|(?:hidden|disabled|checked|selected|controls|required|readonly|autoplay|loop|muted|async|defer|open"
    r"|multiple"
    r"|reversed|novalidate|allowfullscreen)(?=[\s/>]))"
)
_TAG = re.compile(
    rf"<(?P<close>/?)(?P<name>[A-Za-z][\w:.-]*+)(?P<with>(?:{_ATTRIBUTE})*+)\s*+(?P<empty>/?)>", re.ASCII
)
_CLOSING = re.compile(r"</([A-Za-z][\w:.-]*+)\s*+>", re.ASCII)
_INSTRUCTION = re.compile(r"<(?:\?|!(?:DOCTYPE|doctype|ELEMENT|ENTITY)\b)[^<>]*+>")
_LINK = re.compile(r"<(?:mailto:)?([A-Za-z0-9._%+-]++@[A-Za-z0-9.-]++|https?://[^\s<>]++)>")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ENDS = {
    name: re.compile(rf"</{name}\s*+>", re.IGNORECASE | re.ASCII) for name in ("script", "style", "template")
}
_COMMENT_END = re.compile("-->")
_DATA_END = re.compile("]]>")
_EXPONENT = re.compile(r"[-+−]?\d")

# Tags that may stand inside a word: nothing is put in their place.
_INLINE = frozenset(
    "b i u em strong small big span font sub sup strike del ins kbd samp tt abbr acronym cite dfn q wbr nobr"
    " bdi bdo".split()
)
# Tags whose contents are parted by a short or a long pause.
_SHORT = frozenset(
    "br li dt dd tr td th thead tbody tfoot ul ol dl caption figcaption img iframe select input hr break s"
    " voice audio sub-title lexicon mark nav legend textarea".split()
)
_LONG = frozenset(
    "p h1 h2 h3 h4 h5 h6 div table html body head pre blockquote section article header footer "
    "aside main figure form fieldset title paragraph sentence speak".split()
)
# Names that are tags also without an end tag; other names could be placeholders ("cp <title> <target>").
_ALWAYS = _INLINE | frozenset(
    "br p hr h1 h2 h3 h4 h5 h6 ul ol li dl dt dd div table thead tbody tfoot tr td th html pre "
    "blockquote speak prosody say-as emphasis phoneme break s a".split()
) - {"cite", "dfn", "q", "abbr", "acronym"}  # fmt: skip


def plain(text: str) -> str:
    """`text` without tags, comments and scripts, and with entities as the characters they stand for.

    Anything else in angle brackets stays: "a < b", "<3". What a block parts is parted by a mark; a name that
    is no tag ("cp <file>") loses its brackets. Never raises.
    """
    if "<" in text:
        text = _Tags(text).dropped()
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    return text


class _Tags:
    """One text whose tags are dropped."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closed = {name.lower() for name in _CLOSING.findall(text)}
        self._missing: set[re.Pattern[str]] = set()

    def dropped(self) -> str:
        """The text without them."""
        out: list[str] = []
        at = 0
        while (begin := self._text.find("<", at)) >= 0:
            out.append(self._text[at:begin])
            at, said = self._read(begin)
            out.append(said)
        out.append(self._text[at:])
        return "".join(out)

    def _read(self, begin: int) -> tuple[int, str]:
        """Where what begins with "<" at `begin` ends, and what stands for it."""
        text = self._text
        if text.startswith("<!--", begin):
            end = self._find(_COMMENT_END, begin + 4)
            return (end.end(), " ") if end else (begin + 4, " ")
        if text.startswith("<![CDATA[", begin):
            end = self._find(_DATA_END, begin + 9)
            # Ampersands are escaped, because one in character data begins no entity.
            return (
                (end.end(), text[begin + 9 : end.start()].replace("&", "&amp;")) if end else (begin + 9, " ")
            )
        if match := _INSTRUCTION.match(text, begin):
            return match.end(), " "
        if match := _LINK.match(text, begin):
            return match.end(), match[1]
        match = _TAG.match(text, begin)
        if match is None:
            return begin + 1, "<"
        name = match["name"].lower()
        bare = not (match["close"] or match["empty"] or match["with"])
        if bare and name not in self._closed:
            inside = text[begin - 1 : begin].isalnum() if begin else False
            if inside and (len(name) == 1 or name not in _ALWAYS) and name not in ("p", "s"):
                # Behind a letter or digit this is a comparison or a type: a<b>c, List<String>.
                return begin + 1, "<"
            if name not in _ALWAYS or name == "a":
                return (begin + 1, "<") if "." in name else (match.end(), f" {match['name']} ")
        if name in _ENDS and not match["close"] and not match["empty"]:
            hidden = self._find(_ENDS[name], match.end())
            return (hidden.end() if hidden else len(text)), " "
        return match.end(), self._instead(match, name)

    def _find(self, pattern: re.Pattern[str], begin: int) -> re.Match[str] | None:
        """Where `pattern` matches next; nothing is searched twice in vain."""
        if pattern in self._missing:
            return None
        match = pattern.search(self._text, begin)
        if match is None:
            self._missing.add(pattern)
        return match

    def _instead(self, match: re.Match[str], name: str) -> str:
        """What stands for a tag: nothing, a space, a mark, or the sign of a power."""
        if name == "sup" and not match["close"]:
            return "^" if _EXPONENT.match(self._text, match.end()) else ""
        if name in _INLINE or name == "a":
            return ""
        return " ; " if name in _LONG else " , " if name in _SHORT else " "
