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

from edgettsd.frontends.english.frames import PAIRS, SPECIAL_IDS
from edgettsd_tools.voice.codec import Codec
from edgettsd_tools.voice.data import LEAD, Corpus
from edgettsd_tools.voice.features import FRAME, features
from edgettsd_tools.voice.interrupt import Asked
from edgettsd_tools.voice.talker_net import Model, Sizes

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Item = tuple[Ints, Floats, Floats]
# Batches that are put together at once.
POOL = 10
SAVE_SECONDS = 240.0
# Odds of an entry of codebook 0 that is farther than the nearest one; see Codec.encode.
LOOSE = 0.12


class Examples:
    """Batches of sentences with corrupted histories, the sentences of one batch about equally long."""

    def __init__(self, corpus: Corpus, codec: Codec, seed: int, frames: int) -> None:
        self._corpus, self._codec, self._frames = corpus, codec, frames
        self._rng = np.random.default_rng(seed)
        # What is said before the text arrives.
        self._quiet = codec.project(features(np.zeros(FRAME, np.float32)))[0]
        self._order: list[int] = []
        self._pool: list[list[Item]] = []
        self.index()

    def index(self) -> None:
        """Where each pair of phones is said, after new sentences came in."""
        tokens = np.concatenate([s.tokens for s in self._corpus.train])
        self._all = np.concatenate(self._corpus.vectors)
        self._sorted = np.argsort(tokens, kind="stable")
        self._starts = np.searchsorted(tokens[self._sorted], np.arange(PAIRS + 1))
        self._lengths = np.array([len(c) for c in self._corpus.codes])
        self._order = []

    def _next(self) -> int:
        if not self._order:
            self._order = list(self._rng.permutation(len(self._lengths)))
        return int(self._order.pop())

    def _others(self, tokens: Ints) -> Floats:
        """Vectors [frames, dims] of random frames with the same tokens."""
        low, high = self._starts[tokens], self._starts[tokens + 1]
        pick = (low + self._rng.random(len(tokens)) * (high - low)).astype(np.int64)
        return self._all[self._sorted[np.minimum(pick, len(self._all) - 1)]]

    def _sentence(self) -> Item:
        """Tokens [n], vectors as heard [n, dims], vectors as fed back [n, dims].

        What is fed back is of other frames with the same token: the talker learns to leave it alone and to
        follow the text, so that no error of its own can carry it away.
        """
        picks = [self._next() for _ in range(2 if self._rng.random() < 0.2 else 1)]
        tokens = np.concatenate([self._corpus.train[p].tokens for p in picks])
        vectors = np.concatenate([self._corpus.vectors[p] for p in picks])
        return tokens, vectors, self._others(tokens)

    def _fill(self) -> None:
        """Make the next POOL batches; sentences about as long go together, so little is padding."""
        drawn: list[Item] = []
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
        """text [b, T + 1], vectors and fed [b, T, dims], lengths [b]; T counts the leading frames."""
        if not self._pool:
            self._fill()
        items = self._pool.pop()
        longest = max(len(item[0]) for item in items) + LEAD
        quiet = self._quiet
        text = np.full((len(items), longest + 1), SPECIAL_IDS["tts_pad"], np.int64)
        vectors = np.broadcast_to(quiet, (len(items), longest, len(quiet))).copy()
        fed = vectors.copy()
        for row, (tokens, exact, back) in enumerate(items):
            n = len(tokens)
            text[row, :n], text[row, n] = tokens, SPECIAL_IDS["tts_eos"]
            vectors[row, LEAD : LEAD + n], fed[row, LEAD : LEAD + n] = exact, back
        lengths = np.array([len(item[0]) + LEAD for item in items])
        arrays = {"text": text, "vectors": vectors, "fed": fed, "lengths": lengths}
        return {name: torch.from_numpy(value) for name, value in arrays.items()}


