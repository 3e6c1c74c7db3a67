"""From words to phones: dictionary, heteronyms, word endings, compounds, and letters to sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgettsd.frontends.english.letters import LetterToSound, one_stress
from edgettsd.frontends.english.lexicon import MAX_WORD, Lexicon
from edgettsd.frontends.english.phones import FUNCTION_WORDS, PAUSE, unstressed

MARKS = ",;:.!?"

_LETTERS = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyz",
        (
            "EY1,B IY1,S IY1,D IY1,IY1,EH1 F,JH IY1,EY1 CH,AY1,JH EY1,K EY1,EH1 L,EH1 M,EH1 N,OW1,P IY1,K Y "
            "UW1,"
            "AA1 R,EH1 S,T IY1,Y UW1,V IY1,D AH1 B AH0 L Y UW0,EH1 K S,W AY1,Z IY1"
        ).split(","),
        strict=True,
    )
)

# Words that the dictionary lacks or says in a way that does not fit a device.
_OWN = {
    "i": "AY1", "miz": "M IH1 Z", "linnux": "L IH1 N AH0 K S", "gooey": "G UW1 IY0", "yammel": "Y "
    "AE1 M AH0 L",
    "kwen": "K W EH1 N", "ksi": "K S AY1", "fie": "F AY1", "fi": "F AY1", "kohm": "K IH1 L OW0 M",
    "kilohm": "K IH1 L OW2 M", "hectopascal": "HH EH1 K T OW0 P AE0 S K AE2 L", "millibar": "M IH1 "
    "L AH0 B AA2 R",
    "kibibyte": "K IH1 B IY0 B AY2 T", "mebibyte": "M EH1 B IY0 B AY2 T", "gibibyte": "G IH1 B IY0 B AY2 T",
    "lux": "L AH1 K S", "vees": "V IY1 Z", "cees": "S IY1 Z", "dees": "D IY1 Z",
    "hashtag": "HH AE1 SH T AE2 G", "underscore": "AH2 N D ER0 S K AO1 R", "wi": "W AY1", "org": "AO1 R G",
    "sunday": "S AH1 N D EY2", "app": "AE1 P", "apps": "AE1 P S", "online": "AO1 N L AY2 N",
    "email": "IY1 M EY2 L", "bluetooth": "B L UW1 T UW2 TH", "wifi": "W AY1 F AY2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Heteronym:
    """A word with two sayings: `second` where `rule` finds its context, else `first`."""

    first: str
    second: str
    rule: str


# Rules: "verb" (after to, will, you ..., or a command before an article), "perfect" (after have, was ...),
# "adjective" (right before a noun of the list below).
_HETERONYMS = {
    "read": _Heteronym("R IY1 D", "R EH1 D", "perfect"),
    "live": _Heteronym("L IH1 V", "L AY1 V", "adjective"),
    "close": _Heteronym("K L OW1 S", "K L OW1 Z", "verb"),
    "use": _Heteronym("Y UW1 S", "Y UW1 Z", "verb"),
    "record": _Heteronym("R EH1 K ER0 D", "R IH0 K AO1 R D", "verb"),
    "present": _Heteronym("P R EH1 Z AH0 N T", "P R IY0 Z EH1 N T", "verb"),
    "object": _Heteronym("AA1 B JH EH0 K T", "AH0 B JH EH1 K T", "verb"),
    "project": _Heteronym("P R AA1 JH EH0 K T", "P R AH0 JH EH1 K T", "verb"),
    "permit": _Heteronym("P ER1 M IH2 T", "P ER0 M IH1 T", "verb"),
    "increase": _Heteronym("IH1 N K R IY2 S", "IH0 N K R IY1 S", "verb"),
    "decrease": _Heteronym("D IY1 K R IY2 S", "D IH0 K R IY1 S", "verb"),
    "conflict": _Heteronym("K AA1 N F L IH0 K T", "K AH0 N F L IH1 K T", "verb"),
    "contract": _Heteronym("K AA1 N T R AE2 K T", "K AH0 N T R AE1 K T", "verb"),
    "refuse": _Heteronym("R EH1 F Y UW2 Z", "R AH0 F Y UW1 Z", "verb"),
    "separate": _Heteronym("S EH1 P ER0 IH0 T", "S EH1 P ER0 EY2 T", "verb"),
    "estimate": _Heteronym("EH1 S T AH0 M AH0 T", "EH1 S T AH0 M EY2 T", "verb"),
    "excuse": _Heteronym("IH0 K S K Y UW1 S", "IH0 K S K Y UW1 Z", "verb"),
    "house": _Heteronym("HH AW1 S", "HH AW1 Z", "verb"),
    "lead": _Heteronym("L IY1 D", "L EH1 D", "lead"),
    "wind": _Heteronym("W IH1 N D", "W AY1 N D", "verb"),
    "tear": _Heteronym("T EH1 R", "T IH1 R", "noun"),
    "minute": _Heteronym("M IH1 N AH0 T", "M AY0 N UW1 T", "never"),
    "content": _Heteronym("K AA1 N T EH0 N T", "K AH0 N T EH1 N T", "perfect"),
}
_VERB_BEFORE = frozenset(
    "to will would can could should shall must may might please don't not cannot can't won't let's "
    "you i we they "
    "didn't doesn't never and".split()
)
_OBJECT_AFTER = frozenset(
    "the a an your my his her its our their this that these those all it me us them any".split()
)
_PERFECT_BEFORE = frozenset(
    "have has had having was were been be being is are i've we've you've they've".split()
)
_LIVE_BEFORE = frozenset(
    "stream streams streaming music tv television show shows concert broadcast broadcasts video "
    "audio feed event "
    "events wire wires coverage performance recording view data update updates".split()
)

# Endings that are taken off unknown words, and what the end says; the stem may need its e or y back.
_VOICELESS = frozenset("P T K F TH".split())
_SIBILANT = frozenset("S Z SH ZH CH JH".split())
_SUFFIXES = {
    "ly": "L IY0", "ness": "N AH0 S", "less": "L AH0 S", "ful": "F AH0 L", "ment": "M AH0 N T", "er": "ER0",
    "ers": "ER0 Z", "est": "AH0 S T", "ing": "IH0 NG", "ings": "IH0 NG Z", "able": "AH0 B AH0 L",
    "ish": "IH0 SH",
    "like": "L AY2 K", "ship": "SH IH2 P", "wise": "W AY2 Z", "y": "IY0",
}  # fmt: skip
_PREFIXES = {
    "un": "AH2 N", "re": "R IY2", "pre": "P R IY2", "non": "N AA2 N", "over": "OW2 V ER0",
    "under": "AH2 N D ER0",
    "out": "AW2 T", "mis": "M IH2 S", "anti": "AE2 N T IY0", "multi": "M AH2 L T IY0",
    "micro": "M AY2 K R OW0",
    "super": "S UW2 P ER0", "inter": "IH2 N T ER0", "auto": "AO2 T OW0", "sub": "S AH2 B", "de": "D IY2",
}  # fmt: skip
_CONTRACTIONS = {"'d": "D", "'ll": "AH0 L", "'ve": "AH0 V", "'re": "ER0", "'m": "M", "n't": "AH0 N T"}


class Pronouncer:
    """Words to phones, with the words around them for the few that depend on those."""

    def __init__(self, lexicon: Lexicon, letters: LetterToSound) -> None:
        self._lexicon, self._letters = lexicon, letters

    def known(self, word: str) -> bool:
        """Whether the dictionary has the lower-case word."""
        return word in self._lexicon or word in _OWN

    def _listed(self, word: str) -> list[str] | None:
        """Phones of a word of the dictionary, None when it is not there."""
        found = self._lexicon.phones(word)
        return self._letters.phones(word) if found == [PAUSE] else found

    def sentence(self, items: Sequence[str]) -> list[list[str]]:
        """Phones of every item of `reader.read`; a mark has none. A word alone is said in full."""
        said = [item for item in items if item not in MARKS]
        if len(said) == 1 and said[0] not in _HETERONYMS:
            word = said[0] + "." if said[0] in _LETTERS else said[0]
            return [[] if item in MARKS else self.word(word) for item in items]
        return [
            [] if item in MARKS else self._in_context(item, items, index) for index, item in enumerate(items)
        ]

    def word(self, word: str) -> list[str]:
        """Phones of a word by itself: lower-case, or a letter with a full stop ("b.", "b.'s")."""
        if word[1:2] == "." and word[0] in _LETTERS:
            phones = _LETTERS[word[0]].split()
            return phones + _plural(phones) if word.endswith("s") and len(word) > 2 else phones
        if word in _OWN:
            return _OWN[word].split()
        found = self._listed(word)
        if found is None and len(word) <= MAX_WORD:
            found = self._derived(word)
        return found or self._letters.phones(word)

    def _in_context(self, word: str, items: Sequence[str], index: int) -> list[str]:
        heteronym = _HETERONYMS.get(word)
        if heteronym is None:
            phones = self.word(word)
            return unstressed(phones) if word in FUNCTION_WORDS else phones
        before = items[index - 1] if index else "."
        after = items[index + 1] if index + 1 < len(items) else "."
        matched = {
            "verb": before in _VERB_BEFORE or (before in MARKS and after in _OBJECT_AFTER),
            "perfect": before in _PERFECT_BEFORE,
            "adjective": after in _LIVE_BEFORE or before in ("go", "going", "went"),
            "lead": after in ("acid", "pipe", "pipes", "paint", "battery", "poisoning"),
            "noun": before in ("a", "single") or after in ("gas", "drop", "drops"),
        }.get(heteronym.rule, False)
        return (heteronym.second if matched else heteronym.first).split()

    def _derived(self, word: str) -> list[str] | None:
        """Phones of an unknown word that is made of known ones."""
        for ending, phones in _CONTRACTIONS.items():
            if word.endswith(ending) and (stem := self._stem(word[: -len(ending)])):
                return stem + phones.split()
        if word.endswith(("'s", "'")) and (stem := self._stem(word.rstrip("s").rstrip("'"))):
            return stem + (_plural(stem) if word.endswith("s") else [])
        return self._inflected(word) or self._affixed(word) or self._compound(word)

    def _stem(self, stem: str) -> list[str] | None:
        """Phones of a stem, by letters when it is unknown too; None for an empty one."""
        return self.word(stem) if stem.isalpha() else None

    def _known_stem(self, stem: str) -> list[str] | None:
        """Phones of a known stem as it is, with an e, with y for i, or without its doubled consonant."""
        forms = [stem, stem + "e"]
        if stem.endswith("i"):
            forms.append(stem[:-1] + "y")
        if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiou":
            forms.insert(0, stem[:-1])
        for form in forms:
            if len(form) >= 3 and (found := self._listed(form)):
                return found
        return None

    def _inflected(self, word: str) -> list[str] | None:
        """Plurals and past tenses."""
        if word.endswith("ies") and (stem := self._known_stem(word[:-3] + "y")):
            return stem + ["Z"]
        if word.endswith("s") and not word.endswith("ss"):
            stem = self._known_exact(word[:-1]) or (
                self._known_exact(word[:-2]) if word.endswith("es") else None
            )
            if stem:
                return stem + _plural(stem)
        if word.endswith("ed") and (stem := self._known_stem(word[:-2])):
            last = stem[-1]
            if last in ("T", "D"):
                return [*stem, "AH0", "D"]
            return [*stem, "T" if last in _VOICELESS or last in ("S", "SH", "CH") else "D"]
        return None

    def _known_exact(self, stem: str) -> list[str] | None:
        return self._listed(stem) if len(stem) >= 3 else None

    def _affixed(self, word: str) -> list[str] | None:
        for ending, phones in _SUFFIXES.items():
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                stem = self._known_stem(word[: -len(ending)])
                if stem:
                    return stem + phones.split()
        for beginning, phones in _PREFIXES.items():
            if word.startswith(beginning) and len(word) - len(beginning) >= 4:
                stem = self._listed(word[len(beginning) :]) or self._inflected(word[len(beginning) :])
                if stem:
                    return phones.split() + stem
        return None

    def _compound(self, word: str) -> list[str] | None:
        """Two known words of four letters or more, the first one stressed."""
        for cut in range(len(word) - 4, 3, -1):
            first = self._listed(word[:cut])
            second = self._listed(word[cut:]) if first else None
            if first and second:
                return one_stress(first + second)
        return None


def _plural(phones: Sequence[str]) -> list[str]:
    """What an s adds to a word that ends like `phones`."""
    if phones[-1] in _SIBILANT:
        return ["AH0", "Z"]
    return ["S"] if phones[-1] in _VOICELESS else ["Z"]
