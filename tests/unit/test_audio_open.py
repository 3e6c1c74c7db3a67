"""The factory of sinks and the device list."""

from __future__ import annotations

import os
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from audio_rigs import Player, Rig

from cython_kernels.playout import AlsaSink, ClockSink
from edgettsd.audio import open_sink
from edgettsd.config import ConfigError

pytest_plugins = ("audio_rigs",)


@dataclass
class Settings:
    sink: str = "alsa"
    device: str = "default"
    period_ms: int = 20
    buffer_ms: int = 100
    fade_ms: int = 5


def test_the_sound_device_is_not_opened_before_it_is_needed() -> None:
    sink = open_sink(Settings(device="nosuchdevice"), 24_000)
    assert isinstance(sink, AlsaSink)
    assert sink.device == "nosuchdevice"
    assert sink.counters()["opens"] == 0
    assert sink.info()["rate"] == 0


def test_period_and_buffer_reach_the_device(exact_rig: Rig) -> None:
    sink = open_sink(Settings(period_ms=10, buffer_ms=150), 16_000)
    assert isinstance(sink, AlsaSink)
    assert sink.probe() == {
        "rate": 16_000,
        "channels": 1,
        "format": "S16_LE",
        "period_frames": 160,
        "buffer_frames": 2400,
        "can_pause": True,
        "converts_rate": False,
    }


def test_a_file_holds_every_utterance(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    path.write_bytes(b"what was there before" * 1000)
    sink = open_sink(Settings("file", str(path)), 24_000)
    pcm = np.arange(-1000, 1000).astype(np.int16)
    with Player() as player:
        for n in (1, 2):
            player.wait(player.say(sink, pcm), "finished")
            with wave.open(str(path)) as w:
                assert w.getframerate() == 24_000
                assert w.readframes(1 << 20) == pcm.tobytes() * n
    before = len(os.listdir("/proc/self/fd"))
    del sink, player
    assert len(os.listdir("/proc/self/fd")) < before


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^\[audio\] device: .*No such file.*missing/out\.wav"):
        open_sink(Settings("file", str(tmp_path / "missing" / "out.wav")), 24_000)


def test_the_fake_keeps_real_time() -> None:
    sink = open_sink(Settings("fake"), 24_000)
    assert isinstance(sink, ClockSink)
    with Player() as player:
        generation = player.say(sink, np.zeros(6000, np.int16))
        started = player.wait(generation, "started")
        assert (player.wait(generation, "finished")[4] - started[4]) * 1e-9 == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (Settings("pulse"), "sink: 'pulse' given, 'alsa', 'file' or 'fake' allowed"),
        (Settings(period_ms=50, buffer_ms=60), "buffer_ms: 60 given, 100 to 10000 allowed"),
        (Settings(period_ms=0), "period_ms: 0 given, 1 to 1000 allowed"),
    ],
)
def test_bad_settings_are_named(settings: Settings, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        open_sink(settings, 24_000)
