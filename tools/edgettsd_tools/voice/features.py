"""What the codec codes: four spectral envelopes, pitch and voicing in every frame of 80 ms.

A frame is 1,920 samples at 24 kHz. It holds four sub-frames of 20 ms; each gives 40 mel bands of the
spectral envelope, the logarithm of the pitch and a voicing flag, so a frame has 4 x 42 = 168 numbers.

The envelope is free of the pitch: windows are three periods long and the power spectrum is smoothed over one
pitch interval, as in CheapTrick (M. Morise, "CheapTrick, a spectral envelope estimator for high-quality
speech synthesis", Speech Communication 67, 2015), without its liftering. Codes need not be spent
on where the harmonics are.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

RATE = 24_000
FRAME = 1920
SUB = 4
HOP = FRAME // SUB
WINDOW = 1024
# Length of the envelope's transforms.
SPECTRUM = 2048
BANDS = 40
LOW, HIGH = 60.0, 11_500.0
# Added to magnitudes before the logarithm (natural): what is far below cannot be heard in this voice.
FLOOR = -7.0
WIDTH = BANDS + 2
SIZE = SUB * WIDTH
# Weights of pitch and voicing beside the bands.
PITCH_WEIGHT, VOICING_WEIGHT = 5.0, 3.0
PITCH_MEAN = float(np.log(110.0))
PITCH_LOW, PITCH_HIGH = 60.0, 260.0
# Pitch that stands in where there is none, for the length of windows and the width of smoothing.
UNVOICED_WINDOW, UNVOICED_SMOOTH = 160.0, 300.0


def mel_edges(bands: int = BANDS) -> npt.NDArray[np.float64]:
    """Edges and centres of triangular bands in Hz [bands + 2]."""

    def mel(hertz: float) -> float:
        return float(1127.0 * np.log1p(hertz / 700.0))

    return np.asarray(700.0 * np.expm1(np.linspace(mel(LOW), mel(HIGH), bands + 2) / 1127.0))


def triangles(hertz: Any, bands: int = BANDS) -> npt.NDArray[np.float64]:
    """Weight [bands, ...] of each triangular band at frequencies in Hz."""
    edges = mel_edges(bands)
    rise = (hertz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - hertz) / (edges[2:] - edges[1:-1])[:, None]
    return np.asarray(np.maximum(0.0, np.minimum(rise, fall)))


@functools.cache
def mel_filters(bands: int = BANDS, size: int = SPECTRUM) -> Floats:
    """Triangular filters [bands, size / 2 + 1] for a transform of `size`, each summing to 1."""
    filters = triangles(np.arange(size // 2 + 1) * RATE / size, bands)
    # The lowest bands may be narrower than a bin: each takes at least the bin at its centre.
    for row, centre in zip(filters, mel_edges(bands)[1:-1], strict=True):
        if row.sum() == 0.0:
            row[round(float(centre) * size / RATE)] = 1.0
    return np.asarray(filters / filters.sum(axis=1, keepdims=True), np.float32)


def windows(audio: Floats, size: int) -> Floats:
    """Windows [sub-frames, size] centred in each 20 ms of `audio`, whose length is a multiple of FRAME."""
    before = size // 2 - HOP // 2
    padded = np.pad(audio, (before, size))
    view = np.lib.stride_tricks.sliding_window_view(padded, size)[::HOP]
    return view[: len(audio) // HOP]


def envelope(audio: Floats, hertz: Floats, voiced: Floats) -> Floats:
    """Power [sub-frames, SPECTRUM / 2 + 1], the mean of two windows of unit energy 10 ms apart.

    `hertz` and `voiced` [sub-frames] are the pitch of `audio`, whose length is a multiple of FRAME.
    """
    padded = np.pad(audio, SPECTRUM)
    out = np.zeros((len(hertz), SPECTRUM // 2 + 1), np.float32)
    for index in range(2 * len(hertz)):
        tone = voiced[index // 2] > 0.5
        size = int(3 * RATE / (hertz[index // 2] if tone else UNVOICED_WINDOW)) | 1
        hann = np.hanning(size + 2)[1:-1]
        centre = SPECTRUM + index * HOP // 2 + HOP // 4
        piece = padded[centre - size // 2 : centre + size // 2 + 1] * hann
        power = np.abs(np.fft.rfft(piece, SPECTRUM)) ** 2 / (hann**2).sum()
        width = max(3, round((hertz[index // 2] if tone else UNVOICED_SMOOTH) * SPECTRUM / RATE) | 1)
        half = width // 2
        mirrored = np.concatenate(([0.0], power[half:0:-1], power, power[-2 : -half - 2 : -1]))
        sums = np.cumsum(mirrored)
        out[index // 2] += (sums[width:] - sums[:-width]) / (2 * width)
    return out


def log_bands(audio: Floats, hertz: Floats, voiced: Floats) -> Floats:
    """Logarithm of magnitude plus floor [sub-frames, BANDS]."""
    power = envelope(audio, hertz, voiced) @ mel_filters().T
    return np.asarray(np.log(np.sqrt(power) + np.exp(FLOOR)), np.float32)


def magnitudes(bands: Any) -> Any:
    """Magnitudes that `log_bands` stand for, 0 and above."""
    return np.maximum(np.exp(bands) - np.exp(FLOOR), 0.0)


def _median(values: Floats, size: int) -> Floats:
    """Running median over an odd number of values; the ends are repeated."""
    padded = np.pad(values, size // 2, mode="edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, size), axis=1).astype(np.float32)


def pitch(audio: Floats) -> tuple[Floats, Floats]:
    """Pitch in Hz (interpolated where there is none) and voicing 0 or 1, [sub-frames] each.

    Normalised autocorrelation of 43 ms windows; the shortest lag wins among near equals.
    """
    hann = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    size = 2 * WINDOW

    def correlate(x: Floats) -> Floats:
        power = np.abs(np.fft.rfft(x, size, axis=-1)) ** 2
        return np.fft.irfft(power, size, axis=-1)[..., : WINDOW // 2].astype(np.float32)

    frames = windows(audio, WINDOW)
    loud = frames.std(axis=1) > 0.004
    ratio = correlate((frames - frames.mean(axis=1, keepdims=True)) * hann)
    ratio = ratio / np.maximum(ratio[:, :1], 1e-9) / (correlate(hann) / correlate(hann)[0])
    low, high = int(RATE / PITCH_HIGH), int(RATE / PITCH_LOW)
    lags = np.arange(low, high)
    band = ratio[:, low:high] - 0.08 * np.log2(lags / low)
    best = band.argmax(axis=1)
    voiced = loud & (np.take_along_axis(ratio[:, low:high], best[:, None], 1)[:, 0] > 0.5)
    hertz = RATE / lags[best]
    voiced = _median(voiced.astype(np.float32), 3) > 0.5
    if not voiced.any():
        return np.full(len(hertz), np.exp(PITCH_MEAN), np.float32), np.zeros(len(hertz), np.float32)
    places = np.flatnonzero(voiced)
    curve = np.interp(np.arange(len(hertz)), places, _median(hertz[places], 5))
    return curve.astype(np.float32), voiced.astype(np.float32)


def whole_frames(audio: Floats) -> Floats:
    """The audio padded with silence to whole frames."""
    return np.pad(audio, (0, -len(audio) % FRAME)).astype(np.float32)


def features(audio: Floats) -> Floats:
    """Features [frames, SIZE] of audio float32 at 24 kHz (padded to whole frames)."""
    audio = whole_frames(audio)
    hertz, voiced = pitch(audio)
    columns = (
        log_bands(audio, hertz, voiced),
        (np.log(hertz) - PITCH_MEAN)[:, None] * PITCH_WEIGHT,
        (voiced - 0.5)[:, None] * VOICING_WEIGHT,
    )
    return np.concatenate(columns, axis=1).astype(np.float32).reshape(-1, SIZE)


def parts(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Magnitudes [sub-frames, BANDS], pitch in Hz and voicing 0 to 1 [sub-frames] of features."""
    fine = rows.reshape(-1, WIDTH)
    hertz = np.exp(fine[:, BANDS] / PITCH_WEIGHT + PITCH_MEAN)
    voicing = np.clip(fine[:, BANDS + 1] / VOICING_WEIGHT + 0.5, 0.0, 1.0)
    return magnitudes(fine[:, :BANDS]), hertz, voicing
