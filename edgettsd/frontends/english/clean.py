"""Any Unicode text in ASCII letters and the few signs that the English reader knows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from edgettsd.frontends.english import tables

# Characters that are replaced before NFKC, because NFKC would make them unreadable.
_BEFORE = str.maketrans(
    {
        "½": " 1/2", "¼": " 1/4", "¾": " 3/4", "⅓": " 1/3", "⅔": " 2/3",
        "⅛": " 1/8", "⅜": " 3/8", "⅝": " 5/8", "⅞": " 7/8", "…": ",", "℃": "°C", "℉": "°F",
        "№": "#", "º": "°", "♯": "#", "♭": " flat ", "\u00ad": "", "⋅": "*", "∙": "*",
        "’": "'", "‘": "'", "ʼ": "'", "´": "'", "`": "'", "′": "'", "“": '"', "”": '"', "„": '"', "«": '"',
        "»": '"', "−": "-", "‐": "-", "‑": "-", "‒": "–", "―": "—", "⁄": "/", "∕": "/", "™": " ", "©": " ",
        "®": " ", "\u2028": "\n", "\u2029": "\n",
    }
)  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_POWER = re.compile(f"[{''.join(_RAISED)}]+")
_KEPT = frozenset(tables.SYMBOLS) | frozenset(tables.MARKS) | frozenset("₹₩₽¢Ω")


def clean(text: str) -> str:
    """`text` in ASCII letters and the few signs that are read.

    Compatibility forms are resolved, accents dropped, Greek and Cyrillic spelled in Latin letters. Emoji,
    control characters and letters of other scripts become spaces or nothing. Never raises.
    """
    if text.isascii():
        return text
    # Half a surrogate pair has no normal form.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = _POWER.sub(lambda match: "^" + "".join(map(_RAISED.__getitem__, match[0])), text)
    text = unicodedata.normalize("NFKC", text.translate(_BEFORE)).replace("\u03bc", "µ").replace("Ω", "Ω")
    kept = {c: c if c.isascii() or c in _KEPT else _replacement(c) for c in set(text)}
    out: list[str] = []
    for index, c in enumerate(text):
        low = "μ" if c == "µ" else c.lower()
        if low not in tables.GREEK:
            out.append(kept[c])
        elif c not in _KEPT and not _touches(text, index, str.isalpha):
            out.append(f" {tables.GREEK[low]} ")
        else:
            # The letter is read as a sign (µm) unless its neighbours make it a letter of a Greek word.
            out.append(tables.LETTERS[low] if _touches(text, index, _is_greek) else kept[c])
    return "".join(out)


def _touches(text: str, index: int, test: Callable[[str], bool]) -> bool:
    """Whether the character before or behind `index` passes `test`."""
    return test(text[max(0, index - 1) : index]) or test(text[index + 1 : index + 2])


def _is_greek(c: str) -> bool:
    return c != "" and "Ͱ" <= c <= "Ͽ"


def _replacement(c: str) -> str:
    """ASCII for one character: its base letter, its digit, a spelling, a space, or nothing."""
    category = unicodedata.category(c)
    if category[0] == "M" or category == "Cf":
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(c))
    if category[0] == "L":
        spelling = tables.LETTERS.get(c.lower())
        if spelling is None:
            base = unicodedata.normalize("NFKD", c)
            spelling = "".join(
                b if b.isascii() else tables.LETTERS.get(b.lower(), "")
                for b in base
                if unicodedata.category(b)[0] == "L"
            )
            # An unreadable letter becomes a space, because it still parts the words around it.
            return spelling or " "
        return spelling.upper() if c.isupper() and len(spelling) == 1 else spelling
    return " "
