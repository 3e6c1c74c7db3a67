"""Fit the device's duration model to the phone lengths of the teacher: a small network on log seconds."""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.frontends.english.durations import TEMPLATES, Durations, Network, features, offsets, sequence
from edgettsd_tools.voice.corpus import WORD, held_out
from edgettsd_tools.voice.lexicon import read_cmudict
from edgettsd_tools.voice.synth import pronounce
from edgettsd_tools.voice.tensors import write_tensors

Sentence = tuple[list[list[str]], list[str], list[str], np.ndarray[Any, Any]]
# Units of the two layers; 32 more of each make a phone's error 0.2 ms smaller and the file twice as large.
UNITS, INNER = 32, 32
BATCH, EPOCHS, LEAST_STEPS = 1024, 12, 1500
RATE, DECAY = 3e-3, 1e-5
# Errors of log seconds above this count linearly: a tenth of a length.
KNEE = 0.1
# Lengths of one teacher frame (11.6 ms) are as good as zero; the logarithm needs a floor.
FLOOR = 0.01
# The teacher says 178 words a minute, this voice 155: it is understood far better (docs/voice.md).
PACE = 1.15


def sentences(
    shards: Iterable[Path], words: dict[str, list[str]], held: bool | None = None
) -> Iterator[tuple[list[list[str]], list[str], list[str], np.ndarray[Any, Any]]]:
    """Words with phones, marks, spelling, and seconds [phones] of the shards' sentences.

    `held` chooses the held-out sentences (True) or the others (False). Raises ValueError when a shard's
    phones are not those of its text.
    """
    for shard in shards:
        with np.load(shard) as data:
            texts, phones = data["texts"], data["phones"]
            lengths, counts = data["own"].astype(np.float64), data["counts"]
        ends = np.cumsum(counts)
        for text, names, end, count in zip(texts.tolist(), phones.tolist(), ends, counts, strict=True):
            if held is not None and held_out(text) != held:
                continue
            said, marks = _words(pronounce(text, words))
            if sequence(said) != names.split():
                raise ValueError(f"{shard}: the phones of {text!r} are not those of the dictionary")
            yield said, marks, WORD.findall(text.lower()), lengths[end - count : end]


