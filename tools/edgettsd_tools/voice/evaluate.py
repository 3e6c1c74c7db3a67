"""Evaluation: word error rates of every stage, from the teacher to the shipped bundle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgettsd.frontends.english.frames import pair_ids, slots
from edgettsd_tools.progress import EXIT_USAGE, die
from edgettsd_tools.voice import listen
from edgettsd_tools.voice.codec import Codec
from edgettsd_tools.voice.data import LEAD
from edgettsd_tools.voice.decoder import decode, make, typical
from edgettsd_tools.voice.features import features
from edgettsd_tools.voice.synth import Teacher, lexicon, pronounce
from edgettsd_tools.voice.train_talker import load_talker
from edgettsd_tools.voice.vocoder import render

ROOT = Path(__file__).resolve().parents[3]
LISTS = ("voice-heldout.txt", "voice-harvard-style.txt")
SOURCES = ("teacher", "codec", "decoder", "voice", "bundle")
PICTURES = 10


class Sentences:
    """A list of sentences with what the teacher makes of them."""

    def __init__(self, work: Path, texts: list[str]) -> None:
        self.work, self.texts = work, texts
        self._codec = Codec.load(work / "codec.npz")
        words, teacher = lexicon(), Teacher()
        self.spoken = [teacher.speak(pronounce(text, words)) for text in texts]
        self.codes = [self._codec.encode(self._codec.project(features(pcm))) for pcm, *_ in self.spoken]

    def teacher(self) -> list[Any]:
        """The teacher's own audio."""
        return [pcm for pcm, *_ in self.spoken]

    def codec(self) -> list[Any]:
        """The codes by the vocoder itself."""
        return [render(self._codec.rows(codes)).clip(-1.0, 1.0) for codes in self.codes]

    def decoder(self) -> list[Any]:
        """The codes by the decoder in torch."""
        return self._decode(self.codes)

    def voice(self) -> list[Any]:
        """Talker, predictor and decoder in torch, with the teacher's phone lengths."""
        tokens = [torch.tensor(pair_ids(slots(phones, seconds))) for _, phones, seconds, _ in self.spoken]
        model = load_talker(self.work / "talker.pt")
        return self._decode([codes[LEAD:].numpy() for codes in model.generate(tokens, LEAD)])

    def _decode(self, codes: Sequence[Any]) -> list[Any]:
        decoder = make(self._codec, typical(self.work, self._codec))
        return [decode(decoder, c) for c in codes]


def _bundle(bundle: Path, work: Path, texts: list[str]) -> list[Any]:
    """The shipped voice through the real engine, in the product's environment."""
    python = os.environ.get("EDGETTSD_PYTHON", str(ROOT / ".venv" / "bin" / "python"))
    source, out = work / "eval-texts.txt", work / "eval-audio.npz"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    path = os.pathsep.join((os.environ.get("EDGETTSD_PACKAGES", ""), str(ROOT / "tools")))
    command = [python, "-m", "edgettsd_tools.voice.speak", str(bundle), str(source), str(out)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"})
    with np.load(out) as file:
        return [file[f"arr_{index}"] for index in range(len(texts))]


def evaluate(work: Path, sources: Sequence[str], count: int, bundle: Path | None) -> None:
    """Print the word error rate of every source on both lists, and draw spectra to WORK/spectra/."""
    for source in sources:
        if source not in SOURCES:
            die(f"--sources: {source!r} is unknown; allowed are {', '.join(SOURCES)}", code=EXIT_USAGE)
    pictures = work / "spectra"
    pictures.mkdir(exist_ok=True)
    for name in LISTS:
        texts = (ROOT / "tools" / "data" / name).read_text(encoding="utf-8").splitlines()[:count]
        sentences = Sentences(work, texts)
        for source in sources:
            if source == "bundle":
                if bundle is None:
                    continue
                sounds = _bundle(bundle, work, texts)
            else:
                sounds = getattr(sentences, source)()
            rate = listen.word_error_rate(zip(texts, sounds, strict=True))
            print(f"{name}: {source}: WER {rate:.3f} ({len(texts)} sentences)", flush=True)
            for index in range(min(PICTURES, len(texts))):
                pair = (sentences.spoken[index][0], sounds[index])
                listen.compare(pictures / f"{Path(name).stem}-{source}-{index}.png", pair)


if __name__ == "__main__":
    sys.exit("use tools/train_voice eval")
