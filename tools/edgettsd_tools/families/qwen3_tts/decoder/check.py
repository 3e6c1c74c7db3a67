"""How far two decoder files are from each other, by running both."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRAMES = 12
CHUNK = 4


def snr_db(reference: NDArray[Any], other: NDArray[Any]) -> float:
    """Signal to noise ratio of ``other`` in dB; infinity when equal."""
    noise = float(np.mean((reference.astype(np.float64) - other) ** 2))
    signal = float(np.mean(reference.astype(np.float64) ** 2))
    return float("inf") if noise == 0 else 10 * float(np.log10(max(signal, 1e-30) / noise))


@contextlib.contextmanager
def _without_information() -> Iterator[None]:
    """Keep the lines of information from stderr that LiteRT writes to the descriptor, whatever it is asked.

    What else is written to stderr meanwhile comes out at the end.
    """
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)
            held.seek(0)
            for line in held:
                if not line.startswith(b"INFO: "):
                    os.write(2, line)


def decode(path: Path, codes: NDArray[np.int32]) -> NDArray[np.float32]:
    """Decode codes [frames, quantizers] from the start of a stream, in chunks of 4: [frames * spf]."""
    from ai_edge_litert.interpreter import Interpreter

    with _without_information():
        runner = Interpreter(str(path), num_threads=1).get_signature_runner(f"decode_{CHUNK}")
        state = {
            name: np.zeros(detail["shape"], np.float32)
            for name, detail in runner.get_input_details().items()
            if name != "codes"
        }
        pcm = []
        for start in range(0, len(codes), CHUNK):
            out = runner(codes=codes[None, start : start + CHUNK], **state)
            pcm.append(out.pop("pcm").reshape(-1))
            state = out
    return np.concatenate(pcm)


def random_codes(entries: int, quantizers: int, frames: int = FRAMES) -> NDArray[np.int32]:
    """Codes that are the same on every machine."""
    words = np.random.PCG64(1).random_raw(frames * quantizers)
    return (np.asarray(words) % entries).astype(np.int32).reshape(frames, quantizers)
