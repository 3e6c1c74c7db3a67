"""The text front ends that a bundle of this family may name: each gives the ids of its prompts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from edgettsd.errors import ModelInvalidError
from edgettsd.models.gguf import read_gguf_header

from .tokenizer import TextTokenizer, Tokenizer

if TYPE_CHECKING:
    from edgettsd.frontends.english.frontend import FrameTokenizer

    from .manifest import QwenManifest

BPE, FRAMES = "qwen2-bpe", "en-frames"


class FrontEnd(Protocol):
    """What is particular of one front end.

    `files` are those it adds to a bundle, `layouts` the prompt layouts it can be used with; `timed`: it gives
    every frame its token, so that lengths are known and can be planned.
    """

    files: tuple[str, ...]
    layouts: tuple[str, ...]
    timed: bool

    def vocab(self) -> int | None:
        """The number of its ids where the bundle cannot choose it."""
        ...

    def special_ids(self) -> Mapping[str, int]:
        """Control ids by name that the bundle cannot choose."""
        ...

    def check(self, files: Mapping[str, Path], manifest: QwenManifest) -> None:
        """Check its files; raises ModelInvalidError."""
        ...

    def load(self, files: Mapping[str, Path], manifest: QwenManifest) -> Tokenizer:
        """What turns text to ids; raises ModelInvalidError."""
        ...


class BytePairs:
    """The tokenizer of the official checkpoints."""

    files: tuple[str, ...] = ("tokenizer.gguf",)
    layouts: tuple[str, ...] = ("streaming", "full")
    timed = False

    def vocab(self) -> int | None:
        """The bundle's choice."""
        return None

    def special_ids(self) -> Mapping[str, int]:
        """The bundle's choice."""
        return {}

    def check(self, files: Mapping[str, Path], manifest: QwenManifest) -> None:
        """The header of the vocabulary."""
        file = files["tokenizer.gguf"]
        header = read_gguf_header(file)
        header.expect_value("tokenizer.ggml.model", "gpt2")
        header.expect_value("tokenizer.ggml.pre", "qwen2")
        header.expect_tensors({})
        for key, length in (
            ("tokenizer.ggml.tokens", manifest.text_vocab),
            ("tokenizer.ggml.token_type", manifest.text_vocab),
            ("tokenizer.ggml.merges", None),
        ):
            found = header.arrays.get(key)
            if found is None:
                raise ModelInvalidError(f"{file}: key {key} is missing")
            if length is not None and found != length:
                raise ModelInvalidError(f"{file}: key {key} has {found} entries, {length} are needed")

    def load(self, files: Mapping[str, Path], manifest: QwenManifest) -> Tokenizer:
        """The vocabulary."""
        return TextTokenizer.load(files["tokenizer.gguf"], manifest.tokens)


class EnglishFrames:
    """The reader, lexicon and lengths of the built-in voice; imported only for bundles that have it."""

    files: tuple[str, ...] = ("lexicon.bin", "letters.bin", "durations.bin")
    # Only the streaming layout, because each of these tokens belongs to one frame.
    layouts: tuple[str, ...] = ("streaming",)
    timed = True

    def vocab(self) -> int | None:
        """Pairs of phones, and control ids."""
        from edgettsd.frontends.english.frames import VOCAB

        return VOCAB

    def special_ids(self) -> Mapping[str, int]:
        """All of them."""
        from edgettsd.frontends.english.frames import SPECIAL_IDS

        return SPECIAL_IDS

    def check(self, files: Mapping[str, Path], manifest: QwenManifest) -> None:
        """The data files, by loading them."""
        self.load(files, manifest)

    def load(self, files: Mapping[str, Path], manifest: QwenManifest) -> FrameTokenizer:
        """The front end over its data files."""
        from edgettsd.frontends.english.frontend import EnglishFrontEnd, FrameTokenizer

        return FrameTokenizer(EnglishFrontEnd.load(files))


FRONTENDS: Mapping[str, FrontEnd] = MappingProxyType({BPE: BytePairs(), FRAMES: EnglishFrames()})
"""By the name that the manifest gives them."""
