"""The phone set of the built-in voice and its spelling for the Piper teacher."""

from __future__ import annotations

from edgettsd.frontends.english.phones import CONSONANTS, FUNCTION_WORDS, PAUSE, PHONES, VOWELS, unstressed

__all__ = ["CONSONANTS", "FUNCTION_WORDS", "PAUSE", "PHONES", "VOWELS", "teacher_symbols", "unstressed"]

_IPA = {
    "AA": "ɑː", "AE": "æ", "AH": "ʌ", "AO": "ɔː", "AW": "aʊ", "AY": "aɪ", "EH": "ɛ", "ER": "ɜː", "EY": "eɪ",
    "IH": "ɪ", "IY": "iː", "OW": "oʊ", "OY": "ɔɪ", "UH": "ʊ", "UW": "uː",
    "B": "b", "CH": "tʃ", "D": "d", "DH": "ð", "F": "f", "G": "ɡ", "HH": "h", "JH": "dʒ", "K": "k", "L": "l",
    "M": "m", "N": "n", "NG": "ŋ", "P": "p", "R": "ɹ", "S": "s", "SH": "ʃ", "T": "t", "TH": "θ", "V": "v",
    "W": "w", "Y": "j", "Z": "z", "ZH": "ʒ",
}  # fmt: skip
_UNSTRESSED = {"AH": "ə", "ER": "ɚ", "IY": "i"}
_STRESS = {"0": "", "1": "ˈ", "2": "ˌ"}


def teacher_symbols(phone: str) -> str:
    """Piper's symbols for one phone, the stress mark first, as espeak-ng writes American English."""
    if phone[-1] not in _STRESS:
        return _IPA[phone]
    vowel, stress = phone[:-1], phone[-1]
    if stress == "0" and vowel in _UNSTRESSED:
        return _UNSTRESSED[vowel]
    return _STRESS[stress] + _IPA[vowel]
