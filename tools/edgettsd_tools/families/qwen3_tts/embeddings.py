"""Writes the embedding tables: text rows through the text projection, codec rows, speaker rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.errors import ModelInvalidError

from ...checkpoint import Floats, TensorSet
from ...safetensors_writer import Entry, write_safetensors

# Rows of the text table that are projected at once: 4096 x 2048 float32 are 32 MB.
ROWS = 4096
F16_MAX = 65504.0


def project(rows: Floats, fc1: Floats, bias1: Floats, fc2: Floats, bias2: Floats) -> Floats:
    """The text projection fc2(silu(fc1 x)): [n, text hidden] -> [n, talker hidden], in float32."""
    inner = rows @ fc1.T + bias1
    # exp(-x) overflows to infinity for very negative x, where silu is 0: that is what the division gives.
    with np.errstate(over="ignore"):
        inner /= 1.0 + np.exp(-inner)
    return np.asarray(inner @ fc2.T + bias2)


def write_embeddings(
    path: Path,
    talker: Mapping[str, Any],
    tensors: TensorSet,
    dtype: str,
    speakers: Mapping[str, Floats],
    advance: Callable[[int], None],
) -> None:
    """Write text, codec.0 to codec.15 and speaker.NAME; `dtype` is f32 or f16."""
    hidden, groups = talker["hidden_size"], talker["num_code_groups"]
    kind, vocab = dtype.upper(), talker["code_predictor_config"]["vocab_size"]
    sources = {"codec.0": "talker.model.codec_embedding.weight"}
    for group in range(1, groups):
        sources[f"codec.{group}"] = f"talker.code_predictor.model.codec_embedding.{group - 1}.weight"
    entries = [Entry("text", kind, (talker["text_vocab_size"], hidden))]
    entries += [
        Entry(name, kind, (talker["vocab_size"] if name == "codec.0" else vocab, hidden)) for name in sources
    ]
    entries += [Entry(f"speaker.{name}", kind, (hidden,)) for name in sorted(speakers)]

    def produce(entry: Entry) -> Iterator[Floats]:
        if entry.name == "text":
            blocks = _text(talker, tensors, advance)
        elif entry.name in sources:
            blocks = iter([tensors.read(sources[entry.name])])
            advance(tensors.nbytes(sources[entry.name]))
        else:
            blocks = iter([speakers[entry.name.removeprefix("speaker.")]])
        for block in blocks:
            if kind == "F16" and float(np.abs(block).max()) > F16_MAX:
                raise ModelInvalidError(f"table {entry.name} does not fit f16; use --embeddings f32")
            yield block

    write_safetensors(path, entries, produce)


def _text(talker: Mapping[str, Any], tensors: TensorSet, advance: Callable[[int], None]) -> Iterator[Floats]:
    name, prefix = "talker.model.text_embedding.weight", "talker.text_projection.linear_fc"
    weights = [tensors.read(f"{prefix}{index}.{part}") for index in (1, 2) for part in ("weight", "bias")]
    count = talker["text_vocab_size"]
    for start in range(0, count, ROWS):
        stop = min(start + ROWS, count)
        yield project(tensors.rows(name, start, stop), *weights)
        advance(tensors.nbytes(name) // count * (stop - start))
