"""Where speech goes: the sink interface and the factory that makes one from the configuration.

A sink is a `cython_kernels.pipe.SinkHandle`: a C table (cython_kernels/playout/et_sink.h) that the playout
thread drives without the GIL. Python creates it, hands it to `Playout.set_sink` and closes it after the
utterance's last event; it never plays a sample itself. Three exist:

AlsaSink  a sound device, opened by the first utterance and closed a while after the last
FdSink    a pipe, socket or file that receives s16le or WAV
ClockSink plays by the clock and keeps nothing: sink = "fake", for machines without a sound device
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from cython_kernels.pipe import SinkHandle
from cython_kernels.playout import AlsaSink, ClockSink, FdSink
from edgettsd.config import ConfigError


class Sink(Protocol):
    """What the engine and its tools need of a sink beyond its C table."""

    @property
    def in_use(self) -> bool:
        """Whether the playout thread has it in its hands."""
        ...

    def counters(self) -> Mapping[str, int]:
        """Totals since creation: opens, xruns, suspends."""
        ...

    def close(self) -> None:
        """Close it now; RuntimeError while playout uses it."""
        ...


class AudioSettings(Protocol):
    """The part of edgettsd.config.AudioConfig that names a sink."""

    @property
    def sink(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def period_ms(self) -> int: ...
    @property
    def buffer_ms(self) -> int: ...
    @property
    def fade_ms(self) -> int: ...


def open_sink(config: AudioSettings, sample_rate: int) -> SinkHandle:
    """The sink that the configuration asks for, for mono s16 at `sample_rate` Hz.

    A sound device is not opened before the first utterance. A file is: it is replaced by a WAV file that all
    utterances go into, with a header that is right after each of them. Raises ConfigError when the file
    cannot be written and ValueError when a value is out of range.
    """
    if config.sink == "alsa":
        return AlsaSink(
            config.device,
            sample_rate,
            period_ms=config.period_ms,
            buffer_ms=config.buffer_ms,
            fade_ms=config.fade_ms,
        )
    if config.sink == "file":
        try:
            fd = os.open(config.device, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigError(f"[audio] device: {error}") from error
        return FdSink(fd, "wav", sample_rate, close_fd=True, keep=True)
    if config.sink == "fake":
        return ClockSink(sample_rate, buffer=max(1, sample_rate * config.buffer_ms // 1000))
    raise ValueError(f"sink: {config.sink!r} given, 'alsa', 'file' or 'fake' allowed")
