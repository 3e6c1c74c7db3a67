"""The codec decoder's forward pass written down plainly in numpy, and random weights for it.

The whole stream at once, float64, [channels, time], one operation after another as the model is
defined; no state, no folding. Slow: for small sizes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Tensors = dict[str, NDArray[np.float32]]

SMALL: dict[str, Any] = {
    "codebook_size": 32,
    "codebook_dim": 16,
    "hidden_size": 24,
    "latent_dim": 20,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 8,
    "sliding_window": 9,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_quantizers": 16,
    "decoder_dim": 32,
    "upsample_rates": [8, 5, 4, 3],
    "upsampling_ratios": [2, 2],
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "attention_bias": False,
}


def shapes(c: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor that the forward pass reads."""
    half, width, latent, hidden = c["codebook_dim"] // 2, c["codebook_dim"], c["latent_dim"], c["hidden_size"]
    out: dict[str, tuple[int, ...]] = {}
    for part, count in (("rvq_first", 1), ("rvq_rest", c["num_quantizers"] - 1)):
        out[f"quantizer.{part}.output_proj.weight"] = (width, half, 1)
        for i in range(count):
            name = f"quantizer.{part}.vq.layers.{i}._codebook"
            out[f"{name}.embedding_sum"] = (c["codebook_size"], half)
            out[f"{name}.cluster_usage"] = (c["codebook_size"],)
    out |= {"pre_conv.conv.weight": (latent, width, 3), "pre_conv.conv.bias": (latent,)}
    top = "pre_transformer"
    out |= {f"{top}.input_proj.weight": (hidden, latent), f"{top}.input_proj.bias": (hidden,)}
    out |= {f"{top}.output_proj.weight": (latent, hidden), f"{top}.output_proj.bias": (latent,)}
    out[f"{top}.norm.weight"] = (hidden,)
    rows = c["num_attention_heads"] * c["head_dim"]
    kv_rows = c["num_key_value_heads"] * c["head_dim"]
    for i in range(c["num_hidden_layers"]):
        name = f"{top}.layers.{i}"
        for part, count in (("q", rows), ("k", kv_rows), ("v", kv_rows)):
            out[f"{name}.self_attn.{part}_proj.weight"] = (count, hidden)
            if c["attention_bias"]:
                out[f"{name}.self_attn.{part}_proj.bias"] = (count,)
        out[f"{name}.self_attn.o_proj.weight"] = (hidden, rows)
        if c["attention_bias"]:
            out[f"{name}.self_attn.o_proj.bias"] = (hidden,)
        for part in ("gate", "up"):
            out[f"{name}.mlp.{part}_proj.weight"] = (c["intermediate_size"], hidden)
        out[f"{name}.mlp.down_proj.weight"] = (hidden, c["intermediate_size"])
        for part in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            out[f"{name}.{part}"] = (hidden,)
        for part in ("self_attn_layer_scale.scale", "mlp_layer_scale.scale"):
            out[f"{name}.{part}"] = (hidden,)
    for i, ratio in enumerate(c["upsampling_ratios"]):
        name = f"upsample.{i}"
        out |= {f"{name}.0.conv.weight": (latent, latent, ratio), f"{name}.0.conv.bias": (latent,)}
        out |= {f"{name}.1.dwconv.conv.weight": (latent, 1, 7), f"{name}.1.dwconv.conv.bias": (latent,)}
        out |= {f"{name}.1.norm.weight": (latent,), f"{name}.1.norm.bias": (latent,)}
        out |= {f"{name}.1.pwconv1.weight": (4 * latent, latent), f"{name}.1.pwconv1.bias": (4 * latent,)}
        out |= {f"{name}.1.pwconv2.weight": (latent, 4 * latent), f"{name}.1.pwconv2.bias": (latent,)}
        out[f"{name}.1.gamma"] = (latent,)

    def conv(name: str, outputs: int, inputs: int, taps: int) -> None:
        out[f"{name}.conv.weight"] = (outputs, inputs, taps)
        out[f"{name}.conv.bias"] = (outputs,)

    def snake(name: str, channels: int) -> None:
        out[f"{name}.alpha"] = (channels,)
        out[f"{name}.beta"] = (channels,)

    channels = c["decoder_dim"]
    conv("decoder.0", channels, latent, 7)
    for i, rate in enumerate(c["upsample_rates"]):
        name = f"decoder.{i + 1}.block"
        snake(f"{name}.0", channels)
        out[f"{name}.1.conv.weight"] = (channels, channels // 2, 2 * rate)
        out[f"{name}.1.conv.bias"] = (channels // 2,)
        channels //= 2
        for unit in (2, 3, 4):
            snake(f"{name}.{unit}.act1", channels)
            conv(f"{name}.{unit}.conv1", channels, channels, 7)
            snake(f"{name}.{unit}.act2", channels)
            conv(f"{name}.{unit}.conv2", channels, channels, 1)
    last = len(c["upsample_rates"]) + 1
    snake(f"decoder.{last}", channels)
    conv(f"decoder.{last + 1}", 1, channels, 7)
    return out


def random_tensors(c: dict[str, Any], seed: int) -> Tensors:
    """Random weights whose activations stay near 0.3 to 1 and whose scales and gains do something."""
    rng = np.random.default_rng(seed)
    out: Tensors = {}
    for name, shape in shapes(c).items():
        value = rng.standard_normal(shape)
        if name.endswith("embedding_sum"):
            value *= 3.0 if "first" in name else 0.8
        elif name.endswith("cluster_usage"):
            value = rng.uniform(0.5, 5.0, shape)
            value[3] = 0.0  # an unused entry: its usage is clamped
        elif name.endswith((".alpha", ".beta")):
            value *= 0.4
        elif name.endswith(("norm.weight", "layernorm.weight")):
            value = 1.0 + 0.2 * value
        elif name.endswith((".scale", ".gamma")):
            value = 0.4 + 0.15 * value
        elif name.endswith("bias"):
            value *= 0.05
        else:
            fan = math.prod(shape[1:])
            if ".block.1." in name:
                fan = shape[0] * 2
            elif name.startswith("upsample") and ".0." in name:
                fan = shape[0]
            gain = 0.25 if "conv2" in name else 0.6 if name.startswith("decoder.") else 0.9
            value *= gain / math.sqrt(fan)
        out[name] = value.astype(np.float32)
        if name.endswith("embedding_sum"):
            out[name][3] *= 1e-5
    return out


def _conv(x: Array, weight: Array, bias: Array, dilation: int = 1, groups: int = 1) -> Array:
    """Causal convolution; weight [outputs, inputs / groups, taps]."""
    taps = weight.shape[2]
    padded = np.pad(x, ((0, 0), ((taps - 1) * dilation, 0)))
    out = np.zeros((weight.shape[0], x.shape[1]))
    for k in range(taps):
        part = padded[:, k * dilation : k * dilation + x.shape[1]]
        out += weight[:, 0, k : k + 1] * part if groups > 1 else weight[:, :, k] @ part
    return out + bias[:, None]


def _transposed(x: Array, weight: Array, bias: Array, stride: int) -> Array:
    """Transposed convolution cut to stride samples an input; weight [inputs, outputs, taps]."""
    taps = weight.shape[2]
    out = np.zeros((weight.shape[1], (x.shape[1] - 1) * stride + taps))
    for t in range(x.shape[1]):
        out[:, t * stride : t * stride + taps] += np.einsum("i,iok->ok", x[:, t], weight)
    return out[:, : x.shape[1] * stride] + bias[:, None]


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def decode(c: dict[str, Any], tensors: Tensors, codes: NDArray[np.int32]) -> Array:
    """codes [time, quantizers] -> samples [time * samples per frame]."""
    w = {name: value.astype(np.float64) for name, value in tensors.items()}

    def quantized(part: str, columns: NDArray[np.int32]) -> Array:
        total = np.zeros((len(codes), c["codebook_dim"] // 2))
        for i in range(columns.shape[1]):
            name = f"quantizer.{part}.vq.layers.{i}._codebook"
            usage = np.maximum(w[f"{name}.cluster_usage"], 1e-5)
            total += (w[f"{name}.embedding_sum"] / usage[:, None])[columns[:, i]]
        return w[f"quantizer.{part}.output_proj.weight"][:, :, 0] @ total.T

    x = quantized("rvq_first", codes[:, :1]) + quantized("rvq_rest", codes[:, 1:])
    x = _conv(x, w["pre_conv.conv.weight"], w["pre_conv.conv.bias"])
    x = _transformer(c, w, x.T).T
    for i, ratio in enumerate(c["upsampling_ratios"]):
        name = f"upsample.{i}"
        x = _transposed(x, w[f"{name}.0.conv.weight"], w[f"{name}.0.conv.bias"], ratio)
        name = f"{name}.1"
        y = _conv(x, w[f"{name}.dwconv.conv.weight"], w[f"{name}.dwconv.conv.bias"], groups=x.shape[0]).T
        y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-6)
        y = y * w[f"{name}.norm.weight"] + w[f"{name}.norm.bias"]
        y = y @ w[f"{name}.pwconv1.weight"].T + w[f"{name}.pwconv1.bias"]
        y = 0.5 * y * (1 + _erf(y / math.sqrt(2)))
        y = y @ w[f"{name}.pwconv2.weight"].T + w[f"{name}.pwconv2.bias"]
        x = x + (w[f"{name}.gamma"] * y).T

    def snake(x: Array, name: str) -> Array:
        a, b = np.exp(w[f"{name}.alpha"])[:, None], np.exp(w[f"{name}.beta"])[:, None]
        return x + np.sin(x * a) ** 2 / (b + 1e-9)

    def conv(x: Array, name: str, dilation: int = 1) -> Array:
        return _conv(x, w[f"{name}.conv.weight"], w[f"{name}.conv.bias"], dilation)

    x = conv(x, "decoder.0")
    for i, rate in enumerate(c["upsample_rates"]):
        name = f"decoder.{i + 1}.block"
        x = _transposed(snake(x, f"{name}.0"), w[f"{name}.1.conv.weight"], w[f"{name}.1.conv.bias"], rate)
        for unit, dilation in ((2, 1), (3, 3), (4, 9)):
            y = conv(snake(x, f"{name}.{unit}.act1"), f"{name}.{unit}.conv1", dilation)
            x = x + conv(snake(y, f"{name}.{unit}.act2"), f"{name}.{unit}.conv2")
    last = len(c["upsample_rates"]) + 1
    return np.clip(conv(snake(x, f"decoder.{last}"), f"decoder.{last + 1}")[0], -1, 1)


def _transformer(c: dict[str, Any], w: dict[str, Array], x: Array) -> Array:
    """[time, latent] -> [time, latent] with absolute positions and the full window mask."""
    time, heads, kv_heads, dim = len(x), c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    top = "pre_transformer"
    x = x @ w[f"{top}.input_proj.weight"].T + w[f"{top}.input_proj.bias"]
    angle = np.arange(time)[:, None] * c["rope_theta"] ** (-np.arange(0, dim, 2) / dim)[None]
    cos, sin = np.cos(np.tile(angle, 2)), np.sin(np.tile(angle, 2))
    distance = np.arange(time)[:, None] - np.arange(time)[None]
    hidden = (distance < 0) | (distance >= c["sliding_window"])

    def norm(x: Array, name: str) -> Array:
        return x / np.sqrt((x**2).mean(1, keepdims=True) + c["rms_norm_eps"]) * w[name]

    def linear(x: Array, name: str) -> Array:
        return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", np.zeros(1))

    def rotate(x: Array) -> Array:
        turned = np.concatenate([-x[:, dim // 2 :], x[:, : dim // 2]], axis=1)
        return x * cos + turned * sin

    for i in range(c["num_hidden_layers"]):
        name = f"{top}.layers.{i}"
        y = norm(x, f"{name}.input_layernorm.weight")
        q, k, v = (linear(y, f"{name}.self_attn.{part}_proj") for part in "qkv")
        mixed = np.zeros((time, heads * dim))
        for h in range(heads):
            mine, shared = slice(h * dim, (h + 1) * dim), h // (heads // kv_heads)
            theirs = slice(shared * dim, (shared + 1) * dim)
            scores = rotate(q[:, mine]) @ rotate(k[:, theirs]).T / math.sqrt(dim)
            scores = np.exp(np.where(hidden, -np.inf, scores))
            mixed[:, mine] = scores / scores.sum(1, keepdims=True) @ v[:, theirs]
        x = x + w[f"{name}.self_attn_layer_scale.scale"] * linear(mixed, f"{name}.self_attn.o_proj")
        y = norm(x, f"{name}.post_attention_layernorm.weight")
        gate = linear(y, f"{name}.mlp.gate_proj")
        gate = gate / (1 + np.exp(-gate)) * linear(y, f"{name}.mlp.up_proj")
        x = x + w[f"{name}.mlp_layer_scale.scale"] * linear(gate, f"{name}.mlp.down_proj")
    return linear(norm(x, f"{top}.norm.weight"), f"{top}.output_proj")
