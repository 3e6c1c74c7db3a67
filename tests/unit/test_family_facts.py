"""What is true of one family of models only stands in that family's folders, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Names, codebooks, samples of a frame and ids of Qwen3-TTS at 12.5 frames a second.
FACTS = re.compile(
    r"qwen|\b(?:1920|2150|3072)\b|12\.5 (?:frames|Hz)|12 ?hz"
    r"|\b16\b.{0,12}(?:group|codebook)|(?:group|codebook)s?\b.{0,9}\b16\b",
    re.IGNORECASE,
)
OWN = ("edgettsd/families/", "edgettsd/voice/", "tools/edgettsd_tools/families/")
# Each file with the reason why it may speak of one family.
ALLOWED = {
    "edgettsd/families/__init__.py": "the register of families",
    "edgettsd/frontends/english/": "how the name is pronounced",
    "tools/edgettsd_tools/families/__init__.py": "the register of families",
    "tools/edgettsd_tools/voice/": "trains the built-in voice, which is of that family",
    "cython_kernels/talker/": "kernels of one transformer, whose files name it: architecture qwen3",
    "cython_kernels/llama.pyi": "says which architecture that is",
    "cython_kernels/predictor/et_predictor_weights.c": "as the talker's, architecture qwen3tts-predictor",
    "cython_kernels/predictor.pyi": "says which architecture that is",
}
SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".xml", ".build"}


def _sources() -> Iterator[tuple[str, str]]:
    for folder in ("edgettsd", "cython_kernels", "tools/edgettsd_tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def _found(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if FACTS.search(line)]


def test_only_a_familys_folders_speak_of_it() -> None:
    places = {
        name: lines
        for name, text in _sources()
        if not name.startswith((*OWN, *ALLOWED)) and (lines := _found(text))
    }
    assert places == {}


def test_nobody_is_allowed_who_does_not_need_it() -> None:
    needed = {
        allowed
        for name, text in _sources()
        if _found(text)
        for allowed in ALLOWED
        if name.startswith(allowed)
    }
    assert needed == set(ALLOWED)


@pytest.mark.parametrize(
    "line",
    [
        "groups=16",
        "int groups = 16;",
        "16 codebooks",
        "SPF = 1920",
        "eos_id=2150",
        "qwen3.block_count",
        "12Hz",
    ],
)
def test_the_search_finds(line: str) -> None:
    assert _found(line) == [line]


def test_imports_of_a_family_stay_inside() -> None:
    """Others reach a family through the register, by the word of a manifest or a checkpoint."""
    pattern = re.compile(r"(?:import|from) [\w.]*families\.(?!plan\b)\w+")
    outside = {
        name: found
        for name, text in _sources()
        if not name.startswith((*OWN, "tools/edgettsd_tools/voice/")) and (found := pattern.findall(text))
    }
    assert outside == {}
