"""The vocoder of the built-in voice in numpy: what its decoder computes."""

from __future__ import annotations

import numpy as np
import pytest
from edgettsd_tools.voice import features, vocoder


def rows(hertz: float, voiced: bool, frames: int = 12, level: float = -2.0) -> np.ndarray:
    """Features of a flat envelope."""
    fine = np.full((frames * features.SUB, features.WIDTH), level, np.float32)
    fine[:, features.BANDS] = (np.log(hertz) - features.PITCH_MEAN) * features.PITCH_WEIGHT
    fine[:, features.BANDS + 1] = (0.5 if voiced else -0.5) * features.VOICING_WEIGHT
    return fine.reshape(frames, features.SIZE)


@pytest.mark.parametrize(("hertz", "pulses"), [(70.0, 6), (88.0, 7), (101.0, 8), (115.0, 9)])
def test_a_frame_has_a_whole_number_of_pulses(hertz: float, pulses: int) -> None:
    sound = vocoder.render(rows(hertz, True))[features.FRAME * 4 : features.FRAME * 8]
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    first = np.arange(len(spectrum)) * features.RATE / len(sound)
    low = (first > 50) & (first < 1.5 * pulses * 12.5)
    assert first[low][spectrum[low].argmax()] == pytest.approx(pulses * 12.5, abs=2.0)


def test_pulses_are_evenly_spaced_within_and_across_frames() -> None:
    for count, found in zip(vocoder.COUNTS, vocoder.places(), strict=True):
        times = [step * vocoder.STEP + vocoder.STEP / 2 + shift for step, shift in found]
        again = [*times, *(t + features.FRAME for t in times)]
        np.testing.assert_allclose(np.diff(again), features.FRAME / count, atol=1e-5)


@pytest.mark.parametrize("voiced", [True, False])
def test_what_is_rendered_has_the_envelope_that_was_asked_for(voiced: bool) -> None:
    """Pulses in every band within 2 dB; noise, with little of it to measure, within 1 dB on average."""
    wanted = rows(88.0, voiced, frames=40)
    hertz = np.full(160, 87.5, np.float32)
    found = features.log_bands(vocoder.render(wanted), hertz, np.full(160, float(voiced), np.float32))
    error = (found - wanted.reshape(-1, features.WIDTH)[:, : features.BANDS])[8:-8, 4:36].mean(0)
    decibels = 8.7 * np.abs(error)
    assert decibels.max() < 2.0 if voiced else decibels.mean() < 1.0


def test_silence_is_silent() -> None:
    assert np.abs(vocoder.render(rows(88.0, False, level=features.FLOOR))).max() < 1e-6


def test_noise_does_not_repeat_within_a_frame() -> None:
    sound = vocoder.render(rows(88.0, False, frames=6))[features.FRAME * 2 : features.FRAME * 3]
    power = float((sound**2).sum())
    for lag in (240, 480, 960, 1440):
        assert abs(float((sound[lag:] * sound[:-lag]).sum())) < 0.25 * power
