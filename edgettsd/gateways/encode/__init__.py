"""Encoders from mono s16le samples to the formats that clients ask for, a piece at a time.

`encoder(name, sample_rate)` makes one. The libraries are found when the first encoder of a format is made:
the daemon and the other formats do without them.
"""

from __future__ import annotations

from collections.abc import Callable

from edgettsd.gateways.encode._aac import AacEncoder
from edgettsd.gateways.encode._api import Encoder, EncoderError
from edgettsd.gateways.encode._flac import FlacEncoder
from edgettsd.gateways.encode._mp3 import Mp3Encoder
from edgettsd.gateways.encode._opus import OpusEncoder
from edgettsd.gateways.encode._plain import PcmEncoder, WavEncoder
from edgettsd.gateways.encode._thread import EncoderThread, encoder_thread

FORMATS: dict[str, Callable[[int], Encoder]] = {
    "mp3": Mp3Encoder,
    "opus": OpusEncoder,
    "aac": AacEncoder,
    "flac": FlacEncoder,
    "wav": WavEncoder,
    "pcm": PcmEncoder,
}

__all__ = ["FORMATS", "Encoder", "EncoderError", "EncoderThread", "encoder", "encoder_thread"]


def encoder(name: str, sample_rate: int) -> Encoder:
    """An encoder of a format for samples at `sample_rate` Hz.

    Raises EncoderError: the format is unknown, its library is not installed, or it does not take the rate.
    """
    if name not in FORMATS:
        raise EncoderError(f"format {name!r}: allowed are {', '.join(FORMATS)}")
    return FORMATS[name](sample_rate)
