"""Authors the streaming codec decoder as a TFLite file, directly from the checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgettsd import limits

from . import check
from .config import DecoderConfig, parse_config
from .flatbuffer import Model
from .graph import DecoderGraph
from .ops import PRECISIONS
from .weights import Weights

__all__ = ["DecoderConfig", "build_decoder", "parse_config"]

# Rounded weights are amplified by the transforms of the second: it is for f32.
CONVOLUTIONS = ("direct", "toom")
# Toom-Cook has 10 dB more rounding noise than the direct form; weights that amplify it get the direct one.
EXACT_DB = 101.0


def build_decoder(
    config: Mapping[str, Any],
    tensors: Callable[[str], NDArray[np.float32]],
    out_path: Path,
    precision: str = "f32",
    chunks: Sequence[int] = (1, 4, 8),
    conv: str | None = None,
) -> dict[str, Any]:
    """Write the decoder of a 12 Hz speech tokenizer to ``out_path`` and describe it.

    config: the speech tokenizer's ``decoder_config``. tensors: returns the f32 tensor of a name in
    the official decoder's state dict (without its ``decoder.`` prefix). precision: f32, f16 (weights
    rounded to float16), int8 (weights int8 a channel, activations quantised at run time) or w8 (weights
    int8 a channel in the file only: a small file, but the memory and the time of f32).
    chunks: frames a call, one signature ``decode_N`` each; all share one copy of the weights.
    conv: how the residual units' 7-tap convolutions are computed: direct, or toom (Toom-Cook, f32
    only: a third less time). By default direct for all but f32; for f32 both are made and run, and
    toom is taken when it is within 101 dB of direct.

    A signature takes ``codes`` int32 [1, N, quantizers] (each below codebook_size) and ``state_00``..
    f32, and gives ``pcm`` f32 [1, N * samples_per_frame] in [-1, 1] and the states' successors
    under the same names and shapes. States of zeros start a stream; streams may be of any length.

    Returns the manifest's decoder entry: precision, chunks and the number of states. Raises
    ValueError that names a bad argument, config field or tensor; OSError if the file cannot be
    written. What ``tensors`` raises passes through.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}; one of {', '.join(PRECISIONS)} is needed")
    sizes = list(chunks)
    if not sizes or any(isinstance(n, bool) or not isinstance(n, int) for n in sizes):
        raise ValueError(f"chunks is {chunks!r}; a list of frame counts is needed")
    if sizes != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] > limits.MAX_CHUNK:
        raise ValueError(
            f"chunks is {chunks!r}; increasing frame counts of 1 to {limits.MAX_CHUNK} are needed"
        )
    if len(sizes) > limits.MAX_SIZES:
        raise ValueError(f"chunks is {chunks!r}; at most {limits.MAX_SIZES} frame counts are allowed")
    if conv is None:
        conv = "direct" if precision != "f32" else _exact_form(config, tensors, Path(out_path), sizes)
    allowed = CONVOLUTIONS if precision == "f32" else CONVOLUTIONS[:1]
    if conv not in allowed:
        raise ValueError(f"conv is {conv!r}; {' or '.join(allowed)} is needed with precision {precision}")
    parsed = parse_config(config)
    weights = Weights(parsed, tensors)
    model = Model(f"Qwen3-TTS 12 Hz codec decoder, streaming, {precision}")
    states = 0
    for frames in sizes:
        graph = DecoderGraph(model.graph(f"decode_{frames}"), parsed, weights, precision, conv)
        states = graph.build(frames)
    model.save(Path(out_path))
    return {"precision": precision, "chunks": sizes, "states": states}


def _exact_form(
    config: Mapping[str, Any],
    tensors: Callable[[str], NDArray[np.float32]],
    out_path: Path,
    sizes: list[int],
) -> str:
    """The quicker form of the convolutions when these weights keep it exact, else the direct one."""
    parsed = parse_config(config)
    codes = check.random_codes(parsed.codebook_size, parsed.quantizers)
    pcm = {}
    for conv in CONVOLUTIONS:
        trial = out_path.with_name(f"{out_path.name}.{conv}")
        try:
            build_decoder(config, tensors, trial, "f32", (check.CHUNK,), conv)
            pcm[conv] = check.decode(trial, codes)
        finally:
            trial.unlink(missing_ok=True)
    return "toom" if check.snr_db(pcm["direct"], pcm["toom"]) >= EXACT_DB else "direct"
