"""The header of a WAV stream."""

from __future__ import annotations

import struct

HEADER_BYTES = 44
# What players take as "until the end of the stream" when the length is not known beforehand.
_UNKNOWN = 0xFFFFFFFF


def wav_header(sample_rate: int, data_bytes: int | None = None) -> bytes:
    """Header (44 bytes) of a mono s16le WAV file of `data_bytes` audio bytes; None: length not known.

    Lengths that do not fit the format's 32 bits are written as not known.
    """
    if data_bytes is None or data_bytes + HEADER_BYTES - 8 >= _UNKNOWN:
        riff = data = _UNKNOWN
    else:
        riff, data = data_bytes + HEADER_BYTES - 8, data_bytes
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        riff,
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        sample_rate,
        sample_rate * 2,
        2,
        16,
        b"data",
        data,
    )
