"""What every encoder has."""

from __future__ import annotations

import ctypes
from abc import abstractmethod
from types import TracebackType
from typing import ClassVar, Self


class EncoderError(Exception):
    """The samples cannot be encoded; the message says why."""


class Encoder:
    """Bytes of a format from mono s16le samples; the order of use: start, encode.., finish; then close.

    No call waits for anything but the computing itself, which is at most 3 % of the duration of the samples.
    """

    media_type: ClassVar[str]

    def start(self) -> bytes:
        """What comes before all samples, such as a header."""
        return b""

    @abstractmethod
    def encode(self, samples: bytes) -> bytes:
        """Whole samples in, what is ready out; may be empty."""

    def finish(self) -> bytes:
        """What is left after the last sample."""
        return b""

    def close(self) -> None:
        """Give back what the encoder holds; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load(name: str, *sonames: str) -> ctypes.CDLL:
    """The first of these libraries that is installed; raises EncoderError."""
    for soname in sonames:
        try:
            return ctypes.CDLL(soname)
        except OSError:
            continue
    raise EncoderError(f"format {name!r} is not available here: {' or '.join(sonames)} is not installed")
