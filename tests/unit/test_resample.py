"""Streaming conversion: exact length, seamless over cuts, clean, and bit-exact where nothing is converted."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cython_kernels.probe_audio import SAMPLE_FORMATS, Converter

RATES = (8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 192000)
FULL = {"S16": 2.0**15, "S32": 2.0**31, "S24": 2.0**23, "F32": 1.0}
DTYPES: dict[str, type] = {"S16": np.int16, "S32": np.int32, "S24": np.int32, "F32": np.float32}


def noise(n: int, seed: int = 0) -> npt.NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-32768, 32768, n).astype(np.int16)


def tone(n: int, hz: float = 1000.0, peak: float = 29_000) -> npt.NDArray[np.int16]:
    return np.round(peak * np.sin(2 * np.pi * hz * np.arange(n) / 24_000)).astype(np.int16)


def convert(c: Converter, pcm: npt.NDArray[np.int16], cuts: list[int]) -> bytes:
    edges = [0, *sorted(cuts), len(pcm)]
    return b"".join(c.feed(pcm[a:b]) for a, b in itertools.pairwise(edges)) + c.flush()


@pytest.mark.parametrize("rate", RATES)
def test_length_is_exact(rate: int) -> None:
    c = Converter(24_000, rate, format="F32")
    for n in (0, 1, 2, 7, 479, 480, 481, 1920, 24_000, 100_003):
        c.reset()
        assert len(convert(c, noise(n), [])) == 4 * ((2 * n * rate + 24_000) // 48_000)


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 5000), max_size=12), max_in=st.integers(1, 2000))
def test_cuts_do_not_matter(rate: int, cuts: list[int], max_in: int) -> None:
    pcm = noise(5000, 3)
    whole = convert(Converter(24_000, rate, format="F32", max_in=5000), pcm, [])
    assert convert(Converter(24_000, rate, format="F32", max_in=max_in), pcm, cuts) == whole


@pytest.mark.parametrize("rate", [r for r in RATES if r != 24_000])
@pytest.mark.parametrize("sample_format", ["S16", "F32"])
def test_a_tone_stays_a_tone(rate: int, sample_format: str) -> None:
    raw = convert(Converter(24_000, rate, format=sample_format), tone(48_000), list(range(0, 48_000, 777)))
    y = np.frombuffer(raw, DTYPES[sample_format]).astype(np.float64) / FULL[sample_format]
    t = np.arange(len(y)) / rate
    inner = slice(rate // 10, -rate // 10)
    basis = np.stack([np.sin(2 * np.pi * 1000 * t), np.cos(2 * np.pi * 1000 * t)], 1)[inner]
    fit = basis @ np.linalg.lstsq(basis, y[inner], rcond=None)[0]
    error = y[inner] - fit
    assert 10 * np.log10(np.mean(fit**2) / np.mean(error**2)) > 90
    # No click anywhere: the largest deviation is that of rounding.
    assert np.abs(error).max() < 2.0 / 32768
    # The tone is neither late nor early.
    assert abs(np.angle(complex(*np.linalg.lstsq(basis, y[inner], rcond=None)[0]))) < 1e-4


def test_nothing_above_the_speech_band_appears() -> None:
    raw = convert(Converter(24_000, 48_000, format="F32"), tone(48_000, 10_000), [])
    y = np.frombuffer(raw, np.float32)[4800:-4800] * np.hanning(96_000 - 9600)
    spectrum = np.abs(np.fft.rfft(y))
    hz = np.fft.rfftfreq(len(y), 1 / 48_000)
    assert 20 * np.log10(spectrum[hz > 13_000].max() / spectrum.max()) < -90


def test_reset_forgets_everything() -> None:
    c = Converter(24_000, 48_000)
    fresh = convert(c, tone(5000), [])
    c.reset()
    c.feed(noise(3333))
    c.reset()
    assert convert(c, tone(5000), []) == fresh


@pytest.mark.parametrize("sample_format", [*FULL, "S24_3"])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_without_resampling_every_sample_value_survives(sample_format: str, channels: int) -> None:
    pcm = np.arange(-32768, 32768).astype(np.int16)
    raw = convert(Converter(24_000, 24_000, format=sample_format, channels=channels), pcm, [100])
    if sample_format == "S24_3":
        b = np.frombuffer(raw, np.uint8).reshape(-1, channels, 3)
        frames = (b[:, :, 1].astype(np.int16) | (b[:, :, 2].astype(np.int16) << 8)).astype(np.int16)
        assert not b[:, :, 0].any()
    else:
        values = np.frombuffer(raw, DTYPES[sample_format]).reshape(-1, channels)
        frames = np.asarray(values.astype(np.float64) * (32768 / FULL[sample_format])).astype(np.int16)
    for channel in frames.T:
        np.testing.assert_array_equal(channel, pcm)


def test_full_strength_is_clipped_not_wrapped() -> None:
    square = np.where(np.arange(24_000) // 12 % 2, 32767, -32768).astype(np.int16)
    y = np.frombuffer(convert(Converter(24_000, 48_000), square, []), np.int16).astype(int)
    # The filter overshoots at every edge; wrapped samples would jump over the whole range within a plateau.
    middle = y.reshape(-1, 24)[10:-10, 8:16]
    assert np.abs(middle).min() > 20_000
    assert (np.sign(middle) == np.sign(middle[:, :1])).all()
    assert y.max() == 32767
    assert y.min() == -32768


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"in_rate": 100, "out_rate": 48_000}, "in_rate: 100 given, 4000 to 384000 allowed"),
        ({"in_rate": 24_000, "out_rate": 400_000}, "out_rate: 400000 given"),
        ({"in_rate": 24_000, "out_rate": 48_000, "channels": 0}, "channels: 0 given, 1 to 32 allowed"),
        (
            {"in_rate": 24_000, "out_rate": 48_000, "format": "U8"},
            f"one of {', '.join(SAMPLE_FORMATS)} allowed",
        ),
    ],
)
def test_values_out_of_range_are_named(options: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Converter(**options)  # type: ignore[arg-type]