def _words(items: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The output of `pronounce`, which has a mark after every word, as words and marks."""
    words: list[list[str]] = [[]]
    marks: list[str] = []
    for item in items:
        if item in " ,.!?":
            marks.append(item)
            words.append([])
        else:
            words[-1].append(item)
    return words[:-1], marks


def fit(data: Iterable[Sentence], seed: int = 1) -> Network:
    """The network with the least Huber loss, by Adam. Raises ValueError when there are no sentences."""
    parts = [(features(words, marks, spelling), seconds) for words, marks, spelling, seconds in data]
    if not parts:
        raise ValueError("no sentences to fit the durations to")
    indices = np.concatenate([part[0] for part in parts]) + offsets()
    target = np.log(np.maximum(np.concatenate([part[1] for part in parts]), FLOOR)).astype(np.float32)
    rng = np.random.default_rng(seed)
    rows = sum(TEMPLATES.values())
    shapes = {"table": (rows, UNITS), "inner": (UNITS, INNER), "outer": (INNER,)}
    values = {
        name: rng.normal(0, 0.05 if name == "table" else shape[0] ** -0.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    values |= {"inner_bias": np.zeros(INNER, np.float32), "outer_bias": target.mean(keepdims=True)}
    means = {name: np.zeros_like(value) for name, value in values.items()}
    squares = {name: np.zeros_like(value) for name, value in values.items()}
    batch = min(BATCH, len(target))
    steps = max(EPOCHS * (len(target) // batch), LEAST_STEPS)
    order = rng.permutation(len(target))
    for step in range(steps):
        at = step * batch % (len(target) // batch * batch)
        if at == 0:
            order = rng.permutation(len(target))
        chosen = order[at : at + batch]
        gradients = _gradients(Network(**values), indices[chosen], target[chosen])
        rate = RATE * min(1.0, step / 200) * (1 - step / steps)
        for name, gradient in gradients.items():
            gradient = gradient + DECAY * values[name]
            means[name] += 0.1 * (gradient - means[name])
            squares[name] += 0.001 * (gradient**2 - squares[name])
            ahead = rate / (1 - 0.9 ** (step + 1)) * math.sqrt(1 - 0.999 ** (step + 1))
            values[name] -= ahead * means[name] / (np.sqrt(squares[name]) + 1e-8)
    return Network(**values)


def _gradients(
    net: Network, indices: np.ndarray[Any, Any], target: np.ndarray[Any, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Of the mean Huber loss by every number of the network.

    Sums are written out: so small products by BLAS threads take longer on a CPU that others use, too.
    """
    first = np.maximum(net.table[indices].sum(1), 0)
    second = np.maximum(np.einsum("ni,ij->nj", first, net.inner) + net.inner_bias, 0)
    error = np.einsum("nj,j->n", second, net.outer) + net.outer_bias - target
    outward = np.clip(error / KNEE, -1, 1) / np.float32(len(target))
    inward = np.outer(outward, net.outer) * (second > 0)
    below = np.einsum("nj,ij->ni", inward, net.inner) * (first > 0)
    # The phones that take a row of the table, side by side.
    flat = indices.ravel()
    order = np.argsort(flat, kind="stable")
    begins = np.flatnonzero(np.diff(flat[order], prepend=-1))
    table = np.zeros_like(net.table)
    table[flat[order][begins]] = np.add.reduceat(below[order // indices.shape[1]], begins)
    return {
        "outer": np.einsum("nj,n->j", second, outward),
        "outer_bias": outward.sum(keepdims=True),
        "inner": np.einsum("ni,nj->ij", first, inward),
        "inner_bias": inward.sum(0),
        "table": table,
    }


def evaluate(model: Durations, data: Iterable[Sentence]) -> dict[str, float]:
    """Mean absolute error a phone in milliseconds, and of the length of a sentence in per cent."""
    errors: list[float] = []
    whole: list[float] = []
    for words, marks, spelling, seconds in data:
        got = model.predict(words, marks, spelling)
        errors += np.abs(got - seconds).tolist()
        whole.append(abs(got.sum() - seconds.sum()) / seconds.sum())
    return {
        "sentences": float(len(whole)),
        "ms a phone": float(np.mean(errors) * 1000),
        "per cent a sentence": float(np.mean(whole) * 100),
    }


def write(path: Path, network: Network, pace: float = 1.0) -> None:
    """The model's file, in half floats; with it every phone lasts `pace` times as long."""
    arrays = {field.name: getattr(network, field.name) for field in dataclasses.fields(network)}
    arrays |= {"outer_bias": network.outer_bias + np.log(pace)}
    write_tensors(path, {name: array.astype(np.float16) for name, array in arrays.items()})


def train(shards: Sequence[Path], out: Path, pace: float = PACE) -> dict[str, float]:
    """Fit on the sentences of the shards that are not held out, write the model, return held-out figures.

    The model then speaks `pace` times as slowly; the figures are those at the teacher's speed.
    """
    words = {word: variants[0] for word, variants in read_cmudict().items()}
    network = fit(sentences(shards, words, held=False))
    write(out, network)
    figures = evaluate(Durations.load(out), sentences(shards, words, held=True))
    write(out, network, pace)
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: fit the model to a folder of shards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path, help="folder with shard-NNNN.npz")
    parser.add_argument("out", type=Path, help="the model file, durations.bin")
    options = parser.parse_args(argv)
    shards = sorted(p for p in options.shards.glob("shard-*.npz") if ".partial" not in p.name)
    for name, value in train(shards, options.out).items():
        print(f"{name}: {value:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
