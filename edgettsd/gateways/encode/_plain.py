"""Samples as they are, with a WAV header and without."""

from __future__ import annotations

from edgettsd.engine.wav import wav_header
from edgettsd.gateways.encode._api import Encoder


class PcmEncoder(Encoder):
    """Raw s16le, mono."""

    media_type = "audio/pcm"

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate

    def encode(self, samples: bytes) -> bytes:
        return samples


class WavEncoder(PcmEncoder):
    """WAV whose header says that the data goes to the end of the stream."""

    media_type = "audio/wav"

    def start(self) -> bytes:
        return wav_header(self._rate)
