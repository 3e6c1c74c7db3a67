"""What the decoder of the built-in voice computes: a channel vocoder, here in plain numpy.

Pulses and noise through the bands of the envelope. A frame of 80 ms holds a whole number of evenly spaced
pulses, 6 to 9 (75 to 112.5 Hz, the range of the teacher's voice): so the place of every pulse follows
from the frame alone, and no layer has to carry a phase from one frame to the next. `decoder.py` sets
the layers of the official class to the same.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd_tools.voice.features import (
    BANDS,
    FLOOR,
    FRAME,
    PITCH_MEAN,
    PITCH_WEIGHT,
    RATE,
    SUB,
    VOICING_WEIGHT,
    WIDTH,
    mel_edges,
    triangles,
)

Floats = npt.NDArray[np.float32]
Wide = npt.NDArray[np.float64]

# Sounds are laid down every 10 ms, 20 ms long.
STEP = RATE // 100
LENGTH = 2 * STEP
STEPS = FRAME // STEP
# Pulses a frame, and the bands whose pulses are placed exactly; those above sound in the middle of the step.
COUNTS = (6, 7, 8, 9)
PLACED = 24
# Bands of noise: coarse below, pairs of bands above. Every 20 ms of a frame has noise of its own.
NOISE_GROUPS = (
    *((i, i + 1, i + 2, i + 3) for i in range(0, 12, 4)),
    *((i, i + 1) for i in range(12, BANDS, 2)),
)
NOISES = len(NOISE_GROUPS)
# Where voiced speech turns noisy, and how much of it does at most.
MIXED_LOW, MIXED_HIGH, MIXED = 3000.0, 5000.0, 0.5
# Amplitudes are kept in units of a loud one, which falls off with frequency: magnitude at 0 Hz, at 12 kHz.
LOUD, LOUD_HIGH = 0.9, 0.06
# How far (natural logarithm) a band is turned down where it is not wanted.
GATE = 5.0
# Voicing below and above which a sub-frame is taken as unvoiced and voiced.
UNVOICED, SURE = 0.25, 0.75


def centres() -> Wide:
    """Centre of every band in Hz."""
    return mel_edges()[1:-1]


def units() -> Wide:
    """Unit [BANDS] of each band's amplitude."""
    return np.asarray(LOUD * (LOUD_HIGH / LOUD) ** (centres() / (RATE / 2)))


def noise_units() -> Wide:
    """Unit [NOISES] of each noisy amplitude."""
    return np.array([units()[list(group)].mean() for group in NOISE_GROUPS])


def noisy_part() -> Wide:
    """Part of every band that is noise in voiced speech."""
    return np.asarray(MIXED * np.clip((centres() - MIXED_LOW) / (MIXED_HIGH - MIXED_LOW), 0.0, 1.0))


def pulse_gate() -> Wide:
    """Logarithm of how far every band of pulses is open in voiced speech: powers add up to 1."""
    return np.asarray(0.5 * np.log(1.0 - noisy_part() ** 2))


def noisy_gate() -> Wide:
    """Logarithm of how far every band of noise is open in voiced speech."""
    return np.log([noisy_part()[list(group)].mean() + np.exp(-GATE) for group in NOISE_GROUPS])


def thresholds() -> Wide:
    """Pitch in Hz above which a frame has 7, 8, 9 pulses."""
    hertz = np.array(COUNTS) * RATE / FRAME
    return np.asarray(np.sqrt(hertz[:-1] * hertz[1:]))


