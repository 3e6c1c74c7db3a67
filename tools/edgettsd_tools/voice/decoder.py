"""The decoder of the built-in voice in closed form: nothing in it is trained.

Every layer of the official class is set so that the whole computes what `vocoder.py` says:

- codebooks and first layers carry the principal components, scaled to equal size, of this frame and the next:
  the sound is `DELAY` frame late, so that a frame is drawn with its successor known;
- norms see constants beside the signal, far larger in sum, so they divide by nearly the same number always,
  and their mean is put back;
- the first upsampling stage makes voicing a switch and the pitch a number of pulses;
- the hidden units of the second one are soft hinges that add up to exponentials: amplitudes of voiced and
  noisy bands; some say which pulses sound in these 20 ms;
- those of the third one let every amplitude through to the pulses that sound in these 10 ms;
- from 100 Hz upwards every channel has a sound of 20 ms, laid down by the transposed convolutions.

Snakes are straight lines where they are passed (sin^2 of little), residual units pass their input on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from edgettsd_tools.voice import vocoder
from edgettsd_tools.voice.codec import Codec
from edgettsd_tools.voice.data import features_of, shards
from edgettsd_tools.voice.decoder_net import ConvNeXt, Decoder, config_for
from edgettsd_tools.voice.features import (
    BANDS,
    FLOOR,
    FRAME,
    PITCH_MEAN,
    PITCH_WEIGHT,
    SUB,
    VOICING_WEIGHT,
)
from edgettsd_tools.voice.vocoder import (
    COUNTS,
    GATE,
    LENGTH,
    NOISE_GROUPS,
    NOISES,
    PLACED,
    STEP,
    SURE,
    UNVOICED,
)

# Frames by which the sound is later than its codes.
DELAY = 1
# Constants beside the signal in the layers that are normed.
CONSTANT = 6.0
# Hinges of the exponentials: voiced, noisy.
HINGES, NOISE_HINGES = 14, 5
# Dimensions of all sounds of the placed bands, at every shift.
SHAPES = 96
# A switch is at its ends beyond this part of the way; an amplitude below this is turned down.
SHARP, SMALL = 100.0, 0.02
# What marks one of the four 20 ms of a frame; noise of the others is turned down by as much (logarithm).
MARK = 2.0 * GATE
# Logarithm of a snake's frequency at which it is a straight line for what passes here.
STRAIGHT = -5.0
# More than any amplitude: what holds back one that is not wanted.
BARRIER = 8.0
# A slot of 20 ms at 25 Hz: bands, pitch, voicing; and what the pitch becomes.
FIELDS = BANDS + 2
PITCH, VOICING = BANDS, BANDS + 1
LEVELS = len(COUNTS) - 1


@functools.cache
def hinges(count: int, lowest: float) -> tuple[Any, Any, float]:
    """Places t, weights w and steepness s: exp(u) is about the sum of w gelu(s (u - t)) for u up to 0.5,
    the better the larger above exp(lowest)."""
    import scipy.optimize
    from scipy.special import erf

    u = np.linspace(lowest - 2.0, 0.5, 600)
    scale = 1.0 / (np.exp(u) + np.exp(lowest + 0.5))
    best: tuple[float, Any, Any, float] | None = None
    for steep in np.linspace(1.0, 6.0, 21):
        for shift in np.linspace(0.0, 1.5, 7):
            at = np.linspace(lowest - shift, 0.2, count)
            x = steep * (u[:, None] - at)
            table = x * 0.5 * (1.0 + erf(x / 2**0.5))
            weights, _ = scipy.optimize.nnls(table * scale[:, None], np.exp(u) * scale)
            worst = float(np.abs((table @ weights - np.exp(u)) * scale).max())
            if best is None or worst < best[0]:
                best = worst, at, weights, float(steep)
    assert best is not None
    return best[1], best[2], best[3]


class _Stage:
    """One ConvNeXt block: `signals` channels of signal, constants after them; hidden units one by one."""

    def __init__(self, block: ConvNeXt, signals: int) -> None:
        self.block, self.signals, self._next = block, signals, 0
        self.width = block.pwconv1.in_features
        self.constants = self.width - signals
        for parameter in block.parameters():
            parameter.zero_()
        block.dwconv.conv.weight[:, 0, -1] = 1.0
        block.norm.weight.fill_(1.0)
        block.gamma.fill_(1.0)

    def levels(self) -> Tensor:
        """The constants [width]: half of them CONSTANT, half of them minus that."""
        out = torch.zeros(self.width)
        half = self.constants // 2
        out[self.signals : self.signals + half] = CONSTANT
        out[self.signals + half : self.signals + 2 * half] = -CONSTANT
        return out

    def unit(self, inputs: dict[int, float], bias: float, steep: float, outputs: dict[int, float]) -> None:
        """outputs += weight / steep gelu(steep (inputs . signal + bias))."""
        if self._next == self.block.pwconv1.out_features:
            raise ValueError(f"more than {self._next} hidden units are needed")
        row = torch.zeros(self.width)
        for channel, weight in inputs.items():
            row[channel] = weight
        # The norm takes the mean off every channel; some constants and their opposites tell it. As many as
        # make their weights about 1: then rounding to 8 bits does little harm.
        total, half = float(row.sum()), self.constants // 2
        pairs = min(half, max(1, math.ceil(abs(total) / 2)))
        for start in (self.signals, self.signals + half):
            row[start : start + pairs] = -total / (2 * pairs)
        self.block.pwconv1.weight[self._next] = steep * row
        self.block.pwconv1.bias[self._next] = steep * bias
        for channel, weight in outputs.items():
            self.block.pwconv2.weight[channel, self._next] = weight / steep
        self._next += 1

    def remove(self, channel: int) -> None:
        """Take what is in a channel of signal out of it."""
        self.unit({channel: 1.0}, 0.0, 1.0, {channel: -1.0})
        self.unit({channel: -1.0}, 0.0, 1.0, {channel: 1.0})

    def step(self, inputs: dict[int, float], low: float, high: float, outputs: dict[int, float]) -> None:
        """outputs += weight times 0 to 1 as inputs . signal goes from `low` to `high`."""
        slope = 1.0 / (high - low)
        for bound, sign in ((low, slope), (high, -slope)):
            self.unit(inputs, -bound, 12.0 * slope, {c: sign * w for c, w in outputs.items()})


def pulse_channels() -> dict[tuple[float, int], list[tuple[int, int]]]:
    """(shift, half of the 20 ms) -> the (index into COUNTS, 20 ms of the frame) at which it sounds."""
    out: dict[tuple[float, int], list[tuple[int, int]]] = {}
    for index, found in enumerate(vocoder.places()):
        for step, shift in found:
            out.setdefault((shift, step % 2), []).append((index, step // 2))
    return out


def silent_channels() -> dict[int, list[tuple[int, int]]]:
    """Half of the 20 ms -> the (index into COUNTS, 20 ms of the frame) in which it has no pulse."""
    out: dict[int, list[tuple[int, int]]] = {}
    for index, found in enumerate(vocoder.places()):
        for step in sorted(set(range(vocoder.STEPS)) - {step for step, _ in found}):
            out.setdefault(step % 2, []).append((index, step // 2))
    return out


@torch.no_grad()  # type: ignore[untyped-decorator]
def make(codec: Codec, codes: npt.NDArray[np.int64]) -> Decoder:
    """The decoder for a codec; `codes` [frames, groups] are typical ones, of some hundred frames.

    Its sound is DELAY frames and 5 ms late.
    """
    decoder = Decoder(config_for(codec.groups, codec.entries))
    for parameter in decoder.parameters():
        parameter.zero_()
    _codes(decoder, codec, codes)
    usual = _slots(decoder, codec, codes)
    stage = _switches(decoder, usual)
    stage = _exponentials(decoder, stage, usual)
    _let_through(decoder, stage)
    _sounds(decoder)
    _norms(decoder, torch.from_numpy(codes.T.copy())[None])
    return decoder.eval()  # type: ignore[no-any-return]


def _codes(decoder: Decoder, codec: Codec, codes: npt.NDArray[np.int64]) -> None:
    """Codebooks to the transformer's output: components of this frame and the next, constants."""
    dims = codec.books.shape[2]
    quantizer = decoder.quantizer
    books = torch.from_numpy(codec.books / codec.vectors(codes).std(0).clip(1e-3))
    layers = [*quantizer.rvq_first.vq.layers, *quantizer.rvq_rest.vq.layers]
    for layer, book in zip(layers, books, strict=True):
        layer._codebook.embedding_sum.copy_(book)
        layer._codebook.cluster_usage.fill_(1.0)
    for part in (quantizer.rvq_first, quantizer.rvq_rest):
        part.output_proj.weight[:dims, :, 0] = torch.eye(dims)
    conv, transformer = decoder.pre_conv.conv, decoder.pre_transformer
    hidden = transformer.input_proj.out_features
    for index in range(dims):
        conv.weight[index, index, 1] = conv.weight[dims + index, index, 2] = 1.0
    # The mean pitch of the frame before this one.
    conv.weight[2 * dims, :dims, 0] = _pitch_row(codec, codes)
    transformer.input_proj.weight[:, :hidden] = torch.eye(hidden)
    first = 2 * dims + 1
    transformer.input_proj.bias[first : first + (hidden - first) // 2] = CONSTANT
    transformer.input_proj.bias[first + (hidden - first) // 2 :] = -CONSTANT
    for layer in transformer.layers:
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            norm.weight.fill_(1.0)
    transformer.output_proj.weight[:hidden] = torch.eye(hidden)


def _pitch_row(codec: Codec, codes: npt.NDArray[np.int64]) -> Tensor:
    """Scaled components -> a frame's mean pitch, centred."""
    spread = codec.vectors(codes).std(0).clip(1e-3)
    rows = codec.basis.reshape(SUB, FIELDS, -1)[:, PITCH].mean(0)
    return torch.from_numpy(rows * spread)


def _slots(decoder: Decoder, codec: Codec, codes: npt.NDArray[np.int64]) -> Tensor:
    """First stage's upsampling: two slots of 20 ms, 1 and 2 of this frame, then 3 and the next one's 0.

    A slot's pitch is the mean of its frame and the one before it. Returns the fields' means [FIELDS].
    """
    dims = codec.books.shape[2]
    spread = torch.from_numpy(codec.vectors(codes).std(0).clip(1e-3))
    basis = torch.from_numpy(codec.basis.reshape(SUB, FIELDS, dims).copy()) * spread
    pitch = _pitch_row(codec, codes)
    mean = torch.from_numpy(codec.mean.reshape(SUB, FIELDS).copy())
    usual = mean.mean(0)
    conv = decoder.upsample[0][0].conv
    for half, slots in enumerate((((0, 1), (0, 2)), ((0, 3), (1, 0)))):
        for slot, (frame, sub) in enumerate(slots):
            here, first = slot * FIELDS, frame * dims
            conv.weight[first : first + dims, here : here + FIELDS, half] = basis[sub].T
            conv.weight[: 3 * dims, here + PITCH, half] = 0.0
            conv.weight[first : first + dims, here + PITCH, half] = pitch / 2
            if frame:
                conv.weight[:dims, here + PITCH, half] = pitch / 2
            else:
                conv.weight[2 * dims, here + PITCH, half] = 0.5
    # Which half it is, as +1 or -1: 0.5 of two constants against the bias.
    mark, source = 2 * FIELDS, 2 * dims + 1
    conv.weight[source, mark, 0], conv.weight[source, mark, 1] = -1.0 / CONSTANT, 1.0 / CONSTANT
    return usual


def _switches(decoder: Decoder, usual: Tensor) -> int:
    """Voicing and the number of pulses, at 25 Hz; returns how many channels are signal there."""
    signals = 2 * FIELDS + 1 + 2 * LEVELS
    stage = _Stage(decoder.upsample[0][1], signals)
    decoder.upsample[0][0].conv.bias.copy_(stage.levels())
    levels = (np.log(vocoder.thresholds()) - PITCH_MEAN) * PITCH_WEIGHT - float(usual[PITCH])
    for slot in range(2):
        voicing, pitch = slot * FIELDS + VOICING, slot * FIELDS + PITCH
        offset = float(usual[VOICING]) / VOICING_WEIGHT + 0.5
        stage.step({voicing: 1.0 / VOICING_WEIGHT}, UNVOICED - offset, SURE - offset, {voicing: GATE})
        stage.remove(voicing)
        for index, level in enumerate(levels):
            output = 2 * FIELDS + 1 + slot * LEVELS + index
            stage.step({pitch: 1.0}, level - 0.5 / SHARP, level + 0.5 / SHARP, {output: 1.0})
    return signals


def _exponentials(decoder: Decoder, before: int, usual: Tensor) -> int:
    """Amplitudes and pulses of 20 ms, at 50 Hz; returns how many channels the next stage has to keep."""
    second = decoder.upsample[1][0].conv
    levels, subs = FIELDS, FIELDS + LEVELS
    signals = FIELDS + LEVELS + SUB
    stage = _Stage(decoder.upsample[1][1], signals)
    second.bias.copy_(stage.levels())
    mark = 2 * FIELDS
    for half in range(2):
        for field in range(FIELDS):
            second.weight[half * FIELDS + field, field, half] = 1.0
        for index in range(LEVELS):
            second.weight[mark + 1 + half * LEVELS + index, levels + index, half] = 1.0
        # The mark is -1 in the first half of a frame and 1 in the second; slots are 1, 2 | 3, 0.
        for sign, sub in ((-0.5, (1, 2)[half]), (0.5, (3, 0)[half])):
            second.weight[mark, subs + sub, half] = sign * MARK
    second.bias[subs : subs + SUB] = 0.0
    _add_half(decoder, mark, subs)
    middle = usual.numpy()
    quiet = vocoder.pulse_gate()
    at, weights, steep = hinges(HINGES, -6.0)
    for band, unit in enumerate(vocoder.units()):
        inputs = {band: 1.0, VOICING: 1.0 + quiet[band] / GATE}
        for where, weight in zip(at, weights, strict=True):
            bias = middle[band] - GATE - np.log(unit) - where
            stage.unit(inputs, bias, steep, {signals + band: weight * steep})
        stage.block.pwconv2.bias[signals + band] = -np.exp(FLOOR) / unit
    at, weights, steep = hinges(NOISE_HINGES, -4.5)
    for sub in range(SUB):
        for index, group in enumerate(NOISE_GROUPS):
            inputs = {band: 1.0 / len(group) for band in group}
            inputs |= {VOICING: vocoder.noisy_gate()[index] / GATE, subs + sub: 1.0}
            usual_level = middle[list(group)].mean() - np.log(vocoder.noise_units()[index])
            for where, weight in zip(at, weights, strict=True):
                output = signals + BANDS + sub * NOISES + index
                stage.unit(inputs, usual_level - MARK - where, steep, {output: weight * steep})
    # A pulse's channel is 0 where it sounds: what holds it back else need not be exact.
    first, sounding = signals + BANDS + SUB * NOISES, pulse_channels()
    wanted = [*sounding.values(), *silent_channels().values()]
    stage.block.pwconv2.bias[first : first + len(sounding)] = 1.0
    for index in range(len(COUNTS)):
        for sub in range(SUB):
            outputs = {
                first + c: -1.0 if c < len(sounding) else 1.0
                for c, pairs in enumerate(wanted)
                if (index, sub) in pairs
            }
            inputs = {subs + sub: 1.0 / MARK}
            if index:
                inputs[levels + index - 1] = 1.0
            if index < LEVELS:
                inputs[levels + index] = -1.0
            offset = 1.0 if index else 0.0
            stage.step(inputs, offset + 0.25, offset + 0.75, outputs)
    return signals


def _add_half(decoder: Decoder, mark: int, subs: int) -> None:
    """The marks of the four 20 ms are 0 or 1: a half from a constant at 25 Hz beside -0.5 and 0.5."""
    second = decoder.upsample[1][0].conv
    constant = 2 * FIELDS + 1 + 2 * LEVELS
    for half in range(2):
        for sub in ((1, 2)[half], (3, 0)[half]):
            second.weight[constant, subs + sub, half] = 0.5 * MARK / CONSTANT


def _let_through(decoder: Decoder, before: int) -> None:
    """Third stage, at 100 Hz: amplitudes to the sounds of these 10 ms."""
    pulses, silent = pulse_channels(), silent_channels()
    shifts = vocoder.shifts()
    third = decoder.upsample[2][0].conv
    noise, gates = BANDS, BANDS + SUB * NOISES
    signals = gates + len(shifts) + 1
    stage = _Stage(decoder.upsample[2][1], signals)
    third.bias.copy_(stage.levels())
    constants = _Stage.levels(_Shadow(decoder.upsample[1][1].pwconv1.in_features, before))
    first = before + BANDS + SUB * NOISES
    sources: list[tuple[int, int, int]] = []
    for half in range(2):
        sources += [(before + c, c, half) for c in range(gates)]
        for index, (shift, parity) in enumerate(pulses):
            if parity == half:
                sources.append((first + index, gates + shifts.index(shift), half))
        for index, parity in enumerate(silent):
            if parity == half:
                sources.append((first + len(pulses) + index, gates + len(shifts), half))
    signs = torch.from_numpy(vocoder.signs()).float().reshape(2, SUB * NOISES)
    for source, channel, half in sources:
        sign = float(signs[half, channel - noise]) if noise <= channel < gates else 1.0
        third.weight[source, channel, half] = sign
    # What was written at 50 Hz lies on top of its constants.
    _cancel(decoder, constants, signals)
    spare = int(constants.nonzero()[-1])
    for half in range(2):
        for index, shift in enumerate(shifts):
            if (shift, half) not in pulses:
                third.weight[spare, gates + index, half] = 1.0 / constants[spare]
    # Voiced amplitudes are interpolated, one step late; the gates wait for them.
    window = stage.block.dwconv.conv.weight
    for channel in range(signals):
        window[channel, 0] = 0.0
        if channel < BANDS:
            window[channel, 0, 4:] = torch.tensor([0.25, 0.5, 0.25])
        else:
            window[channel, 0, 5] = 1.0
    shapes = sound_shapes()
    steep = 1.0 / SMALL
    for index, shift in enumerate(shifts):
        sounds = vocoder.pulses(shift)
        for band in range(PLACED):
            found = {signals + i: float(v) for i, v in enumerate(shapes @ sounds[band])}
            stage.unit({band: 1.0, gates + index: -BARRIER}, 0.0, steep, found)
    for band in range(PLACED, BANDS):
        output = signals + SHAPES + band - PLACED
        stage.unit({band: 1.0, gates + len(shifts): -BARRIER}, 0.0, steep, {output: 1.0})


class _Shadow(_Stage):
    """The constants of a stage that is set already."""

    def __init__(self, width: int, signals: int) -> None:
        self.width, self.signals, self.constants = width, signals, width - signals


def _cancel(decoder: Decoder, constants: Tensor, signals: int) -> None:
    """Take the constants of the second stage out of what the third one reads, by a constant of its own."""
    third = decoder.upsample[2][0].conv
    # The last constant is one that nothing else uses.
    spare = int(constants.nonzero()[-1])
    for half in range(2):
        offset = constants @ third.weight[:, :signals, half]
        third.weight[spare, :signals, half] -= offset / constants[spare]


@functools.cache
def sound_shapes() -> Any:
    """Orthonormal shapes [SHAPES, LENGTH] that the pulses of the placed bands are made of, at any shift."""
    sounds = np.concatenate([vocoder.pulses(shift)[:PLACED] for shift in vocoder.shifts()])
    loud = np.repeat(vocoder.units()[None, :PLACED] ** 0.5, len(vocoder.shifts()), 0).reshape(-1, 1)
    return np.linalg.svd(sounds / loud, full_matrices=False)[2][:SHAPES]


def _sounds(decoder: Decoder) -> None:
    """From 100 Hz upwards: every channel's sound, a piece of it at each rate."""
    rates: Sequence[int] = decoder.config["upsample_rates"]
    signals = BANDS + SUB * NOISES + len(vocoder.shifts()) + 1
    conv = decoder.decoder[0].conv
    high = vocoder.pulses(0.0)[PLACED:]
    noises = vocoder.noises().reshape(SUB * NOISES, LENGTH)
    sounds = torch.from_numpy(np.concatenate((sound_shapes(), high, noises))).float()
    # All of one size, for the sake of rounding; the layer before makes up for it.
    norms = sounds.norm(dim=1)
    sounds /= norms[:, None]
    levels = _Shadow(decoder.upsample[2][1].pwconv1.in_features, signals).levels()
    for row in range(SHAPES + BANDS - PLACED):
        conv.weight[row, signals + row, -1] = norms[row]
        conv.bias[row] = -levels[signals + row] * norms[row]
    for row in range(SUB * NOISES):
        # One step late, like the voiced ones.
        output = SHAPES + BANDS - PLACED + row
        conv.weight[output, BANDS + row, -2] = norms[output]
    size = STEP // rates[0]
    for index, rate in enumerate(rates):
        block = decoder.decoder[index + 1].block
        block[0].alpha.fill_(STRAIGHT)
        for unit in block[2:]:
            for act in (unit.act1, unit.act2):
                act.alpha.fill_(STRAIGHT)
        weight = block[1].conv.weight
        if index == 0:
            pieces = sounds.reshape(len(sounds), 2 * rate, size)
            weight[: len(sounds), :size] = pieces.transpose(1, 2)
            continue
        size //= rate
        for channel in range(size * rate):
            weight[channel, channel % size, channel // size] = 1.0
    last, final = decoder.decoder[len(rates) + 1], decoder.decoder[len(rates) + 2]
    last.alpha.fill_(STRAIGHT)
    final.conv.weight[0, 0, -1] = 1.0


def _norms(decoder: Decoder, codes: Tensor) -> None:
    """Set the weight of each norm on the way to the usual size of what it sees, in order."""
    transformer = decoder.pre_transformer
    x = decoder.pre_conv(decoder.quantizer(codes)).transpose(1, 2)
    seen = transformer.input_proj(x)
    transformer.norm.weight.fill_(float(seen.pow(2).mean(-1).sqrt()[:, 2:].mean()))
    x = transformer(x).transpose(1, 2)
    for stage in decoder.upsample:
        x = stage[0](x)
        seen = stage[1].dwconv(x).transpose(1, 2)
        stage[1].norm.weight.fill_(float(seen.std(-1, correction=0)[:, 16:].mean()))
        x = stage[1](x)


def typical(work: Path, codec: Codec) -> npt.NDArray[np.int64]:
    """Codes of the first sentences of the teacher's audio in WORK/synth, for `make`.

    Raises FileNotFoundError when there is none.
    """
    found = shards(work / "synth")
    if not found:
        raise FileNotFoundError(f"{work / 'synth'} has no audio; run the step synth first")
    return codec.encode(codec.project(features_of(found[0])[:800]))


@torch.no_grad()  # type: ignore[untyped-decorator]
def decode(decoder: Decoder, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Audio [frames * FRAME] of codes [frames, groups], in time with them."""
    longer = np.concatenate((codes, np.repeat(codes[-1:], DELAY, 0)))
    sound = decoder(torch.from_numpy(longer.T.copy())[None])[0, DELAY * FRAME :]
    return sound.clamp(-1.0, 1.0).numpy()  # type: ignore[no-any-return]
