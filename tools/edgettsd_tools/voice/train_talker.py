"""Train talker and code predictor together, teacher-forced, on text tokens and codes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as fn
from torch import Tensor

from edgettsd.text.english.frames import PAIRS, SPECIAL_IDS
from edgettsd_tools.voice.codec import Codec
from edgettsd_tools.voice.data import LEAD, Corpus
from edgettsd_tools.voice.talker_net import Model, Sizes

Ints = npt.NDArray[np.int64]
Item = tuple[Ints, Ints, Ints, npt.NDArray[np.float32]]
# Batches that are put together at once.
POOL = 10
SAVE_SECONDS = 240.0
IGNORED = -100
# Odds of an entry of codebook 0 that is farther than the nearest one; see Codec.encode.
LOOSE = 0.12


class Examples:
    """Batches of sentences with corrupted histories, the sentences of one batch about equally long."""

    def __init__(self, corpus: Corpus, codec: Codec, seed: int, frames: int) -> None:
        self._corpus, self._codec, self._frames = corpus, codec, frames
        self._rng = np.random.default_rng(seed)
        self._order: list[int] = []
        self._pool: list[list[Item]] = []
        self.index()

    def index(self) -> None:
        """Where each pair of phones is said, after new sentences came in."""
        tokens = np.concatenate([s.tokens for s in self._corpus.train])
        self._all = np.concatenate(self._corpus.codes)
        self._sorted = np.argsort(tokens, kind="stable")
        self._starts = np.searchsorted(tokens[self._sorted], np.arange(PAIRS + 1))
        self._lengths = np.array([len(c) for c in self._corpus.codes])
        self._order = []

    def _next(self) -> int:
        if not self._order:
            self._order = list(self._rng.permutation(len(self._lengths)))
        return int(self._order.pop())

    def _others(self, tokens: Ints) -> Ints:
        """Codes [frames, groups] of random frames with the same tokens."""
        low, high = self._starts[tokens], self._starts[tokens + 1]
        pick = (low + self._rng.random(len(tokens)) * (high - low)).astype(np.int64)
        return self._all[self._sorted[np.minimum(pick, len(self._all) - 1)]]

    def _sentence(self) -> Item:
        """Tokens [n], codes as heard [n, groups], codes as fed back [n, groups], vectors [n, dims]."""
        picks = [self._next() for _ in range(2 if self._rng.random() < 0.2 else 1)]
        tokens = np.concatenate([self._corpus.train[p].tokens for p in picks])
        vectors = np.concatenate([self._corpus.vectors[p] for p in picks])
        if self._rng.random() < 0.5:
            codes = self._codec.encode(vectors, self._rng, LOOSE)
        else:
            codes = np.concatenate([self._corpus.codes[p] for p in picks])
        fed = codes.copy()
        wrong = self._rng.random(len(codes)) < self._rng.random() * 0.6
        fed[wrong] = self._others(tokens)[wrong]
        rough = self._rng.random(len(codes)) < 0.3
        since = self._rng.integers(1, self._codec.groups, len(codes))
        random = self._rng.integers(0, self._codec.entries, codes.shape)
        late = rough[:, None] & (np.arange(self._codec.groups) >= since[:, None])
        return tokens, codes, np.where(late, random, fed), vectors

    def _fill(self) -> None:
        """Make the next POOL batches; sentences about as long go together, so little is padding."""
        drawn = []
        while sum(len(item[0]) for item in drawn) < POOL * self._frames:
            drawn.append(self._sentence())
        drawn.sort(key=lambda item: len(item[0]))
        batch: list[Item] = []
        for item in drawn:
            batch.append(item)
            if sum(len(other[0]) for other in batch) >= self._frames:
                self._pool.append(batch)
                batch = []
        if batch:
            self._pool.append(batch)
        self._rng.shuffle(self._pool)

    def next(self) -> dict[str, Tensor]:
        """text [b, T], codes [b, T, groups], fed [b, T, groups], vectors [b, T, dims], lengths [b].

        T counts the leading frames; codes are IGNORED beyond each sentence.
        """
        if not self._pool:
            self._fill()
        items = self._pool.pop()
        longest = max(len(item[0]) for item in items) + LEAD
        batch, groups = len(items), self._codec.groups
        text = np.full((batch, longest + 1), SPECIAL_IDS["tts_pad"], np.int64)
        codes = np.full((batch, longest, groups), IGNORED, np.int64)
        fed = np.zeros((batch, longest, groups), np.int64)
        vectors = np.zeros((batch, longest, items[0][3].shape[1]), np.float32)
        silence = self._corpus.codes[0][0]
        quiet = self._corpus.vectors[0][0]
        for row, (tokens, heard, back, exact) in enumerate(items):
            n = len(tokens)
            text[row, :n] = tokens
            text[row, n] = SPECIAL_IDS["tts_eos"]
            codes[row, :LEAD], codes[row, LEAD : LEAD + n] = silence, heard
            fed[row, :LEAD], fed[row, LEAD : LEAD + n] = silence, back
            vectors[row, :LEAD], vectors[row, LEAD : LEAD + n] = quiet, exact
        lengths = np.array([len(item[0]) + LEAD for item in items])
        arrays = {"text": text, "codes": codes, "fed": fed, "vectors": vectors, "lengths": lengths}
        return {name: torch.from_numpy(value) for name, value in arrays.items()}


def losses(
    model: Model, batch: dict[str, Tensor], books: Tensor, spread: float, share: float
) -> dict[str, Tensor]:
    """Cross entropies of code 0 (against the entries by distance), of the later codes, and the helper.

    `books` [groups, entries, dims], `spread` the width of the soft targets, `share` of frames for the
    predictor.
    """
    s = model.sizes
    rows, longest = batch["text"].shape[0], batch["codes"].shape[1]
    text = model.text(batch["text"])
    prompt = model.prompt(rows, bool(torch.rand(()) < 0.5))
    bos = model.codec[0].weight[s.special("bos")]
    begin = (text[:, 0] + bos)[:, None]
    body = model.frames(batch["fed"]) + text[:, 1 : longest + 1]
    out = model.talker(torch.cat((prompt, begin, body), 1))[:, prompt.shape[1] :]
    speech = batch["codes"][..., 0] != IGNORED
    place = torch.arange(longest + 1)
    end = place == batch["lengths"][:, None]
    hidden = out[:, :longest][speech]
    allowed = torch.cat((model.head.weight[: s.entries], model.head.weight[s.special("eos")][None]))
    vectors, codes = batch["vectors"][speech], batch["codes"][speech]
    distance = (books[0] ** 2).sum(1) - 2.0 * vectors @ books[0].T
    energy = (distance.min(1, keepdim=True).values + (vectors**2).sum(1, keepdim=True)).clamp(min=1e-3)
    soft = fn.softmax(-distance / (spread * energy), -1)
    logits = hidden @ allowed.T
    speaking = fn.log_softmax(logits, -1)
    first = -(soft * speaking[:, : s.entries]).sum(-1).mean()
    ending = fn.cross_entropy(out[end] @ allowed.T, torch.full((rows,), s.entries))
    helper = fn.mse_loss(model.helper(hidden), vectors) / books[0].pow(2).mean()
    chosen = torch.rand(len(hidden)) < share
    state = hidden[chosen]
    guesses = model.predict(state, codes[chosen])
    later = torch.stack([fn.cross_entropy(g, codes[chosen][:, i + 1]) for i, g in enumerate(guesses)])
    right = (logits[:, : s.entries].argmax(-1) == codes[:, 0]).float().mean()
    return {"first": first, "later": later, "end": ending, "helper": helper, "right": right}


def load_talker(path: Path) -> Model:
    """The averaged model of a checkpoint."""
    state = torch.load(path, map_location="cpu", weights_only=False)
    model = Model(Sizes(**state["sizes"]))
    model.load_state_dict(state["average"])
    return model.eval()


def train(
    work: Path,
    minutes: float,
    *,
    rate: float = 1.5e-3,
    frames: int = 500,
    decay: float = 0.4,
    share: float = 1.0,
    seed: int = 1,
    sizes: dict[str, Any] | None = None,
) -> None:
    """Train until `minutes` of CPU time in all runs together are spent; resumes from work/talker.pt.

    `frames` a batch; the learning rate falls to a twentieth over the last `decay` of the time; `share` of the
    frames trains the predictor.
    """
    torch.manual_seed(seed)
    codec = Codec.load(work / "codec.npz")
    corpus = Corpus(work / "synth", codec, audio=False)
    model = Model(Sizes(codec.groups, codec.entries, dims=codec.books.shape[2], **(sizes or {})))
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters", flush=True)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "layers." in n]
    tables = [p for n, p in model.named_parameters() if not (p.dim() == 2 and "layers." in n)]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": tables, "weight_decay": 0.01}],
        rate,
        betas=(0.9, 0.98),
    )
    step, spent = 0, 0.0
    path = work / "talker.pt"
    if path.exists():
        state = torch.load(path, map_location="cpu", weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        average, step, spent = state["average"], state["step"], state["minutes"]
    examples = Examples(corpus, codec, seed + step, frames)
    books = torch.from_numpy(codec.books)
    started, saved, refreshed = time.process_time(), time.monotonic(), time.monotonic()
    log: list[list[float]] = []

    def write(now: float) -> None:
        state = {
            "sizes": model.sizes.table(),
            "model": model.state_dict(),
            "average": average,
            "optimizer": optimizer.state_dict(),
            "step": step,
            "minutes": now,
        }
        partial = path.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, path)

    while True:
        now = spent + (time.process_time() - started) / 60
        if now >= minutes:
            break
        factor = min(1.0, (step + 1) / 200, max(0.05, (minutes - now) / (minutes * decay)))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        found = losses(model, examples.next(), books, LOOSE, share)
        loss = found["first"] + found["later"].mean() * 3.0 + 0.2 * found["end"] + 0.5 * found["helper"]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        keep = min(0.998, step / (step + 20))
        with torch.no_grad():
            for name, value in model.state_dict().items():
                average[name].lerp_(value, 1 - keep)
        values = [found["first"], found["right"], found["end"], found["helper"], *found["later"]]
        log.append([float(v.detach()) for v in values])
        if step % 50 == 0:
            mean = np.mean(log[-100:], 0)
            print(
                f"talker step {step}: c0 {mean[0]:.3f} right {mean[1]:.3f} end {mean[2]:.3f} "
                f"helper {mean[3]:.3f} "
                f"later {' '.join(f'{x:.2f}' for x in mean[4:])}, {now:.1f} of {minutes} CPU minutes, "
                f"{corpus.hours:.2f} h",
                flush=True,
            )
        if time.monotonic() - refreshed > 300:
            if corpus.refresh():
                examples.index()
            refreshed = time.monotonic()
        if time.monotonic() - saved > SAVE_SECONDS:
            write(now)
            saved = time.monotonic()
    write(spent + (time.process_time() - started) / 60)
