"""Random weights that keep a model's activations in realistic ranges.

Every tensor has its own random stream, derived from the seed and the tensor's name, so neither the order
of tensors nor the block size changes a value. The normal deviates are made of the bit generator's integers
alone (sum of four uniform 16-bit numbers): numpy promises those to be the same in every release, which it
does not for its own normal distribution, and stored reference results depend on them.

Ranges: residual streams have an RMS of 1 to 3, logits a standard deviation of about 2.5, PCM an RMS of
about 0.1. Channel 0 of the talker's residual stream carries a constant, written by the codec embeddings and
by nothing else; only the head's end-of-speech row reads it. That gives this one logit a bias without
there being a bias tensor: greedy decoding practically never ends by itself, sampling does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

BLOCK = 1 << 22
LOGIT_STD = 2.5
DEFAULT_EOS_LOGIT = 5.5
# RMS of the talker's last residual stream with these gains (measured; varies little with size and seed).
RESIDUAL_RMS = 2.5
# Value of the constant channel.
CONSTANT = 1.0
_DEVIATE_MEAN = 2.0 * 65535.0
_DEVIATE_STD = float(np.sqrt((65536.0**2 - 1.0) / 3.0))

# First match decides. Kinds: linear (gain over the square root of fan-in), transposed (as linear, weight
# [in, out, kernel]), around (1 + spread), scale (centre with a spread of 30 %), normal (standard deviation).
_RULES: tuple[tuple[str, str, float], ...] = (
    (r"talker\.model\.text_embedding\.weight", "normal", 1.0),
    (r"talker\..*codec_embedding\.(\d+\.)?weight", "normal", 0.25),
    (r"talker\.text_projection\.linear_fc1\.weight", "linear", 1.0),
    (r"talker\.text_projection\.linear_fc2\.weight", "linear", 0.8),
    (r"talker\.codec_head\.weight", "linear", LOGIT_STD),
    (r"talker\.code_predictor\.lm_head\.\d+\.weight", "linear", LOGIT_STD),
    (r"talker\..*(layernorm|_norm|\.norm)\.weight", "around", 0.1),
    (r"talker\..*self_attn\.[qkv]_proj\.weight", "linear", 1.0),
    (r"talker\..*self_attn\.o_proj\.weight", "residual", 2.0),
    (r"talker\..*mlp\.gate_proj\.weight", "linear", 1.5),
    (r"talker\..*mlp\.up_proj\.weight", "linear", 1.0),
    (r"talker\..*mlp\.down_proj\.weight", "residual", 2.0),
    (r"talker\..*small_to_mtp_projection\.weight", "linear", 1.0),
    (r"speaker_encoder\.fc\.weight", "linear", 0.3),
    (r"speaker_encoder\..*weight", "linear", 1.4),
    (r".*cluster_usage", "usage", 0.0),
    (r".*(embedding_sum|embed_sum)", "codebook", 1.0),
    (r".*codebook\.initialized", "constant", 1.0),
    (r".*layer_scale\.scale", "scale", 0.3),
    (r".*\.gamma", "scale", 0.3),
    (r".*\.(alpha|beta)", "normal", 0.3),
    (r".*(norm|layernorm)\.weight", "around", 0.1),
    (r"decoder\.pre_conv\.conv\.weight", "linear", 0.7),
    (r"decoder\.upsample\.\d+\.0\.conv\.weight", "transposed", 1.0),
    (r"decoder\.decoder\.\d+\.block\.1\.conv\.weight", "transposed", 0.7),
    (r"decoder\.decoder\.\d+\.block\.\d\.conv1\.conv\.weight", "linear", 0.7),
    (r"decoder\.decoder\.\d+\.block\.\d\.conv2\.conv\.weight", "linear", 0.4),
    (r"decoder\.decoder\.\d+\.conv\.weight", "linear", 1.0),
    (r".*bias", "normal", 0.05),
    (r".*weight", "linear", 1.0),
)
_COMPILED = tuple((re.compile(pattern), kind, value) for pattern, kind, value in _RULES)
_PCM_GAIN = 0.2
# Random residual units at full gain multiply rounding errors from block to block, more so the wider they
# are: at the true size the official f32 code itself would be 107 dB from exact. With these it is above 110.
_WIDE_DECODER = 1024
_WIDE_GAINS = (
    (re.compile(r"decoder\.decoder\.\d+\.block\.\d\.conv1\.conv\.weight"), 0.4),
    (re.compile(r"decoder\.decoder\.\d+\.block\.\d\.conv2\.conv\.weight"), 0.7),
    (re.compile(r"decoder\.decoder\..*\.(alpha|beta)"), 0.5),
)


# The channel of the feed-forward layers that large_activations makes large.
LARGE_CHANNEL = 1


class Weights:
    """The values of every tensor of a checkpoint, as float32 blocks in C order.

    `config` is config.json, `speech` is speech_tokenizer/config.json, `eos_logit` the mean of the
    end-of-speech logit (other logits: mean 0, standard deviation 2.5). `large_activations`: the input of
    every ffn_down of the language models reaches 1e5 and more in one channel, as in the official checkpoints,
    with powers of two that cancel out, so that the models say exactly the same.
    """

    def __init__(
        self,
        seed: int,
        config: Mapping[str, Any],
        speech: Mapping[str, Any],
        eos_logit: float = DEFAULT_EOS_LOGIT,
        large_activations: bool = False,
    ) -> None:
        self._seed = seed
        self._large = large_activations
        self._talker = config["talker_config"]
        self._last = f"decoder.decoder.{len(speech['decoder_config']['upsample_rates']) + 2}.conv.weight"
        self._wide = speech["decoder_config"]["decoder_dim"] >= _WIDE_DECODER
        self._eos_logit = eos_logit

    def blocks(self, name: str, shape: tuple[int, ...]) -> Iterator[Floats]:
        """The tensor in blocks of whole rows (along the first axis)."""
        kind, value = self._rule(name)
        deviates = self._deviates(name)
        rows, width = shape[0], int(np.prod(shape[1:], dtype=np.int64))
        step = max(1, BLOCK // width)
        for start in range(0, rows, step):
            count = min(step, rows - start)
            block = deviates(count * width).reshape(count, *shape[1:])
            block = self._shape(name, shape, kind, value, block, start)
            yield self._enlarge(name, self._special(name, block, start), start)

    def _enlarge(self, name: str, block: Floats, start: int) -> Floats:
        match = re.fullmatch(r"talker\..*layers\.\d+\.(post_attention_layernorm|mlp\.\w+)\.weight", name)
        if not self._large or not match:
            return block
        part, norm, up = match.group(1), np.float32(2**5), np.float32(2**14)
        if part == "post_attention_layernorm":
            return np.asarray(block * norm)
        if part == "mlp.down_proj":
            block[:, LARGE_CHANNEL] /= norm * up
            return block
        block = np.asarray(block / norm)
        if part == "mlp.up_proj" and start <= LARGE_CHANNEL < start + len(block):
            block[LARGE_CHANNEL - start] *= norm * up
        return block

    def _rule(self, name: str) -> tuple[str, float]:
        for pattern, kind, value in _COMPILED:
            if pattern.fullmatch(name):
                gain = next((g for p, g in _WIDE_GAINS if self._wide and p.fullmatch(name)), 1.0)
                return kind, value * gain
        raise ValueError(f"no rule for tensor {name}")

    def _deviates(self, name: str) -> Callable[[int], Floats]:
        digest = hashlib.sha256(f"{self._seed}:{name}".encode()).digest()
        generator = np.random.PCG64(int.from_bytes(digest[:16], "little"))

        def draw(count: int) -> Floats:
            words = np.asarray(generator.random_raw(count)).astype("<u8", copy=False).view("<u2")
            total = words.reshape(count, 4).sum(axis=1, dtype=np.int32)
            centred = total.astype(np.float32) - np.float32(_DEVIATE_MEAN)
            return np.asarray(centred * np.float32(1.0 / _DEVIATE_STD))

        return draw

    def _shape(
        self, name: str, shape: tuple[int, ...], kind: str, value: float, block: Floats, start: int
    ) -> Floats:
        """Give unit deviates the distribution of their rule."""
        if kind == "around":
            return np.asarray(np.float32(1.0) + np.float32(value) * block)
        if kind == "scale":
            return np.asarray(np.float32(value) * (np.float32(1.0) + np.float32(0.3) * block))
        if kind == "constant":
            return np.full_like(block, value)
        if kind == "usage":
            return self._usage(block)
        if kind == "codebook":
            return self._codebook(name, block, start)
        if kind in ("linear", "residual"):
            value /= float(np.sqrt(np.prod(shape[1:], dtype=np.int64)))
            if kind == "residual":
                predictor = "code_predictor" in name
                config = self._talker["code_predictor_config"] if predictor else self._talker
                value /= float(np.sqrt(config["num_hidden_layers"]))
        elif kind == "transposed":
            # An output sample sees 1 tap where the kernel is the stride, 2 where it is twice the stride.
            taps = 1 if name.startswith("decoder.upsample") else 2
            value /= float(np.sqrt(shape[0] * taps))
        if name == self._last:
            # Taps that sum to zero keep the snakes' constant offset out of the PCM.
            return np.asarray(np.float32(value * _PCM_GAIN) * (block - block.mean(axis=-1, keepdims=True)))
        return np.asarray(np.float32(value) * block)

    @staticmethod
    def _usage(block: Floats) -> Floats:
        """Cluster usage: positive, over two orders of magnitude, as training leaves it."""
        return np.asarray(np.maximum(np.float32(20.0) + np.float32(15.0) * block, np.float32(0.5)))

    def _codebook(self, name: str, block: Floats, start: int) -> Floats:
        """Embedding sums: the embedding times its cluster's usage; later codebooks are smaller."""
        usage_name = name.rsplit(".", 1)[0] + ".cluster_usage"
        usage = self._usage(self._deviates(usage_name)(start + len(block)))[start:]
        match = re.search(r"layers\.(\d+)\.", name)
        scale = np.float32(0.8 ** int(match.group(1))) if match else np.float32(1.0)
        return np.asarray(scale * block * usage[:, None])

    def _special(self, name: str, block: Floats, start: int) -> Floats:
        """The constant channel and the end-of-speech logit."""
        if name == "talker.model.codec_embedding.weight":
            block[:, 0] = CONSTANT
        elif re.fullmatch(r"talker\.code_predictor\.model\.codec_embedding\.\d+\.weight", name):
            block[:, 0] = 0.0
        elif start == 0 and (
            re.fullmatch(r"talker\.model\.layers\.\d+\.(self_attn\.o_proj|mlp\.down_proj)\.weight", name)
            or name.startswith("talker.text_projection.linear_fc2.")
        ):
            block[0] = 0.0
        elif name == "talker.model.norm.weight":
            block[0] = 1.0
        elif name == "talker.codec_head.weight":
            block[:, 0] = 0.0
            eos = self._talker["codec_eos_token_id"] - start
            if 0 <= eos < len(block):
                block[eos] = 0.0
                block[eos, 0] = self._eos_logit * RESIDUAL_RMS / CONSTANT
        return block
