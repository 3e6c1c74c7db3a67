"""The codec in closed form: features -> principal components -> residual k-means codes.

The decoder class of the official speech tokenizer is then trained on these frozen codes, its codebooks being
the centroids found here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd_tools.voice.features import SIZE, features

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Codec:
    """`mean` [SIZE], `basis` [SIZE, dims] orthonormal, `books` [groups, entries, dims]."""

    mean: Floats
    basis: Floats
    books: Floats

    @property
    def groups(self) -> int:
        """Codes a frame."""
        return len(self.books)

    @property
    def entries(self) -> int:
        """Entries of each codebook."""
        return int(self.books.shape[1])

    def project(self, rows: Floats) -> Floats:
        """Principal components [frames, dims] of features [frames, SIZE]."""
        return np.asarray((rows - self.mean) @ self.basis, np.float32)

    def encode(self, vectors: Floats, rng: np.random.Generator | None = None, loose: float = 0.0) -> Codes:
        """Codes [frames, groups] of principal components.

        With `rng` the first two codes are sometimes not the nearest entry but another one that is almost as
        near: an entry at distance d instead of the best d0 gets the odds exp((d0 - d) / (loose * residual
        energy)). Later codes make up for it, which is what a model should learn that may itself miss the
        nearest entry.
        """
        rest = vectors.astype(np.float32).copy()
        codes = np.empty((len(rest), self.groups), np.int64)
        for group, book in enumerate(self.books):
            distance = (book**2).sum(1) - 2.0 * rest @ book.T
            if rng is not None and loose > 0.0 and group < 2:
                energy = (distance.min(1, keepdims=True) + (rest**2).sum(1, keepdims=True)).clip(1e-3)
                distance = distance - loose / (group + 1) * energy * rng.gumbel(size=distance.shape)
            codes[:, group] = distance.argmin(1)
            rest -= book[codes[:, group]]
        return codes

    def vectors(self, codes: Codes) -> Floats:
        """Principal components [frames, dims] that codes [frames, groups] stand for."""
        out = np.zeros((len(codes), self.books.shape[2]), np.float32)
        for group, book in enumerate(self.books):
            out += book[codes[:, group]]
        return out

    def rows(self, codes: Codes) -> Floats:
        """Features [frames, SIZE] that codes stand for."""
        return self.vectors(codes) @ self.basis.T + self.mean

    def save(self, path: Path) -> None:
        """Write to an .npz file."""
        np.savez(path, mean=self.mean, basis=self.basis, books=self.books)

    @classmethod
    def load(cls, path: Path) -> Codec:
        """Read what `save` wrote."""
        with np.load(path) as file:
            return cls(file["mean"], file["basis"], file["books"])


def _kmeans(points: Floats, count: int, rng: np.random.Generator, rounds: int = 25) -> Floats:
    """Centroids [count, dims]; an entry that no point chose is moved to a random point."""
    centres = points[rng.choice(len(points), count, replace=False)].copy()
    for _ in range(rounds):
        nearest = ((centres**2).sum(1) - 2.0 * points @ centres.T).argmin(1)
        sizes = np.bincount(nearest, minlength=count)
        order = np.argsort(nearest, kind="stable")
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        filled = sizes > 0
        sums = np.add.reduceat(points[order], starts[filled], axis=0)
        centres[filled] = sums / sizes[filled, None]
        empty = np.flatnonzero(~filled)
        if len(empty):
            centres[empty] = points[rng.choice(len(points), len(empty))]
    return centres


def fit(rows: Floats, groups: int, entries: int, dims: int, seed: int = 1) -> Codec:
    """Fit to features [frames, SIZE]."""
    if rows.shape[1] != SIZE:
        raise ValueError(f"features have {rows.shape[1]} columns; {SIZE} are needed")
    rng = np.random.default_rng(seed)
    mean = rows.mean(0)
    values, directions = np.linalg.eigh(np.cov((rows - mean).T))
    basis = directions[:, np.argsort(values)[::-1][:dims]].astype(np.float32)
    rest = ((rows - mean) @ basis).astype(np.float32)
    books = []
    for _ in range(groups):
        book = _kmeans(rest, entries, rng)
        nearest = ((book**2).sum(1) - 2.0 * rest @ book.T).argmin(1)
        rest -= book[nearest]
        books.append(book)
    return Codec(mean.astype(np.float32), basis, np.stack(books))


def distortions(codec: Codec, rows: Floats) -> list[float]:
    """The part of the features' variance that is lost with the first 1, 2, ... codes."""
    vectors = codec.project(rows)
    codes = codec.encode(vectors)
    total = float(((rows - codec.mean) ** 2).sum(1).mean())
    # What the principal components leave out is lost whatever the codes.
    outside = total - float((vectors**2).sum(1).mean())
    lost, rest = [], vectors.copy()
    for group, book in enumerate(codec.books):
        rest -= book[codes[:, group]]
        lost.append((outside + float((rest**2).sum(1).mean())) / total)
    return lost


def shard_features(path: Path) -> dict[str, Any]:
    """Features of every sentence of a shard, one after the other, and `counts` of frames a sentence."""
    with np.load(path) as shard:
        audio, samples = shard["audio"], shard["samples"]
    rows, start = [], 0
    for size in samples:
        rows.append(features(audio[start : start + size].astype(np.float32) / 32768.0))
        start += size
    return {"rows": np.concatenate(rows), "counts": np.array([len(r) for r in rows])}
