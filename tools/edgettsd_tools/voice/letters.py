"""Train the letter-to-sound model: a small convolution network over letters, from the CMU dictionary.

Every letter has two slots, each with a phone or nothing; connectionist temporal classification finds the
alignment. The weights are stored as int8 with one scale an output channel. Needs torch; one CPU core does
an epoch in about a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.frontends.english.letters import ALPHABET, LetterToSound
from edgettsd.frontends.english.phones import PHONE_IDS, PHONES
from edgettsd_tools.voice.lexicon import read_cmudict
from edgettsd_tools.voice.tensors import write_tensors

CHANNELS = 112
DILATIONS = (1, 1, 2, 1, 2, 1, 2, 1)
SLOTS = 2
BATCH = 256
HELD_OUT = 20  # one word in so many is kept for evaluation


def held_out(word: str) -> bool:
    """Whether a word is kept for evaluation: by its hash, so the split never changes."""
    return hashlib.sha256(word.encode()).digest()[0] % HELD_OUT == 0


def examples(entries: Mapping[str, Sequence[Sequence[str]]]) -> list[tuple[str, list[int]]]:
    """Words with the phone ids of their first pronunciation, where the two slots a letter are enough."""
    out: list[tuple[str, list[int]]] = []
    for word, variants in entries.items():
        ids = [PHONE_IDS[p] for p in variants[0]]
        repeats = sum(a == b for a, b in pairwise(ids))
        if 2 <= len(word) <= 24 and len(ids) + repeats <= SLOTS * len(word):
            out.append((word, ids))
    return out


def batches(
    data: Sequence[tuple[str, list[int]]], rng: random.Random
) -> Iterator[Sequence[tuple[str, list[int]]]]:
    """Random batches of words of one length, in random order."""
    groups: dict[int, list[tuple[str, list[int]]]] = {}
    for item in data:
        groups.setdefault(len(item[0]), []).append(item)
    out = []
    for group in groups.values():
        rng.shuffle(group)
        out += [group[i : i + BATCH] for i in range(0, len(group), BATCH)]
    rng.shuffle(out)
    yield from out


def network() -> Any:
    """The network as a torch module: letters [n, length] int64 -> logits [n, SLOTS * length, phones]."""
    import torch
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(len(ALPHABET) + 1, CHANNELS)
            self.convs = nn.ModuleList(
                nn.Conv1d(CHANNELS, CHANNELS, 3, padding=d, dilation=d) for d in DILATIONS
            )
            self.out = nn.Conv1d(CHANNELS, SLOTS * len(PHONES), 1)
            self.drop = nn.Dropout(0.1)
            for conv in self.convs:
                nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
                with torch.no_grad():
                    conv.weight *= len(DILATIONS) ** -0.5
            nn.init.normal_(self.embed.weight, std=0.5)

        def forward(self, letters: Any) -> Any:
            edge = torch.zeros_like(letters[:, :1])
            x = self.embed(torch.cat([edge, letters, edge], 1)).transpose(1, 2)
            for conv in self.convs:
                x = x + torch.relu(conv(self.drop(x)))
            y = self.out(x)[:, :, 1:-1].transpose(1, 2)
            return y.reshape(y.shape[0], -1, len(PHONES))

    return Network()


def train(out: Path, epochs: int, threads: int = 1, seed: int = 1) -> None:
    """Train for `epochs` and write the model to `out` after each; prints loss and held-out figures."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    entries = read_cmudict()
    data = [item for item in examples(entries) if not held_out(item[0])]
    rng = random.Random(seed)
    model = network()
    mean = {name: value.clone() for name, value in model.state_dict().items()}
    total = epochs * sum(1 for _ in batches(data, rng))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.01)
    code = {letter: index + 1 for index, letter in enumerate(ALPHABET)}
    step = 0
    for epoch in range(epochs):
        began, loss_sum, count = time.process_time(), 0.0, 0
        model.train()
        for batch in batches(data, rng):
            step += 1
            rate = 3e-3 * min(1.0, step / 300) * max(0.02, 1 - step / total)
            for group in optimizer.param_groups:
                group["lr"] = rate
            letters = torch.tensor([[code[c] for c in word] for word, _ in batch])
            logits = model(letters).log_softmax(-1).transpose(0, 1)
            targets = torch.tensor([phone for _, ids in batch for phone in ids])
            loss = torch.nn.functional.ctc_loss(
                logits,
                targets,
                torch.full((len(batch),), logits.shape[0]),
                torch.tensor([len(ids) for _, ids in batch]),
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            decay = min(0.998, step / (step + 10))
            with torch.no_grad():
                for name, value in model.state_dict().items():
                    mean[name].lerp_(value, 1 - decay)
            loss_sum, count = loss_sum + float(loss.detach()), count + 1
        size = export({name: value.numpy() for name, value in mean.items()}, out)
        figures = evaluate(LetterToSound.load(out), entries, 2000 if epoch + 1 < epochs else None)
        print(
            f"epoch {epoch + 1}/{epochs}: loss {loss_sum / count:.3f}, "
            f"{time.process_time() - began:.0f} s CPU, {size} bytes; "
            + ", ".join(f"{name} {value:.4f}" for name, value in figures.items()),
            flush=True,
        )


def export(weights: Mapping[str, np.ndarray[Any, Any]], out: Path) -> int:
    """Write the weights as int8 with a float32 scale an output channel; returns the file's size."""
    tensors: dict[str, np.ndarray[Any, Any]] = {}
    parts: list[tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any] | None]] = []
    parts.append(("embed", weights["embed.weight"], None))
    for index, _ in enumerate(DILATIONS):
        kernel = weights[f"convs.{index}.weight"].transpose(2, 1, 0)  # [taps, in, out]
        parts.append((f"conv.{index}", kernel, weights[f"convs.{index}.bias"]))
    parts.append(("out", weights["out.weight"][:, :, 0].T, weights["out.bias"]))
    for name, kernel, bias in parts:
        scale = np.abs(kernel).reshape(-1, kernel.shape[-1]).max(0) / 127 + 1e-12
        tensors[f"{name}.weight"] = np.rint(kernel / scale).astype(np.int8)
        tensors[f"{name}.scale"] = scale.astype(np.float32)
        if bias is not None:
            tensors[f"{name}.bias"] = bias.astype(np.float32)
    tensors["dilations"] = np.array(DILATIONS, np.int32)
    return write_tensors(out, tensors)


