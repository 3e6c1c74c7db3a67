"""A channel vocoder inside the decoder: the start from which its training leaves.

From 100 Hz upwards the decoder's layers are set to a linear synthesis: every channel at 100 Hz is the
amplitude of one band, with a pulse (voiced) or a burst of noise (unvoiced) of 20 ms as its sound. The
layers below learn those amplitudes by plain regression, at a hundredth of the cost of training on sound. It
speaks like a robot at 100 Hz but clearly; training on spectra then starts from speech instead of from
noise.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from edgettsd_tools.voice.decoder_net import Decoder
from edgettsd_tools.voice.features import (
    BANDS,
    FLOOR,
    RATE,
    SUB,
    VOICING_WEIGHT,
    WIDTH,
    WINDOW,
    mel_filters,
)

Floats = npt.NDArray[np.float32]

STEP = RATE // 100
LENGTH = 2 * STEP
STEPS = 8
# Voiced bands: fine below, in pairs above; unvoiced ones in pairs. What is above 11 kHz is empty.
VOICED = [[i] for i in range(48)] + [[i, i + 1] for i in range(48, 76, 2)]
NOISY = [[i, i + 1] for i in range(0, 76, 2)]
CHANNELS = len(VOICED) + len(NOISY)
# Amplitude of a magnitude of 1 in a band, for a pulse train and for noise, found by comparing levels.
PULSE_GAIN, NOISE_GAIN = 0.00212, 0.00263
# Where voiced speech turns noisy.
MIXED_LOW, MIXED_HIGH = 3000.0, 5000.0
# Amplitudes are stored so that their usual size is 1.
TYPICAL = 1.0


def _centres() -> Any:
    filters = mel_filters()
    return (filters * np.arange(filters.shape[1])).sum(1) * RATE / WINDOW


@functools.cache
def kernels() -> Floats:
    """Sound [CHANNELS, LENGTH] of an amplitude of 1."""
    rng = np.random.default_rng(1)
    hertz = np.fft.rfftfreq(LENGTH, 1 / RATE)
    edges = np.concatenate(([0.0], _centres(), [RATE / 2]))
    rise = (hertz - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - hertz) / (edges[2:] - edges[1:-1])[:, None]
    gains = np.clip(np.minimum(rise, fall), 0.0, 1.0)
    window = np.hanning(LENGTH + 1)[:-1]
    delay = np.exp(-2j * np.pi * hertz * (LENGTH / 2) / RATE)
    out = [np.fft.irfft(gains[band].sum(0) * delay, LENGTH) * window for band in VOICED]
    for band in NOISY:
        phases = np.exp(2j * np.pi * rng.random(len(hertz)))
        out.append(np.fft.irfft(gains[band].sum(0) * phases, LENGTH) * window)
    scale = LENGTH * TYPICAL * np.repeat([PULSE_GAIN, NOISE_GAIN], [len(VOICED), len(NOISY)])
    return (np.array(out) * scale[:, None]).astype(np.float32)


@functools.cache
def _signs() -> Floats:
    """Sign [STEPS, CHANNELS] of each amplitude by its place in the frame: it makes the bursts of noise
    differ."""
    signs = np.ones((STEPS, CHANNELS), np.float32)
    shape = (STEPS, len(NOISY))
    signs[:, len(VOICED) :] = np.where(np.random.default_rng(2).random(shape) < 0.5, -1.0, 1.0)
    return signs


def amplitudes(rows: Floats) -> Floats:
    """Signed amplitudes [frames * STEPS, CHANNELS] for features [frames, 328], without looking into the
    next frame."""
    fine = rows.reshape(-1, WIDTH)
    times = (np.arange(STEPS) + 0.5) * SUB / STEPS - 0.5
    low = np.minimum(np.floor(times).astype(int), SUB - 1)
    share = np.where(times > SUB - 1, 0.0, times - low)[None, :, None]
    first = np.arange(len(rows))[:, None] * SUB + low
    before, after = np.maximum(first, 0), np.minimum(first + 1, len(fine) - 1)
    after = np.where(share[0, :, 0] > 0, after, before)
    mixed = (fine[before] * (1 - share) + fine[after] * share).reshape(-1, WIDTH)
    level = np.exp(mixed[:, :BANDS])
    level[mixed[:, :BANDS] < FLOOR + 0.3] = 0.0
    voicing = np.clip(mixed[:, BANDS + 1] / VOICING_WEIGHT + 0.5, 0.0, 1.0)[:, None]
    noisy = np.clip((_centres() - MIXED_LOW) / (MIXED_HIGH - MIXED_LOW), 0.0, 1.0)
    pulse = voicing * (1.0 - 0.5 * noisy)
    parts = [(level * pulse)[:, band].mean(1) for band in VOICED]
    parts += [(level * (1.0 - pulse))[:, band].mean(1) for band in NOISY]
    signs = np.tile(_signs(), (len(rows), 1))
    return (np.stack(parts, 1) / TYPICAL * signs).astype(np.float32)


def head(decoder: Decoder, codes: Tensor) -> Tensor:
    """What the decoder has at 100 Hz, [batch, 128, frames * STEPS], of codes [batch, groups, frames]."""
    x = decoder.pre_conv(decoder.quantizer(codes))
    x = decoder.pre_transformer(x.transpose(1, 2)).transpose(1, 2)
    for stage in decoder.upsample:
        x = stage(x)
    return decoder.decoder[1](decoder.decoder[0](x))  # type: ignore[no-any-return]


def head_parameters(decoder: Decoder) -> list[nn.Parameter]:
    """What `head` uses, but for the codebooks."""
    parts = (
        decoder.quantizer,
        decoder.pre_conv,
        decoder.pre_transformer,
        decoder.upsample,
        decoder.decoder[:2],
    )
    return [p for part in parts for p in part.parameters() if p.requires_grad]


@torch.no_grad()  # type: ignore[untyped-decorator]
def install(decoder: Decoder) -> None:
    """Set the layers from 100 Hz upwards to the synthesis, and every residual unit to pass its input on."""
    rates = decoder.config["upsample_rates"]
    if rates[0] != 2 or decoder.config["upsampling_ratios"] != [2, 2]:
        raise ValueError(
            f"upsample_rates {rates} after {decoder.config['upsampling_ratios']}: 100 Hz is needed first"
        )
    blocks = [decoder.decoder[index + 1].block for index in range(len(rates))]
    for block in blocks:
        for unit in block[2:]:
            unit.conv2.conv.weight.zero_()
            unit.conv2.conv.bias.zero_()
    for block in blocks[1:]:
        block[0].alpha.fill_(-3.0)
        block[1].conv.weight.mul_(0.02)
        block[1].conv.bias.zero_()
    sounds = torch.from_numpy(kernels())
    width, size = blocks[1][1].conv.weight.shape[1], STEP // rates[1]
    pieces = sounds.reshape(CHANNELS, 2 * rates[1], size)
    # The best `width` shapes of a piece; the last ones carry next to nothing.
    shapes = torch.linalg.svd(pieces.reshape(-1, size), full_matrices=False).Vh[:width]
    blocks[1][1].conv.weight[:CHANNELS, : len(shapes)] = (pieces @ shapes.T).transpose(1, 2)
    channels = shapes
    for block, rate in zip(blocks[2:], rates[2:], strict=True):
        size = channels.shape[1] // rate
        weight = block[1].conv.weight
        weight[: len(channels), :size] = 0.0
        weight[: len(channels), :size, :rate] = channels.reshape(len(channels), rate, size).transpose(1, 2)
        channels = torch.eye(size)
    last, final = decoder.decoder[len(rates) + 1], decoder.decoder[len(rates) + 2]
    last.alpha.fill_(-3.0)
    final.conv.weight.mul_(0.02)
    final.conv.bias.zero_()
    final.conv.weight[0, 0] = 0.0
    final.conv.weight[0, 0, -1] = 1.0
