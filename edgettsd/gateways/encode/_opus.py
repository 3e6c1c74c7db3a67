"""Opus in Ogg by libopus and libogg, a page every 80 ms at most (RFC 7845)."""

from __future__ import annotations

import ctypes
import functools
import random
import struct

from edgettsd import __version__
from edgettsd.gateways.encode._api import Encoder, EncoderError, load

RATES = (8000, 12000, 16000, 24000, 48000)
# Positions in an Ogg Opus stream are counted at this rate, whatever the encoder's own.
_CLOCK = 48000
_AUDIO = 2049
_SET_BITRATE, _SET_COMPLEXITY, _GET_LOOKAHEAD = 4002, 4010, 4027
_BITS_A_SECOND = 40000
# 5 costs 2 % of the duration on one core, 10 twice that.
_COMPLEXITY = 5
_PACKET_MS = 20
_PACKETS_A_PAGE = 4
_MAX_PACKET = 1500


class _Packet(ctypes.Structure):
    """ogg_packet."""

    _fields_ = [
        ("packet", ctypes.c_char_p),
        ("bytes", ctypes.c_long),
        ("b_o_s", ctypes.c_long),
        ("e_o_s", ctypes.c_long),
        ("granulepos", ctypes.c_int64),
        ("packetno", ctypes.c_int64),
    ]


class _Page(ctypes.Structure):
    """ogg_page."""

    _fields_ = [
        ("header", ctypes.POINTER(ctypes.c_ubyte)),
        ("header_len", ctypes.c_long),
        ("body", ctypes.POINTER(ctypes.c_ubyte)),
        ("body_len", ctypes.c_long),
    ]


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    opus, ogg = load("opus", "libopus.so.0"), load("opus", "libogg.so.0")
    opus.opus_encoder_create.restype = ctypes.c_void_p
    opus.opus_encoder_create.argtypes = [ctypes.c_int32, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    opus.opus_encoder_destroy.argtypes = [ctypes.c_void_p]
    opus.opus_encoder_destroy.restype = None
    opus.opus_encode.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int32,
    ]
    opus.opus_encode.restype = ctypes.c_int32
    ogg.ogg_stream_init.argtypes = [ctypes.c_void_p, ctypes.c_int]
    ogg.ogg_stream_clear.argtypes = [ctypes.c_void_p]
    ogg.ogg_stream_packetin.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Packet)]
    ogg.ogg_stream_flush.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Page)]
    return opus, ogg


class OpusEncoder(Encoder):
    """Variable bit rate, about 40 kbit/s; decoders give exactly the samples' number, at 48 kHz."""

    media_type = "audio/ogg"

    def __init__(self, sample_rate: int) -> None:
        if sample_rate not in RATES:
            raise EncoderError(f"opus takes {', '.join(map(str, RATES))} Hz, not {sample_rate}")
        self._opus, self._ogg = _libraries()
        self._rate = sample_rate
        self._size = sample_rate * _PACKET_MS // 1000
        self._waiting = bytearray()
        self._out = bytearray()
        self._samples = self._encoded = self._packets = 0
        error = ctypes.c_int()
        self._handle = ctypes.c_void_p(
            self._opus.opus_encoder_create(sample_rate, 1, _AUDIO, ctypes.byref(error))
        )
        if not self._handle:
            raise EncoderError(f"libopus does not take {sample_rate} Hz ({error.value})")
        # Variadic calls need each argument's type.
        for request, value in ((_SET_BITRATE, _BITS_A_SECOND), (_SET_COMPLEXITY, _COMPLEXITY)):
            self._opus.opus_encoder_ctl(self._handle, ctypes.c_int(request), ctypes.c_int32(value))
        lookahead = ctypes.c_int32()
        self._opus.opus_encoder_ctl(self._handle, ctypes.c_int(_GET_LOOKAHEAD), ctypes.byref(lookahead))
        self._skip = lookahead.value * _CLOCK // sample_rate
        # ogg_stream_state is 408 bytes on 64-bit machines; its content is the library's own business.
        self._stream = ctypes.create_string_buffer(1024)
        self._ogg.ogg_stream_init(self._stream, random.getrandbits(31))

    def start(self) -> bytes:
        head = struct.pack("<8sBBHIhB", b"OpusHead", 1, 1, self._skip, self._rate, 0, 0)
        vendor = f"edgettsd {__version__}".encode()
        tags = struct.pack("<8sI", b"OpusTags", len(vendor)) + vendor + struct.pack("<I", 0)
        for index, packet in enumerate((head, tags)):
            self._packet(packet, 0, first=index == 0)
            self._flush()
        return self._ready()

    def encode(self, samples: bytes) -> bytes:
        self._waiting += samples
        self._samples += len(samples) // 2
        while len(self._waiting) >= self._size * 2:
            self._encode_one()
        return self._ready()

    def finish(self) -> bytes:
        # The last page's position cuts off what fills up the last packet; the encoder's delay counts too.
        end = self._skip + self._samples * _CLOCK // self._rate
        lacking = end * self._rate // _CLOCK - self._encoded
        while lacking > 0 or self._waiting:
            self._waiting += bytes(max(0, self._size * 2 - len(self._waiting)))
            lacking -= self._size
            self._encode_one(end if lacking <= 0 else None)
        if not self._packets:
            self._encode_silence(end)
        self._flush()
        return self._ready()

    def close(self) -> None:
        if self._handle:
            self._opus.opus_encoder_destroy(self._handle)
            self._ogg.ogg_stream_clear(self._stream)
            self._handle = ctypes.c_void_p()

    def _encode_silence(self, end: int) -> None:
        self._waiting += bytes(self._size * 2)
        self._encode_one(end)

    def _encode_one(self, end: int | None = None) -> None:
        """Encode one packet from what waits; with `end` it is the last one, and the stream ends there."""
        samples = bytes(self._waiting[: self._size * 2])
        del self._waiting[: self._size * 2]
        out = ctypes.create_string_buffer(_MAX_PACKET)
        size = self._opus.opus_encode(self._handle, samples, self._size, out, _MAX_PACKET)
        if size < 0:
            raise EncoderError(f"libopus failed ({size})")
        self._encoded += self._size
        self._packets += 1
        position = self._encoded * _CLOCK // self._rate if end is None else end
        self._packet(out.raw[:size], position, last=end is not None)
        if self._packets % _PACKETS_A_PAGE == 0:
            self._flush()

    def _packet(self, data: bytes, position: int, *, first: bool = False, last: bool = False) -> None:
        packet = _Packet(data, len(data), first, last, position, 0)
        if self._ogg.ogg_stream_packetin(self._stream, ctypes.byref(packet)):
            raise EncoderError("libogg failed")

    def _flush(self) -> None:
        page = _Page()
        while self._ogg.ogg_stream_flush(self._stream, ctypes.byref(page)):
            self._out += ctypes.string_at(page.header, page.header_len)
            self._out += ctypes.string_at(page.body, page.body_len)

    def _ready(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data