def losses(model: Model, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """`sound`: squared error of the principal components over their variance; `one`: of the constant channel;
    `first`: cross entropy of code 0 against the entries by distance; `end`: of the end of speech; `right`:
    how often code 0 is the nearest entry."""
    s, books = model.sizes, model.books
    rows, longest = batch["vectors"].shape[:2]
    text = model.text(batch["text"])
    prompt = model.prompt(rows)
    # Without a language tag there is one position less: both occur.
    if torch.rand(()) < 0.5:
        prompt = torch.cat((prompt[:, :3], prompt[:, 4:]), 1)
    body = model.fed_back(batch["fed"]) + text[:, 1 : longest + 1]
    out = model.talker(torch.cat((prompt, text[:, :1], body), 1))[:, prompt.shape[1] :]
    place = torch.arange(longest + 1)
    hidden = out[place < batch["lengths"][:, None]]
    vectors = batch["vectors"][place[:-1] < batch["lengths"][:, None]]
    sound = fn.mse_loss(hidden[:, : s.dims], vectors / model.scale)
    one = (hidden[:, s.dims] - 1.0).pow(2).mean()
    distance = (books[0] ** 2).sum(1) - 2.0 * vectors @ books[0].T
    energy = (distance.min(1, keepdim=True).values + (vectors**2).sum(1, keepdim=True)).clamp(min=1e-3)
    soft = fn.softmax(-distance / (LOOSE * energy), -1)
    allowed = torch.cat((model.head.weight[: s.entries], model.head.weight[s.special("eos")][None]))
    logits = hidden @ allowed.T
    first = -(soft * fn.log_softmax(logits, -1)[:, : s.entries]).sum(-1).mean()
    last = out[place == batch["lengths"][:, None]] @ allowed.T
    end = fn.cross_entropy(last, torch.full((rows,), s.entries))
    right = (logits[:, : s.entries].argmax(-1) == distance.argmin(1)).float().mean()
    return {"sound": sound, "one": one, "first": first, "end": end, "right": right}


def load_talker(path: Path) -> Model:
    """The averaged model of a checkpoint."""
    state = torch.load(path, map_location="cpu", weights_only=False)
    model = Model(Sizes(**state["sizes"]), state["average"]["books"])
    model.load_state_dict(state["average"])
    return model.eval()  # type: ignore[no-any-return]


def train(
    work: Path,
    minutes: float,
    *,
    rate: float = 1.5e-3,
    frames: int = 500,
    decay: float = 0.4,
    seed: int = 1,
    sizes: dict[str, Any] | None = None,
) -> None:
    """Train until `minutes` of CPU time in all runs together are spent; resumes from work/talker.pt.

    `frames` a batch; the learning rate falls to a twentieth over the last `decay` of the time.
    """
    torch.manual_seed(seed)
    codec = Codec.load(work / "codec.npz")
    corpus = Corpus(work / "synth", codec, audio=False)
    model = Model(
        Sizes(codec.groups, codec.entries, dims=codec.books.shape[2], **(sizes or {})),
        torch.from_numpy(codec.books),
    )
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

    asked = Asked()
    while True:
        now = spent + (time.process_time() - started) / 60
        if now >= minutes or asked:
            break
        factor = min(1.0, (step + 1) / 200, max(0.05, (minutes - now) / (minutes * decay)))
        for group in optimizer.param_groups:
            group["lr"] = rate * factor
        found = losses(model, examples.next())
        loss = 4.0 * found["sound"] + found["one"] + 0.3 * found["first"] + 0.1 * found["end"]
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        keep = min(0.998, step / (step + 20))
        with torch.no_grad():
            for name, value in model.state_dict().items():
                average[name].lerp_(value, 1 - keep)
        log.append([float(value.detach()) for value in found.values()])
        if step % 50 == 0:
            means = zip(found, np.mean(log[-100:], 0), strict=True)
            print(
                f"talker step {step}: {', '.join(f'{name} {mean:.3f}' for name, mean in means)}, "
                f"{now:.2f} of {minutes} CPU minutes, {corpus.hours:.2f} h",
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
