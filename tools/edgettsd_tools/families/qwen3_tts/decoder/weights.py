"""The official decoder's tensors, folded into what the graph computes with.

Folds are done in float64 and rounded once. What is folded: codebook normalisation, the two
quantizer output projections and pre_conv into the transformer's input projection; norm weights
into the next linear; 1/sqrt(head_dim) into the query; layer scales, gamma; the transformer's
output projection into the first transposed convolution.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .config import CODEBOOK_EPS, CONV_TAPS, PRE_CONV_TAPS, DecoderConfig

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
# A linear or convolution: weight and bias, f32.
Affine = tuple[F32, F32]


def _f32(array: F64) -> F32:
    return np.ascontiguousarray(array, np.float32)


class Weights:
    """Reads the tensors it needs through ``tensors(name)`` and folds them, one call a constant."""

    def __init__(self, config: DecoderConfig, tensors: Callable[[str], NDArray[np.float32]]) -> None:
        self._config = config
        self._tensors = tensors

    def get(self, name: str, *shape: int) -> F64:
        """Tensor ``name`` as float64. Raises ValueError if its shape is not ``shape`` or it is not finite."""
        value = np.asarray(self._tensors(name))
        if value.shape != shape:
            raise ValueError(f"decoder tensor {name} has shape {list(value.shape)}; {list(shape)} is needed")
        wide = value.astype(np.float64)
        if not np.isfinite(wide).all():
            raise ValueError(f"decoder tensor {name} holds NaN or infinity; finite numbers are needed")
        return wide

    def codebooks(self) -> F32:
        """All codebooks, one above the other: [quantizers * codebook_size, codebook_dim / 2]."""
        c = self._config
        rows = []
        for q in range(c.quantizers):
            part = "rvq_first.vq.layers.0" if q == 0 else f"rvq_rest.vq.layers.{q - 1}"
            name = f"quantizer.{part}._codebook"
            total = self.get(f"{name}.embedding_sum", c.codebook_size, c.codebook_dim // 2)
            usage = self.get(f"{name}.cluster_usage", c.codebook_size)
            rows.append(_f32(total / np.maximum(usage, CODEBOOK_EPS)[:, None]))
        return np.concatenate(rows)

    def entry(self) -> Affine:
        """Quantizer projections, pre_conv and input_proj as one causal convolution.

        Weight [hidden, 1, 3, codebook_dim] over the concatenation of the first codebook's vector
        and the sum of the others; bias [hidden].
        """
        c = self._config
        half = c.codebook_dim // 2
        project = np.concatenate(
            [
                self.get(f"quantizer.{part}.output_proj.weight", c.codebook_dim, half, 1)[:, :, 0]
                for part in ("rvq_first", "rvq_rest")
            ],
            axis=1,
        )
        conv = self.get("pre_conv.conv.weight", c.latent, c.codebook_dim, PRE_CONV_TAPS)
        conv_bias = self.get("pre_conv.conv.bias", c.latent)
        linear = self.get("pre_transformer.input_proj.weight", c.hidden, c.latent)
        bias = linear @ conv_bias + self.get("pre_transformer.input_proj.bias", c.hidden)
        taps = [linear @ (conv[:, :, k] @ project) for k in range(PRE_CONV_TAPS)]
        return _f32(np.stack(taps, axis=1)[:, None]), _f32(bias)

    def qkv(self, layer: int) -> Affine:
        """Query, key and value projections: weight [(heads + 2 kv_heads) * head_dim, hidden], bias."""
        c = self._config
        name = f"pre_transformer.layers.{layer}"
        norm = self.get(f"{name}.input_layernorm.weight", c.hidden)
        weights, biases = [], []
        for part, heads, scale in (
            ("q", c.heads, c.head_dim**-0.5),
            ("k", c.kv_heads, 1.0),
            ("v", c.kv_heads, 1.0),
        ):
            rows = heads * c.head_dim
            weights.append(self.get(f"{name}.self_attn.{part}_proj.weight", rows, c.hidden) * norm * scale)
            bias = (
                self.get(f"{name}.self_attn.{part}_proj.bias", rows) if c.attention_bias else np.zeros(rows)
            )
            biases.append(bias * scale)
        return _f32(np.concatenate(weights)), _f32(np.concatenate(biases))

    def attention_out(self, layer: int) -> Affine:
        """Attention output projection with its layer scale: weight [hidden, heads * head_dim], bias."""
        c = self._config
        name = f"pre_transformer.layers.{layer}"
        scale = self.get(f"{name}.self_attn_layer_scale.scale", c.hidden)
        weight = self.get(f"{name}.self_attn.o_proj.weight", c.hidden, c.heads * c.head_dim)
        bias = self.get(f"{name}.self_attn.o_proj.bias", c.hidden) if c.attention_bias else np.zeros(c.hidden)
        return _f32(weight * scale[:, None]), _f32(bias * scale)

    def gate_up(self, layer: int) -> Affine:
        """Gate and up projections, one above the other: weight [2 ffn, hidden], zero bias."""
        c = self._config
        name = f"pre_transformer.layers.{layer}"
        norm = self.get(f"{name}.post_attention_layernorm.weight", c.hidden)
        weight = np.concatenate(
            [self.get(f"{name}.mlp.{part}_proj.weight", c.ffn, c.hidden) for part in ("gate", "up")]
        )
        return _f32(weight * norm), np.zeros(2 * c.ffn, np.float32)

    def down(self, layer: int) -> Affine:
        """Down projection with its layer scale: weight [hidden, ffn], zero bias."""
        c = self._config
        name = f"pre_transformer.layers.{layer}"
        scale = self.get(f"{name}.mlp_layer_scale.scale", c.hidden)
        weight = self.get(f"{name}.mlp.down_proj.weight", c.hidden, c.ffn)
        return _f32(weight * scale[:, None]), np.zeros(c.hidden, np.float32)

    def upsample(self, stage: int) -> Affine:
        """Transposed convolution with kernel = stride = ratio as a linear to ratio * latent channels.

        Stage 0 takes the normalised hidden state: the final norm and output_proj are folded in.
        Weight [ratio * latent, latent or hidden], bias [ratio * latent].
        """
        c = self._config
        ratio = c.ratios[stage]
        conv = self.get(f"upsample.{stage}.0.conv.weight", c.latent, c.latent, ratio)
        weight = conv.transpose(2, 1, 0).reshape(ratio * c.latent, c.latent)
        bias = np.tile(self.get(f"upsample.{stage}.0.conv.bias", c.latent), ratio)
        if stage == 0:
            norm = self.get("pre_transformer.norm.weight", c.hidden)
            linear = self.get("pre_transformer.output_proj.weight", c.latent, c.hidden)
            bias = bias + weight @ self.get("pre_transformer.output_proj.bias", c.latent)
            weight = weight @ (linear * norm)
        return _f32(weight), _f32(bias)

    def depthwise(self, stage: int) -> Affine:
        """Depthwise convolution of a ConvNeXt block: weight [1, 1, 7, latent], bias [latent]."""
        c = self._config
        name = f"upsample.{stage}.1.dwconv.conv"
        weight = self.get(f"{name}.weight", c.latent, 1, CONV_TAPS)
        return _f32(weight[:, 0].T[None, None]), _f32(self.get(f"{name}.bias", c.latent))

    def pointwise_in(self, stage: int) -> Affine:
        """First ConvNeXt linear with the LayerNorm's weight and bias: weight [4 latent, latent], bias."""
        c = self._config
        name = f"upsample.{stage}.1"
        weight = self.get(f"{name}.pwconv1.weight", 4 * c.latent, c.latent)
        bias = self.get(f"{name}.pwconv1.bias", 4 * c.latent)
        bias = bias + weight @ self.get(f"{name}.norm.bias", c.latent)
        return _f32(weight * self.get(f"{name}.norm.weight", c.latent)), _f32(bias)

    def pointwise_out(self, stage: int) -> Affine:
        """Second ConvNeXt linear with gamma: weight [latent, 4 latent], bias [latent]."""
        c = self._config
        name = f"upsample.{stage}.1"
        gamma = self.get(f"{name}.gamma", c.latent)
        weight = self.get(f"{name}.pwconv2.weight", c.latent, 4 * c.latent)
        return _f32(weight * gamma[:, None]), _f32(self.get(f"{name}.pwconv2.bias", c.latent) * gamma)

    def conv(self, name: str, outputs: int, inputs: int, taps: int) -> Affine:
        """A plain convolution in TFLite's layout: weight [outputs, 1, taps, inputs], bias [outputs]."""
        weight = self.get(f"{name}.conv.weight", outputs, inputs, taps)
        return _f32(weight.transpose(0, 2, 1)[:, None]), _f32(self.get(f"{name}.conv.bias", outputs))

    def transposed(self, name: str, inputs: int, outputs: int, rate: int) -> Affine:
        """Transposed convolution (kernel 2 rate, stride rate) as a causal one with two taps.

        Output channel j * outputs + o of frame t is sample t * rate + j: tap 1 (frame t) holds the
        kernel's first half, tap 0 (frame t - 1) its second. Weight [rate * outputs, 1, 2, inputs],
        bias [rate * outputs].
        """
        conv = self.get(f"{name}.conv.weight", inputs, outputs, 2 * rate)
        now, before = conv[:, :, :rate], conv[:, :, rate:]
        taps = [part.transpose(2, 1, 0).reshape(rate * outputs, inputs) for part in (before, now)]
        bias = np.tile(self.get(f"{name}.conv.bias", outputs), rate)
        return _f32(np.stack(taps, axis=1)[:, None]), _f32(bias)

    def snake(self, name: str, channels: int) -> tuple[F32, F32]:
        """Snake's frequency exp(alpha) and magnitude 1 / (exp(beta) + 1e-9), each [1, 1, 1, channels]."""
        alpha = np.exp(self.get(f"{name}.alpha", channels))
        magnitude = 1.0 / (np.exp(self.get(f"{name}.beta", channels)) + 1e-9)
        return _f32(alpha[None, None, None]), _f32(magnitude[None, None, None])