def distance(a: Sequence[str], b: Sequence[str]) -> int:
    """Edits between two sequences."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def evaluate(
    model: LetterToSound, entries: Mapping[str, Sequence[Sequence[str]]], most: int | None = None
) -> dict[str, float]:
    """Share of held-out words right and phone error rate, without and with stress.

    A word counts against the nearest of its listed pronunciations; words with apostrophes are left out.
    """
    words = [w for w in entries if held_out(w) and w.isalpha() and len(w) > 1]
    if most is not None:
        words = sorted(words, key=lambda w: hashlib.sha256(w.encode()).digest())[:most]
    right = errors = phones = right_stress = errors_stress = 0
    for word in words:
        got = model.phones(word)
        plain = [p.rstrip("012") for p in got]
        edits, length = min((distance(plain, [p.rstrip("012") for p in v]), len(v)) for v in entries[word])
        stressed = min(distance(got, v) for v in entries[word])
        right, errors, phones = right + (edits == 0), errors + edits, phones + length
        right_stress, errors_stress = right_stress + (stressed == 0), errors_stress + stressed
    return {
        "words": float(len(words)),
        "words right": right / len(words),
        "phone errors": errors / phones,
        "words right with stress": right_stress / len(words),
        "phone errors with stress": errors_stress / phones,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: train the model, or evaluate one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the model file, letters.bin")
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--evaluate", action="store_true", help="only evaluate the file")
    options = parser.parse_args(argv)
    if options.evaluate:
        for name, value in evaluate(LetterToSound.load(options.out), read_cmudict()).items():
            print(f"{name}: {value:.4f}")
        return 0
    train(options.out, options.epochs, options.threads)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
