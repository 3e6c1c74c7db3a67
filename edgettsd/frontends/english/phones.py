"""The phone set of the built-in voice: ARPAbet with stress on the vowels, and silence."""

from __future__ import annotations

from collections.abc import Iterable

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH", "V",
    "W", "Y", "Z", "ZH",
)  # fmt: skip
# Silence between words or at a comma or stop.
PAUSE = "SP"
PHONES = (PAUSE, *CONSONANTS, *(f"{vowel}{stress}" for vowel in VOWELS for stress in "012"))
"""All phones; a phone's id is its index here. The order is part of the format of the data files."""

PHONE_IDS = {phone: index for index, phone in enumerate(PHONES)}

# Words that are said without stress inside a sentence.
FUNCTION_WORDS = frozenset(
    (
        "a an the of to in on at by for from with and or but as if than that is are was were be been am "
        "do does did has have had can could will would shall should may might must he she it we they you i "
        "him her his its our your their my me us them this these those there"
    ).split()
)


def unstressed(phones: Iterable[str]) -> list[str]:
    """The phones with every primary stress removed."""
    return [p[:-1] + "0" if p[-1] == "1" else p for p in phones]
