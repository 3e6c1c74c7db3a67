"""The training data: audio, codes and text tokens of every sentence, read shard by shard."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgettsd.frontends.english.frames import pair_ids, slots
from edgettsd_tools.voice.codec import Codec, shard_features
from edgettsd_tools.voice.corpus import held_out
from edgettsd_tools.voice.features import FRAME, SIZE

# Frames by which the text leads the audio: the talker sees so far ahead. They are dropped from what is
# played.
LEAD = 4


@dataclass(frozen=True)
class Sentence:
    """One sentence: text, its tokens (one a frame), features [frames, SIZE], audio int16 [frames * 1920]."""

    text: str
    tokens: npt.NDArray[np.int64]
    rows: npt.NDArray[np.float32]
    audio: npt.NDArray[np.int16]


def feature_file(shard: Path) -> Path:
    """Where a shard's features are kept."""
    return shard.with_name(shard.name.replace("shard-", "feat-"))


def features_of(shard: Path) -> npt.NDArray[np.float32]:
    """Features [frames, SIZE] of a shard, computed once and kept beside it."""
    path = feature_file(shard)
    if not path.exists():
        partial = path.with_suffix(f".{os.getpid()}.partial.npz")
        np.savez(partial, **shard_features(shard))
        os.replace(partial, path)
    with np.load(path) as file:
        rows: npt.NDArray[np.float32] = file["rows"]
    return rows


def read_shard(shard: Path) -> list[Sentence]:
    """Every sentence of a shard, held-out ones too."""
    rows = features_of(shard)
    with np.load(shard) as file:
        audio, samples, texts = file["audio"], file["samples"], file["texts"]
        phones, lengths, counts = file["phones"], file["lengths"], file["counts"]
    out = []
    row = sample = phone = 0
    for index, text in enumerate(texts):
        frames = -(-int(samples[index]) // FRAME)
        seconds = [float(x) for x in lengths[phone : phone + counts[index]]]
        tokens = pair_ids(slots(str(phones[index]).split(" "), seconds))[:frames]
        tokens += [0] * (frames - len(tokens))
        sound = np.zeros(frames * FRAME, np.int16)
        sound[: samples[index]] = audio[sample : sample + samples[index]]
        out.append(Sentence(str(text), np.array(tokens, np.int64), rows[row : row + frames], sound))
        row, sample, phone = row + frames, sample + int(samples[index]), phone + int(counts[index])
    return out


def shards(folder: Path) -> list[Path]:
    """All finished shards in order."""
    return sorted(folder.glob("shard-[0-9][0-9][0-9][0-9].npz"))


class Corpus:
    """Sentences of a growing folder of shards; `refresh` takes up what is new."""

    def __init__(self, folder: Path, codec: Codec, audio: bool = True) -> None:
        self._folder, self._codec, self._audio = folder, codec, audio
        self._seen: set[Path] = set()
        self.train: list[Sentence] = []
        self.held_out: list[Sentence] = []
        self.vectors: list[npt.NDArray[np.float32]] = []
        self.codes: list[npt.NDArray[np.int64]] = []
        self.refresh()

    def refresh(self) -> bool:
        """Read new shards; True if there were any."""
        new = [path for path in shards(self._folder) if path not in self._seen]
        for path in new:
            self._seen.add(path)
            for sentence in read_shard(path):
                if held_out(sentence.text):
                    self.held_out.append(sentence)
                    continue
                vectors = self._codec.project(sentence.rows)
                self.vectors.append(vectors)
                self.codes.append(self._codec.encode(vectors))
                kept = sentence.audio if self._audio else np.empty(0, np.int16)
                # The features are in the vectors now; keeping both would double the memory.
                self.train.append(
                    Sentence(sentence.text, sentence.tokens, np.empty((0, SIZE), np.float32), kept)
                )
        return bool(new)

    @property
    def hours(self) -> float:
        """Hours of training audio."""
        return sum(len(c) for c in self.codes) * 0.08 / 3600
