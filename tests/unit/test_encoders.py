"""The gateway's encoders: what ffmpeg decodes of a stream is what was said, from its first sample on."""

from __future__ import annotations

import asyncio
import io
import shutil
import subprocess
import threading
import wave
from pathlib import Path

import numpy as np
import pytest

from edgettsd.gateways.encode import FORMATS, Encoder, EncoderError, _aac, _api, encoder, encoder_thread

RATE = 24000
FRAME = 1920  # 80 ms at 24 kHz, as the daemon's speech comes


def speech(samples: int, rate: int = RATE) -> np.ndarray:
    """Something like a voice: a gliding tone that swells and ebbs, with a click at the very beginning."""
    t = np.arange(samples) / rate
    tone = np.sin(2 * np.pi * (180 * t + 60 * t**2)) + 0.3 * np.sin(2 * np.pi * 900 * t)
    sound = 9000 * tone * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    sound[:40] += 9000
    return sound.astype("<i2")


def encoded(name: str, sound: np.ndarray, rate: int = RATE, piece: int = FRAME) -> list[bytes]:
    """What an encoder gives: at the start, for each piece, at the end."""
    data = sound.tobytes()
    with encoder(name, rate) as coder:
        parts = [coder.start()]
        parts += [coder.encode(data[i : i + 2 * piece]) for i in range(0, len(data), 2 * piece)]
        parts.append(coder.finish())
    return parts


def decoded(data: bytes, rate: int, *source: str) -> np.ndarray:
    """The samples that ffmpeg makes of a stream; any error fails."""
    command = ["ffmpeg", "-v", "error", *source, "-i", "pipe:0"]
    command += ["-f", "s16le", "-ar", str(rate), "-ac", "1", "pipe:1"]
    done = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    return np.frombuffer(done.stdout, "<i2")


def likeness(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two signals of one length."""
    return float(np.corrcoef(a.astype(float), b.astype(float))[0, 1])


@pytest.mark.parametrize("samples", [1, 960, 1919, 24000, 50_001])
@pytest.mark.parametrize("name", ["flac", "wav"])
def test_lossless_formats_give_every_sample(name: str, samples: int) -> None:
    sound = speech(samples)
    assert np.array_equal(decoded(b"".join(encoded(name, sound)), RATE), sound)


def test_pcm_is_the_samples_themselves() -> None:
    sound = speech(5000)
    assert b"".join(encoded("pcm", sound)) == sound.tobytes()


def test_a_wav_stream_can_be_read_by_the_standard_library() -> None:
    with wave.open(io.BytesIO(b"".join(encoded("wav", speech(1000))))) as stream:
        assert (stream.getnchannels(), stream.getsampwidth(), stream.getframerate()) == (1, 2, RATE)


@pytest.mark.parametrize("rate", [8000, 16000, 24000, 48000])
@pytest.mark.parametrize("length", [0.001, 0.5, 2.03])
def test_opus_gives_as_many_samples_and_the_sound_in_its_place(rate: int, length: float) -> None:
    sound = speech(int(rate * length), rate)
    found = decoded(b"".join(encoded("opus", sound, rate, rate * 2 // 25)), 48000)
    assert len(found) == len(sound) * 48000 // rate
    if length > 0.1:
        there = found[:: 48000 // rate][: len(sound)]
        assert likeness(there, sound) > 0.95


@pytest.mark.parametrize("rate", [16000, 22050, 24000, 44100])
@pytest.mark.parametrize("length", [0.001, 0.5, 2.03])
def test_mp3_begins_with_the_first_sample_and_ends_within_a_frame_and_a_half(
    rate: int, length: float
) -> None:
    sound = speech(int(rate * length), rate)
    found = decoded(b"".join(encoded("mp3", sound, rate)), rate)
    frame = 576 if rate <= 24000 else 1152
    # What the encoder adds at the end is silence: a part of a frame to fill it, and its own delay.
    assert 0 <= len(found) - len(sound) < 3 * frame
    if length > 0.1:
        assert likeness(found[: len(sound)], sound) > 0.95
        assert np.abs(found[len(sound) + frame :]).max(initial=0) < 100


def test_aac_is_decodable_and_not_shorter() -> None:
    sound = speech(48_000)
    found = decoded(b"".join(encoded("aac", sound)), RATE, "-f", "aac")
    # ADTS has no place for the delay of 1,024 samples.
    assert 1024 <= len(found) - len(sound) <= 3 * 1024
    assert likeness(found[1024:][: len(sound)], sound) > 0.95


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"aac"}))
def test_what_was_said_comes_out_while_it_is_said(name: str) -> None:
    parts = encoded(name, speech(RATE))
    # After each 80 ms something is ready; an encoder may look ahead by less than that.
    ready = np.cumsum([len(part) for part in parts])
    assert sum(bool(part) for part in parts[1:4]) >= 2
    assert ready[len(parts) // 2] > 0.3 * ready[-1]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_pieces_of_any_size_make_the_same_sound(name: str) -> None:
    sound = speech(9600)
    source = ("-f", "s16le", "-ar", str(RATE), "-ac", "1") if name == "pcm" else ()
    whole, small = (
        decoded(b"".join(encoded(name, sound, piece=piece)), RATE, *source) for piece in (9600, 113)
    )
    assert len(whole) == len(small) and likeness(whole, small) > 0.999


@pytest.mark.parametrize("name", ["flac", "opus", "mp3", "wav"])
def test_nothing_said_is_still_a_file(name: str) -> None:
    assert b"".join(encoded(name, speech(0)))


def test_what_is_not_there_or_not_possible_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EncoderError, match=r"format 'wma': allowed are mp3, opus, aac, flac, wav, pcm"):
        encoder("wma", RATE)
    with pytest.raises(EncoderError, match=r"mp3 takes .*, not 12345"):
        encoder("mp3", 12345)
    with pytest.raises(EncoderError, match=r"opus takes .*, not 22050"):
        encoder("opus", 22050)
    with pytest.raises(EncoderError, match=r"format 'x' is not available here: libno.so.9 is not installed"):
        _api.load("x", "libno.so.9")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EncoderError, match="format 'aac' is not available here: ffmpeg is not installed"):
        encoder("aac", RATE)


@pytest.mark.parametrize("script, complaint", [("exit 3", "ended with 3"), ("exec sleep 60", "hangs")])
def test_an_ffmpeg_that_dies_or_hangs_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, complaint: str
) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    monkeypatch.setattr(_aac, "_STALL_MS", 100)
    with encoder("aac", RATE) as coder, pytest.raises(EncoderError, match=f"ffmpeg {complaint}"):
        for _ in range(1000):
            coder.encode(bytes(65536))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_encoders_give_back_what_they_hold(name: str) -> None:
    with encoder(name, RATE) as coder:
        coder.start()
        coder.encode(bytes(4000))
    coder.close()


def test_a_cancelled_call_ends_before_the_encoder_is_closed() -> None:
    order: list[str] = []
    began, go_on = threading.Event(), threading.Event()

    class Slow(Encoder):
        media_type = "x"

        def encode(self, samples: bytes) -> bytes:
            began.set()
            go_on.wait(10)
            order.append("encoded")
            return samples

        def close(self) -> None:
            order.append("closed")

    async def test() -> None:
        async def use() -> None:
            async with encoder_thread(Slow) as coder:
                await coder.encode(b"")

        task = asyncio.create_task(use())
        await asyncio.to_thread(began.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert order == []
        go_on.set()
        while len(order) < 2:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(test(), 20))
    assert order == ["encoded", "closed"]
