"""Readers of renders, and what they must have got."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import numpy.typing as npt
from engine_rig import expected_pcm

from edgettsd.engine._api import Reason


class Reader:
    """A pipe and a thread that reads it, once `begin` is set: at most `most` bytes, `pause` seconds after
    each piece. Then it closes its end."""

    def __init__(
        self, pause: float = 0.0, *, begin: threading.Event | None = None, most: int = 1 << 30
    ) -> None:
        self._fd, self.writer = os.pipe()
        self._pause, self._begin, self.most = pause, begin, most
        self.data = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        if self._begin is not None:
            self._begin.wait(20)
        while len(self.data) < self.most and (piece := os.read(self._fd, 16_384)):
            self.data += piece
            time.sleep(self._pause)
        os.close(self._fd)

    def all(self) -> bytes:
        """Everything, once the daemon has closed its end."""
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.data


def spoken(volume: float, sentences: int, frames: int, pause: int) -> npt.NDArray[np.int16]:
    """Samples of so many sentences of the scripted model, with `pause` samples between two."""
    clean = np.frombuffer(expected_pcm(frames), "<i2").astype(np.float32) / 32768
    one = np.rint(clean * np.float32(volume) * 32768).clip(-32768, 32767).astype(np.int16)
    parts = [one, *[np.zeros(pause, np.int16), one] * (sentences - 1)] if sentences else []
    return np.concatenate([np.zeros(0, np.int16), *parts])


def read_as_told(
    reader: Reader, reason: Reason, volume: float, sentences: int, frames: int, pause: int
) -> str:
    """What is wrong with what a reader got of a render that has ended; empty when nothing is."""
    whole, got = spoken(volume, sentences, frames, pause).tobytes(), reader.all()
    if not whole.startswith(got[: len(whole)]) or len(got) > len(whole):
        return f"a reader got {len(got)} bytes that are no beginning of the {len(whole)}"
    if reason is Reason.COMPLETED and len(got) < min(len(whole), reader.most):
        return f"a reader got {len(got)} of {len(whole)} bytes"
    return ""
