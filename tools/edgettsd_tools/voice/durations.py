"""Fit the device's duration model to the phone lengths of the teacher: ridge regression on log seconds."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.text.english.durations import TEMPLATES, Durations, features, sequence
from edgettsd_tools.voice.corpus import WORD, held_out
from edgettsd_tools.voice.lexicon import read_cmudict
from edgettsd_tools.voice.synth import pronounce
from edgettsd_tools.voice.tensors import write_tensors

Sentence = tuple[list[list[str]], list[str], list[str], np.ndarray[Any, Any]]
RIDGE = 3.0
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


def fit(data: Iterable[Sentence]) -> np.ndarray[Any, Any]:
    """Ridge coefficients float32 [all tables]. Raises ValueError when there are no sentences."""
    parts = [(features(words, marks, spelling), seconds) for words, marks, spelling, seconds in data]
    if not parts:
        raise ValueError("no sentences to fit the durations to")
    indices = np.concatenate([part[0] for part in parts])
    target = np.log(np.maximum(np.concatenate([part[1] for part in parts]), FLOOR))
    sizes = list(TEMPLATES.values())
    ends = np.cumsum(sizes)
    gram, moment = np.zeros((ends[-1], ends[-1])), np.zeros(ends[-1])
    # One feature of a table is 1 and the others 0, so a block of the Gram matrix is a table of counts.
    for i, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        rows = slice(end - size, end)
        moment[rows] = np.bincount(indices[:, i], target, size)
        for j, (width, last) in enumerate(zip(sizes, ends, strict=True)):
            pairs = np.bincount(indices[:, i] * width + indices[:, j], minlength=size * width)
            gram[rows, last - width : last] = pairs.reshape(size, width)
    gram[np.diag_indices(len(gram))] += RIDGE
    return np.linalg.solve(gram, moment).astype(np.float32)


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


def slower(table: np.ndarray[Any, Any], pace: float) -> np.ndarray[Any, Any]:
    """Coefficients [all tables] with which every phone lasts `pace` times as long."""
    out = table.copy()
    # Every phone has exactly one coefficient of the first table in its sum.
    out[: next(iter(TEMPLATES.values()))] += np.log(pace)
    return out


def train(shards: Sequence[Path], out: Path, pace: float = PACE) -> dict[str, float]:
    """Fit on the sentences of the shards that are not held out, write the model, return held-out figures.

    The model then speaks `pace` times as slowly; the figures are those at the teacher's speed.
    """
    words = {word: variants[0] for word, variants in read_cmudict().items()}
    table = fit(sentences(shards, words, held=False))
    write_tensors(out, {"durations": table.astype(np.float16)})
    figures = evaluate(Durations.load(out), sentences(shards, words, held=True))
    write_tensors(out, {"durations": slower(table, pace).astype(np.float16)})
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
