"""The parts of a bundle as tools/parity opens them, and the limits that its figures are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from edgettsd.families.qwen3_tts import PromptBuilder, Sampling
from edgettsd.families.qwen3_tts.frontends import FRAMES
from edgettsd.families.qwen3_tts.manifest import QwenManifest
from edgettsd.families.qwen3_tts.tokenizer import Tokenizer
from edgettsd.models.store import Bundle, open_bundle
from edgettsd_tools.families.qwen3_tts.frontend import GivenIds

Floats = npt.NDArray[np.float32]

PROMPT_LIMIT = 1e-5
# Errors of rows in half precision, over what rounding the rows that are added up explains.
HALF_LIMIT = 1.01
# Positions of the talker: those of the daemon, since libllama's way to attend depends on them.
CONTEXT = 512
DECODER_DB = {"f32": 100.0, "f16": 40.0, "int8": 15.0, "w8": 24.0}
# How much farther than its own rounding errors an f32 decoder may be from the official one.
ROUNDING_DB = 6.0
# Largest error of a hidden state, relative to the largest hidden value, under teacher forcing.
HIDDEN_LIMIT = {"f32": 2e-3, "f16": 1e-2, "q8_0": 0.1, "q4_K": 0.6, "q4_0": 0.6}
# Least share of steps whose most likely code is the official one; random weights are the hardest case.
TOP1_FLOOR = {"f32": 1.0, "f16": 0.98, "q8_0": 0.92, "q4_K": 0.47, "q4_0": 0.47}
# A quantised voice that follows its text and hardly its own history: the sound by its codes, and the share of
# equal codes, in the closed loop. Codes of the later groups are choices between near entries, and follow the
# earlier ones. Other models go a way of their own after their first other code.
CLOSED_DB = 15.0
CLOSED_FLOOR = 0.5


@dataclass(frozen=True, slots=True)
class Result:
    """One comparison: what, on which case, the figure, the limit it is held to, and whether it holds."""

    what: str
    case: str
    figure: str
    limit: str
    ok: bool


class Parts:
    """The kernels and tables of one bundle, opened as the engine opens them."""

    def __init__(self, bundle: Bundle, threads: int = 1) -> None:
        from cython_kernels.litert import LiteRtDecoder
        from cython_kernels.llama import LlamaTalker
        from cython_kernels.predictor import GgmlPredictor
        from edgettsd.families.qwen3_tts.parts import load_tokenizer

        self.bundle, self.manifest = bundle, cast(QwenManifest, bundle.manifest)
        self.file = bundle.open_embeddings()
        self.arrays: dict[str, npt.NDArray[Any]] = dict(self.file)
        self.tables = [self.arrays[f"codec.{group}"] for group in range(self.manifest.code_groups)]
        self.tokenizer = load_tokenizer(bundle)
        self.sampling = Sampling.from_manifest(self.manifest.raw)
        self.talker = LlamaTalker(bundle.files["talker.gguf"], max_context=CONTEXT, threads=threads)
        self.predictor = GgmlPredictor(bundle.files["predictor.gguf"], threads=threads)
        self.decoder = LiteRtDecoder(
            bundle.files["decoder.tflite"],
            groups=self.manifest.code_groups,
            samples_per_frame=self.manifest.samples_per_frame,
            chunks=self.manifest.decoder.chunks,
            threads=threads,
            entries=self.manifest.predictor.vocab,
        )

    @property
    def exact(self) -> bool:
        """Whether the codes must equal the official ones."""
        manifest = self.manifest
        return {manifest.talker.precision, manifest.predictor.precision, manifest.embeddings_dtype} == {"f32"}

    @property
    def timed(self) -> bool:
        """Whether its front end gives every frame a token."""
        return self.manifest.text_frontend == FRAMES

    def builder(
        self, speaker: npt.NDArray[Any] | None = None, ids: npt.NDArray[Any] | None = None
    ) -> PromptBuilder:
        """Prompts of this bundle, with the voice "x-vector" where a reference embedding is given.

        `ids` stand for every text of a bundle with a front end of its own: what the official code was given.
        """
        tokenizer: Tokenizer = self.tokenizer
        if ids is not None and self.timed:
            tokenizer = GivenIds(ids.tolist())
        manifest, arrays = dict(self.manifest.raw), self.arrays
        if speaker is not None:
            entry: dict[str, Any] = {"row": "speaker.x-vector", "dialect": None, "languages": []}
            manifest["voices"] = {**manifest["voices"], "x-vector": entry}
            arrays = {**arrays, "speaker.x-vector": speaker}
        return PromptBuilder(manifest, arrays, tokenizer)

    def frame_row(self, codes: Sequence[int], step: int, trailing: Floats, pad_row: Floats) -> Floats:
        """The talker's input row [H] after frame `step` with its `codes` [groups]."""
        rows = (table[code].astype(np.float32) for table, code in zip(self.tables, codes, strict=True))
        text = trailing[step] if step < len(trailing) else pad_row
        total: Floats = np.sum(np.stack(list(rows)), axis=0) + text
        return total


def open_parts(folder: Path, threads: int = 1) -> Parts:
    """Check and open a bundle; raises ModelInvalidError."""
    return Parts(open_bundle(folder), threads)


def half_step(rows: Floats, summed: bool) -> Floats:
    """By how much rounding to f16 changes each value; `summed`: `rows` are sums of two rounded rows."""
    size = np.full_like(rows, 2.0 * np.abs(rows).max()) if summed else np.abs(rows)
    step: Floats = size * np.float32(2.0**-11) + np.float32(2.0**-25)
    return step


def snr_db(reference: npt.NDArray[Any], other: npt.NDArray[Any]) -> float:
    """Signal-to-noise ratio in dB of `other` against `reference`."""
    noise = float(np.sum((reference.astype(np.float64) - other) ** 2))
    signal = float(np.sum(reference.astype(np.float64) ** 2))
    return float("inf") if noise == 0.0 else 10.0 * float(np.log10(signal / noise))


def decoder_limit(precision: str, official_db: float | None) -> float:
    """Least signal-to-noise ratio in dB of a decoder.

    `official_db`: how far rounding to float32 leads the official decoder itself from its float64, where the
    references tell: a decoder that takes large numbers away from each other cannot be nearer to it.
    """
    limit = DECODER_DB[precision]
    return limit if official_db is None else min(limit, official_db - ROUNDING_DB)