@functools.cache
def places() -> tuple[tuple[tuple[int, float], ...], ...]:
    """For each of COUNTS, the pulses of a frame: the step of 10 ms, and the samples after its middle."""
    out = []
    for count in COUNTS:
        times = (np.arange(count) + 0.5) * FRAME / count
        steps = np.minimum(times // STEP, STEPS - 1).astype(int)
        after = np.round(times - steps * STEP - STEP / 2, 6)
        out.append(tuple(zip(steps.tolist(), after.tolist(), strict=True)))
    return tuple(out)


def shifts() -> list[float]:
    """Every distance of a pulse from the middle of its step, in samples, in ascending order."""
    return sorted({shift for pulses in places() for _, shift in pulses})


@functools.cache
def pulses(shift: float) -> Wide:
    """Sound [BANDS, LENGTH] of a pulse `shift` samples after the middle, for an amplitude of one unit.

    Over a train of pulses a band of 1 everywhere has a variance of 1.
    """
    hertz = np.fft.rfftfreq(2 * LENGTH, 1 / RATE)
    phases = np.exp(-2j * np.pi * hertz * (LENGTH + shift) / RATE)
    sound = np.fft.irfft(triangles(hertz) * phases, 2 * LENGTH)[:, LENGTH // 2 : -LENGTH // 2]
    time = np.arange(LENGTH) - LENGTH / 2 - shift
    # The window reaches the ends of the 20 ms on either side of the pulse.
    reach = np.where(time < 0, LENGTH / 2 + shift, LENGTH / 2 - shift)
    window = 0.5 + 0.5 * np.cos(np.pi * np.clip(time / reach, -1.0, 1.0))
    users = [
        count for count, found in zip(COUNTS, places(), strict=True) if any(s == shift for _, s in found)
    ]
    period = FRAME / np.mean(users) if users else STEP
    return np.asarray(sound * window * units()[:, None] * period**0.5)


@functools.cache
def noises() -> Wide:
    """Sound [SUB, NOISES, LENGTH] of noise of one unit, another one for every 20 ms of a frame."""
    rng = np.random.default_rng(1)
    hertz = np.fft.rfftfreq(LENGTH, 1 / RATE)
    gains = np.array([triangles(hertz)[list(group)].sum(0) for group in NOISE_GROUPS])
    window = np.hanning(LENGTH + 1)[:-1] * (LENGTH / 0.75) ** 0.5 * noise_units()[:, None]
    phases = np.exp(2j * np.pi * rng.random((SUB, 1, len(hertz))))
    return np.asarray(np.fft.irfft(gains * phases, LENGTH) * window)


@functools.cache
def signs() -> Wide:
    """Sign [2, SUB, NOISES] of the noise in the first and the second 10 ms of 20, so that they differ."""
    return np.where(np.random.default_rng(2).random((2, SUB, NOISES)) < 0.5, -1.0, 1.0)


def opening(voicing: Any) -> Any:
    """0 (unvoiced) to 1 (voiced), with a slope between UNVOICED and SURE."""
    return np.clip((voicing - UNVOICED) / (SURE - UNVOICED), 0.0, 1.0)


def counts(rows: Floats) -> npt.NDArray[np.int64]:
    """Index into COUNTS for each frame, from the mean pitch of the frame and the one before it."""
    level = rows.reshape(-1, SUB, WIDTH)[:, :, BANDS].mean(1)
    level = (level + np.concatenate((level[:1] * 0, level[:-1]))) / 2
    hertz = np.exp(level / PITCH_WEIGHT + PITCH_MEAN)
    return np.asarray(np.searchsorted(thresholds(), hertz), np.int64)


def amplitudes(rows: Floats) -> tuple[Wide, Wide]:
    """Voiced amplitudes [frames * STEPS, BANDS] and noisy ones [frames * SUB, NOISES], in units."""
    fine = rows.reshape(-1, WIDTH).astype(np.float64)
    share = opening(fine[:, BANDS + 1] / VOICING_WEIGHT + 0.5)[:, None]
    level, floor = fine[:, :BANDS], np.exp(FLOOR)
    gate = (1.0 - share) * -GATE + share * pulse_gate()
    voiced = np.maximum(np.exp(level + gate) - floor, 0.0) / units()
    mean = np.stack([level[:, list(group)].mean(1) for group in NOISE_GROUPS], 1)
    noisy = np.maximum(np.exp(mean) - floor, 0.0) * np.exp(share * noisy_gate()) / noise_units()
    before, after = np.vstack((voiced[:1], voiced[:-1])), np.vstack((voiced[1:], voiced[-1:]))
    between = np.stack((0.25 * before + 0.75 * voiced, 0.75 * voiced + 0.25 * after), 1)
    return between.reshape(-1, BANDS), noisy


def render(rows: Floats) -> Floats:
    """Audio [frames * FRAME] of features [frames, SIZE]."""
    voiced, noisy = amplitudes(rows)
    out = np.zeros(len(rows) * FRAME + LENGTH)
    middle = pulses(0.0)
    for frame, index in enumerate(counts(rows)):
        sounding = set()
        for step, shift in places()[index]:
            level = voiced[frame * STEPS + step]
            start = frame * FRAME + step * STEP
            out[start : start + LENGTH] += level[:PLACED] @ pulses(shift)[:PLACED]
            if step not in sounding:
                out[start : start + LENGTH] += level[PLACED:] @ middle[PLACED:]
            sounding.add(step)
    for index, level in enumerate(noisy):
        place = index % SUB
        for half in range(2):
            start = index * 2 * STEP + half * STEP
            out[start : start + LENGTH] += (level * signs()[half, place]) @ noises()[place]
    return np.asarray(out[STEP // 2 : STEP // 2 + len(rows) * FRAME], np.float32)
