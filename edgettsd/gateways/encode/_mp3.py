"""MP3 by libmp3lame, with a first frame that tells players how long the encoder's delay is."""

from __future__ import annotations

import ctypes
import functools

from edgettsd.gateways.encode._api import Encoder, EncoderError, load

RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
# A frame is 576 samples up to 24 kHz and 1,152 above it; what the last one lacks is silence.
_MONO = 3
# Quality of the noise shaping: 5 costs 0.9 % of the duration on one core.
_QUALITY = 5
_TAG_BYTES = 48
_HAS_BYTES, _UNKNOWN = 2, 0x7FFFFFFF


@functools.cache
def _lame() -> ctypes.CDLL:
    lame = load("mp3", "libmp3lame.so.0")
    lame.lame_init.restype = ctypes.c_void_p
    for name in (
        "lame_set_in_samplerate",
        "lame_set_out_samplerate",
        "lame_set_num_channels",
        "lame_set_mode",
        "lame_set_brate",
        "lame_set_quality",
        "lame_set_bWriteVbrTag",
        "lame_set_disable_reservoir",
    ):
        getattr(lame, name).argtypes = [ctypes.c_void_p, ctypes.c_int]
    for name in ("lame_init_params", "lame_close", "lame_get_encoder_delay"):
        getattr(lame, name).argtypes = [ctypes.c_void_p]
    lame.lame_encode_buffer.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_int,
    ]
    lame.lame_encode_flush.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
    return lame


class Mp3Encoder(Encoder):
    """Constant bit rate: 64 kbit/s up to 24 kHz, 96 above."""

    media_type = "audio/mpeg"

    def __init__(self, sample_rate: int) -> None:
        if sample_rate not in RATES:
            raise EncoderError(f"mp3 takes {', '.join(map(str, RATES))} Hz, not {sample_rate}")
        self._lame = _lame()
        self._low = sample_rate <= 24000
        self._handle = ctypes.c_void_p(self._lame.lame_init())
        settings = {
            "lame_set_in_samplerate": sample_rate,
            "lame_set_out_samplerate": sample_rate,
            "lame_set_num_channels": 1,
            "lame_set_mode": _MONO,
            "lame_set_brate": 64 if self._low else 96,
            "lame_set_quality": _QUALITY,
            # Frames of their own: each is heard as soon as it has come.
            "lame_set_disable_reservoir": 1,
            "lame_set_bWriteVbrTag": 0,
        }
        for name, value in settings.items():
            getattr(self._lame, name)(self._handle, value)
        if not self._handle or self._lame.lame_init_params(self._handle) < 0:
            self.close()
            raise EncoderError(f"libmp3lame does not take {sample_rate} Hz")
        self._first = True

    def encode(self, samples: bytes) -> bytes:
        count = len(samples) // 2
        room = count * 5 // 4 + 7200
        out = ctypes.create_string_buffer(room)
        size = self._lame.lame_encode_buffer(self._handle, samples, None, count, out, room)
        return self._checked(size, out)

    def finish(self) -> bytes:
        out = ctypes.create_string_buffer(7200)
        return self._checked(self._lame.lame_encode_flush(self._handle, out, 7200), out)

    def close(self) -> None:
        if self._handle:
            self._lame.lame_close(self._handle)
            self._handle = ctypes.c_void_p()

    def _checked(self, size: int, out: ctypes.Array[ctypes.c_char]) -> bytes:
        if size < 0:
            raise EncoderError(f"libmp3lame failed ({size})")
        data = out.raw[:size]
        if data and self._first:
            self._first = False
            data = self._tag(data) + data
        return data

    def _tag(self, frame: bytes) -> bytes:
        """A silent frame with the delay in it, in the layout of LAME's tag; `frame` is the stream's first."""
        side = 9 if self._low else 17
        length = self._frame_bytes(frame)
        delay = self._lame.lame_get_encoder_delay(self._handle)
        tag = bytearray(length)
        tag[:4] = frame[:4]
        # No checksum: the frame's own would be that of another content.
        tag[1] |= 1
        at = 4 + side
        if length < at + _TAG_BYTES:
            return b""
        tag[at : at + 4] = b"Info"
        # Of the optional fields only a count of bytes is there. It is too large, because the length comes
        # later: players take the frame for a tag, and the length from the stream's end.
        tag[at + 4 : at + 12] = _HAS_BYTES.to_bytes(4, "big") + _UNKNOWN.to_bytes(4, "big")
        lame = at + 12
        tag[lame : lame + 9] = b"LAME3.100"
        tag[lame + 21 : lame + 24] = (delay << 12).to_bytes(3, "big")
        return bytes(tag)

    def _frame_bytes(self, frame: bytes) -> int:
        """The length of a layer III frame by its header."""
        high = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
        low = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
        version, index = frame[1] >> 3 & 3, frame[2] >> 4
        rate = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}[version]
        hertz = rate[frame[2] >> 2 & 3]
        kilobits, factor = (high[index], 144) if version == 3 else (low[index], 72)
        return factor * kilobits * 1000 // hertz + (frame[2] >> 1 & 1)
