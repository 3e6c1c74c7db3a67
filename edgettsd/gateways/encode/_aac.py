"""AAC in ADTS frames by a process of ffmpeg, where that is installed."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess

from edgettsd.gateways.encode._api import Encoder, EncoderError

# ffmpeg answers within milliseconds; one that takes nothing for this long hangs.
_STALL_MS = 5000


class AacEncoder(Encoder):
    """AAC LC, 64 kbit/s."""

    media_type = "audio/aac"

    def __init__(self, sample_rate: int) -> None:
        program = shutil.which("ffmpeg")
        if program is None:
            raise EncoderError("format 'aac' is not available here: ffmpeg is not installed")
        # Little is read before the first packet; "-fflags nobuffer" would be no sooner, and lose that packet.
        source = ["-probesize", "32", "-f", "s16le", "-ar", str(sample_rate), "-ac", "1"]
        target = ["-c:a", "aac", "-b:a", "64k", "-f", "adts", "-flush_packets", "1", "pipe:1"]
        self._process = subprocess.Popen(
            [program, "-nostdin", "-loglevel", "error", *source, "-i", "pipe:0", *target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)

    def encode(self, samples: bytes) -> bytes:
        out = bytearray()
        poll = select.poll()
        poll.register(self._to, select.POLLOUT)
        poll.register(self._from, select.POLLIN)
        rest = memoryview(samples)
        while rest:
            if not poll.poll(_STALL_MS):
                raise EncoderError("ffmpeg hangs")
            with contextlib.suppress(BlockingIOError):
                try:
                    rest = rest[os.write(self._to, rest) :]
                except BrokenPipeError:
                    raise EncoderError(f"ffmpeg ended with {self._process.wait()}") from None
            out += self._available()
        return bytes(out)

    def finish(self) -> bytes:
        assert self._process.stdin is not None
        self._process.stdin.close()
        out = bytearray()
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        while True:
            if not poll.poll(_STALL_MS):
                raise EncoderError("ffmpeg hangs")
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._from, 1 << 16)
                if not data:
                    break
                out += data
        if self._process.wait():
            raise EncoderError(f"ffmpeg ended with {self._process.returncode}")
        return bytes(out)

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        self._process.wait()

    def _available(self) -> bytes:
        out = bytearray()
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._from, 1 << 16):
                out += data
        return bytes(out)
