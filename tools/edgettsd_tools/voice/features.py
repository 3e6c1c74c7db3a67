"""What the codec codes: four spectra, pitch and voicing in every frame of 80 ms.

A frame is 1,920 samples at 24 kHz. It holds four sub-frames of 20 ms, centred at 10, 30, 50 and 70 ms; each
gives 80 log-mel bands, the logarithm of the pitch and a voicing flag, so a frame has 4 x 82 = 328 numbers.
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
BANDS = 80
LOW, HIGH = 40.0, 11_500.0
# Bands are clipped here (natural logarithm of the magnitude): what is below cannot be heard in this voice.
FLOOR = -5.0
WIDTH = BANDS + 2
SIZE = SUB * WIDTH
# Weights of pitch and voicing beside the log-mel bands, chosen so that pitch survives quantisation within 2
# %.
PITCH_WEIGHT, VOICING_WEIGHT = 20.0, 3.0
PITCH_MEAN = float(np.log(110.0))
PITCH_LOW, PITCH_HIGH = 60.0, 260.0


@functools.cache
def mel_filters() -> Floats:
    """Triangular filters [BANDS, WINDOW / 2 + 1], each summing to 1."""

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)

    edges = 700.0 * np.expm1(np.linspace(mel(LOW), mel(HIGH), BANDS + 2) / 1127.0)
    bins = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    filters = np.maximum(0.0, np.minimum(rise, fall))
    # The lowest bands are narrower than a bin: each takes at least the bin at its centre.
    for row, centre in zip(filters, edges[1:-1], strict=True):
        if row.sum() == 0.0:
            row[round(float(centre) * WINDOW / RATE)] = 1.0
    filters /= filters.sum(axis=1, keepdims=True)
    return filters.astype(np.float32)


def windows(audio: Floats, size: int) -> Floats:
    """Windows [sub-frames, size] centred in each 20 ms of `audio`, whose length is a multiple of FRAME."""
    before = size // 2 - HOP // 2
    padded = np.pad(audio, (before, size))
    view = np.lib.stride_tricks.sliding_window_view(padded, size)[::HOP]
    return view[: len(audio) // HOP]


def log_mel(audio: Floats) -> Floats:
    """Log-mel magnitudes [sub-frames, BANDS]."""
    hann = np.hanning(WINDOW + 1)[:-1].astype(np.float32)
    spectrum = np.abs(np.fft.rfft(windows(audio, WINDOW) * hann, axis=1)).astype(np.float32)
    return np.asarray(np.log(np.maximum(spectrum @ mel_filters().T, np.exp(FLOOR))), np.float32)


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
        log_mel(audio),
        (np.log(hertz) - PITCH_MEAN)[:, None] * PITCH_WEIGHT,
        (voiced - 0.5)[:, None] * VOICING_WEIGHT,
    )
    return np.concatenate(columns, axis=1).astype(np.float32).reshape(-1, SIZE)


def griffin_lim(rows: Floats, rounds: int = 60) -> Floats:
    """Audio from features [frames, SIZE]: the spectrum by least squares, phases by iteration (momentum 0.99).

    The analysis hop of 20 ms is too coarse for phases, so bands are interpolated to 5 ms first.
    """
    mel = np.exp(rows.reshape(-1, WIDTH)[:, :BANDS].astype(np.float64))
    fine = HOP // 4
    times = (np.arange(len(mel) * 4) + 0.5) / 4 - 0.5
    grid = np.arange(len(mel))
    mel = np.exp(np.stack([np.interp(times, grid, column) for column in np.log(mel).T], axis=1))
    filters = mel_filters().astype(np.float64)
    magnitude = np.maximum(mel @ np.linalg.pinv(filters).T, 1e-6)
    hann = np.hanning(WINDOW + 1)[:-1]
    length = len(magnitude) * fine + WINDOW

    def overlap(frames: Any) -> Any:
        out = np.zeros(length)
        for index, frame in enumerate(frames):
            out[index * fine : index * fine + WINDOW] += frame
        return out

    weight = np.maximum(overlap(np.broadcast_to(hann**2, (len(magnitude), WINDOW))), 1e-3)

    def inverse(spectrum: Any) -> Any:
        return overlap(np.fft.irfft(spectrum, WINDOW, axis=1) * hann) / weight

    rng = np.random.default_rng(1)
    phase = np.exp(2j * np.pi * rng.random(magnitude.shape))
    before = np.zeros_like(phase)
    for _ in range(rounds):
        audio = inverse(magnitude * phase)
        frames = np.lib.stride_tricks.sliding_window_view(audio, WINDOW)[::fine][: len(magnitude)]
        now = np.fft.rfft(frames * hann, axis=1)
        phase = now + 0.99 * (now - before)
        phase /= np.maximum(np.abs(phase), 1e-9)
        before = now
    audio = inverse(magnitude * phase)
    return np.asarray(audio[WINDOW // 2 - fine // 2 :][: len(rows) * FRAME], np.float32)
