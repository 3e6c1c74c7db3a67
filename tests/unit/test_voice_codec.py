"""The features and the closed-form codec of the built-in voice's training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.voice import codec, features


def tone(hertz: float, seconds: float, harmonics: int = 12) -> np.ndarray:
    t = np.arange(int(seconds * features.RATE)) / features.RATE
    wave = sum(np.sin(2 * np.pi * hertz * k * t) / k for k in range(1, harmonics + 1))
    return (0.2 * wave).astype(np.float32)


def test_a_frame_is_80_ms_and_the_rest_is_padded() -> None:
    assert features.features(np.zeros(features.FRAME * 3 + 1, np.float32)).shape == (4, features.SIZE)


@pytest.mark.parametrize("hertz", [80.0, 110.0, 190.0])
def test_pitch_of_a_voiced_sound(hertz: float) -> None:
    found, voiced = features.pitch(tone(hertz, 0.8))
    assert voiced[3:-3].all()
    np.testing.assert_allclose(found[3:-3], hertz, rtol=0.02)


def test_silence_and_noise_are_unvoiced() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, features.FRAME * 5).astype(np.float32)
    for sound in (np.zeros(features.FRAME * 5, np.float32), noise):
        assert features.pitch(sound)[1].mean() < 0.2


def test_a_sound_is_loudest_in_the_band_of_its_frequency() -> None:
    t = np.arange(features.FRAME * 3) / features.RATE
    sound = (0.3 * np.sin(2 * np.pi * 3000 * t)).astype(np.float32)
    bands = features.log_bands(sound, np.full(12, 110.0), np.zeros(12))
    assert abs(features.mel_edges()[1:-1][bands[5].argmax()] - 3000) < 150


@pytest.mark.parametrize("hertz", [80.0, 95.0, 110.0])
def test_the_envelope_does_not_show_the_pitch(hertz: float) -> None:
    """Harmonics of equal strength give a flat envelope, wherever they are."""
    t = np.arange(features.FRAME * 6) / features.RATE
    count = int(11_000 / hertz)
    sound = 0.02 * sum(np.cos(2 * np.pi * hertz * k * t) for k in range(1, count + 1)).astype(np.float32)
    voiced = np.ones(24, np.float32)
    bands = features.log_bands(sound, voiced * hertz, voiced)[6:-6, 6:34]
    assert np.abs(bands - bands.mean()).max() < 0.35


def test_magnitudes_are_what_the_bands_say() -> None:
    levels = np.array([0.0, 1e-3, 0.5], np.float32)
    bands = np.log(levels + np.exp(features.FLOOR))
    np.testing.assert_allclose(features.magnitudes(bands), levels, atol=1e-7)


@pytest.fixture(scope="module")
def fitted() -> tuple[codec.Codec, np.ndarray]:
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(6, features.SIZE)).astype(np.float32)
    rows = (rng.normal(size=(1500, 6)) @ mixing).astype(np.float32)
    return codec.fit(rows, groups=4, entries=16, dims=6), rows


def test_every_code_lessens_the_error(fitted: tuple[codec.Codec, np.ndarray]) -> None:
    made, rows = fitted
    lost = codec.distortions(made, rows)
    assert lost == sorted(lost, reverse=True) and lost[-1] < 0.2
    exact = made.rows(made.encode(made.project(rows)))
    assert lost[-1] == pytest.approx(
        float(((rows - exact) ** 2).sum() / ((rows - made.mean) ** 2).sum()), rel=1e-3
    )


def test_later_codes_make_up_for_a_loose_first_one(fitted: tuple[codec.Codec, np.ndarray]) -> None:
    made, rows = fitted
    vectors = made.project(rows)
    nearest = made.encode(vectors)
    loose = made.encode(vectors, np.random.default_rng(1), 0.3)
    changed = nearest[:, 0] != loose[:, 0]
    assert 0.01 < changed.mean() < 0.6
    error = ((vectors - made.vectors(loose)) ** 2).sum(1)[changed].mean()
    first_only = codec.Codec(made.mean, made.basis, made.books[:1])
    assert error < ((vectors - first_only.vectors(loose[:, :1])) ** 2).sum(1)[changed].mean() / 2


def test_a_codec_survives_its_file(fitted: tuple[codec.Codec, np.ndarray], tmp_path: Path) -> None:
    made, rows = fitted
    made.save(tmp_path / "codec.npz")
    again = codec.Codec.load(tmp_path / "codec.npz")
    assert (again.groups, again.entries) == (4, 16)
    np.testing.assert_array_equal(again.encode(again.project(rows)), made.encode(made.project(rows)))


def test_other_features_are_refused() -> None:
    with pytest.raises(ValueError, match="168"):
        codec.fit(np.zeros((10, 5), np.float32), 2, 4, 3)
