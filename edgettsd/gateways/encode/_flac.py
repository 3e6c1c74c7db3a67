"""FLAC by libFLAC, in frames of 80 ms."""

from __future__ import annotations

import array
import ctypes
import functools
import sys

from edgettsd.gateways.encode._api import Encoder, EncoderError, load

# The library's level: more costs time and saves little of speech.
_LEVEL = 3
# The largest block that every decoder must take up to 48 kHz.
_LARGEST_BLOCK = 4608
_WRITE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_ubyte),
    ctypes.c_size_t,
    ctypes.c_uint32,
    ctypes.c_uint32,
    ctypes.c_void_p,
)


@functools.cache
def _flac() -> ctypes.CDLL:
    flac = load("flac", "libFLAC.so.12", "libFLAC.so.14", "libFLAC.so.8")
    flac.FLAC__stream_encoder_new.restype = ctypes.c_void_p
    for name in ("channels", "bits_per_sample", "sample_rate", "compression_level", "blocksize"):
        getattr(flac, f"FLAC__stream_encoder_set_{name}").argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    flac.FLAC__stream_encoder_init_stream.argtypes = [ctypes.c_void_p, _WRITE, *[ctypes.c_void_p] * 4]
    flac.FLAC__stream_encoder_process_interleaved.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint32,
    ]
    for name in ("finish", "delete"):
        getattr(flac, f"FLAC__stream_encoder_{name}").argtypes = [ctypes.c_void_p]
    flac.FLAC__stream_encoder_delete.restype = None
    return flac


class FlacEncoder(Encoder):
    """Lossless; the header says that the length is not known."""

    media_type = "audio/flac"

    def __init__(self, sample_rate: int) -> None:
        self._flac = _flac()
        self._out = bytearray()
        # The library keeps this pointer: the object must live as long as the encoder.
        self._write = _WRITE(self._take)
        self._handle = ctypes.c_void_p(self._flac.FLAC__stream_encoder_new())
        if not self._handle:
            raise EncoderError("libFLAC: out of memory")
        settings = {
            "channels": 1,
            "bits_per_sample": 16,
            "sample_rate": sample_rate,
            "compression_level": _LEVEL,
            "blocksize": min(sample_rate * 2 // 25, _LARGEST_BLOCK),
        }
        for name, value in settings.items():
            getattr(self._flac, f"FLAC__stream_encoder_set_{name}")(self._handle, value)
        status = self._flac.FLAC__stream_encoder_init_stream(
            self._handle, self._write, None, None, None, None
        )
        if status:
            self.close()
            raise EncoderError(f"libFLAC does not take {sample_rate} Hz ({status})")

    def start(self) -> bytes:
        return self._ready()

    def encode(self, samples: bytes) -> bytes:
        narrow = array.array("h", samples)
        if sys.byteorder == "big":
            narrow.byteswap()
        wide = array.array("i", narrow)
        address, count = wide.buffer_info()
        if count and not self._flac.FLAC__stream_encoder_process_interleaved(self._handle, address, count):
            raise EncoderError("libFLAC failed")
        return self._ready()

    def finish(self) -> bytes:
        self._flac.FLAC__stream_encoder_finish(self._handle)
        return self._ready()

    def close(self) -> None:
        if self._handle:
            self._flac.FLAC__stream_encoder_delete(self._handle)
            self._handle = ctypes.c_void_p()

    def _take(self, _encoder: int, data: object, size: int, _samples: int, _frame: int, _own: int) -> int:
        self._out += ctypes.string_at(data, size)  # type: ignore[arg-type]
        return 0

    def _ready(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data
