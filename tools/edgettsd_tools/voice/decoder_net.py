"""The official 12 Hz codec decoder in small: same tensors and names.

`state_dict` keys are those of ``decoder.*`` in an official speech tokenizer.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

CONFIG: dict[str, Any] = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "codebook_dim": 128,
    "codebook_size": 256,
    "decoder_dim": 192,
    "head_dim": 16,
    "hidden_act": "silu",
    "hidden_size": 192,
    "intermediate_size": 32,
    "latent_dim": 240,
    "layer_scale_initial_scale": 0.1,
    "max_position_embeddings": 8000,
    "num_attention_heads": 1,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "num_quantizers": 8,
    "num_semantic_quantizers": 1,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000,
    "semantic_codebook_size": 256,
    "sliding_window": 12,
    "upsample_rates": [3, 4, 4, 5],
    "upsampling_ratios": [2, 2, 2],
    "vector_quantization_hidden_dimension": 64,
}


class _HalfLinear(torch.autograd.Function):
    """x w^T with bfloat16 factors and float32 results: twice as fast where the CPU has the instructions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows, w = x.reshape(-1, x.shape[-1]).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(rows, w)
        ctx.shape = x.shape
        return (rows @ w.T).float().view(*x.shape[:-1], len(w))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, w = ctx.saved_tensors
        g = grad.reshape(-1, grad.shape[-1]).bfloat16()
        return (g @ w).float().view(ctx.shape), (g.T @ rows).float()


class Linear(nn.Linear):
    """A linear layer without bias that trains with bfloat16 factors and answers with float32 ones."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            return _HalfLinear.apply(x, self.weight)  # type: ignore[no-any-return]
        return fn.linear(x, self.weight)


class Snake(nn.Module):
    """x + sin^2(exp(alpha) x) / exp(beta), per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.sin(x * self.alpha.exp()[:, None])
        return x + wave * wave / self.beta.exp()[:, None]


class Conv(nn.Module):
    """Causal convolution."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.padding = (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(fn.pad(x, (self.padding, 0)))  # type: ignore[no-any-return]


class TransposedConv(nn.Module):
    """Causal transposed convolution."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride=stride)
        self.cut = kernel - stride

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        return x[..., : x.shape[-1] - self.cut] if self.cut else x


class ConvNeXt(nn.Module):
    """ConvNeXt block."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dwconv = Conv(dim, dim, 7, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.gamma * self.pwconv2(fn.gelu(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class Residual(nn.Module):
    """Residual unit: snake, dilated convolution, snake, 1x1 convolution."""

    def __init__(self, dim: int, dilation: int) -> None:
        super().__init__()
        self.act1, self.conv1 = Snake(dim), Conv(dim, dim, 7, dilation)
        self.act2, self.conv2 = Snake(dim), Conv(dim, dim, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv2(self.act2(self.conv1(self.act1(x))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Upsampling block."""

    def __init__(self, inputs: int, outputs: int, rate: int) -> None:
        super().__init__()
        self.block = nn.Sequential(
            Snake(inputs),
            TransposedConv(inputs, outputs, 2 * rate, rate),
            *(Residual(outputs, dilation) for dilation in (1, 3, 9)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)  # type: ignore[no-any-return]


class RMSNorm(nn.Module):
    """Root mean square norm."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return fn.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rope(length: int, dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines [length, dim] of rotary positions 0..length-1, halves repeated."""
    inverse = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angles = torch.arange(length).float()[:, None] * inverse
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [..., length, dim]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Scale(nn.Module):
    """Layer scale."""

    def __init__(self, dim: int, value: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), value))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


class Attention(nn.Module):
    """Attention projections."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.dim = c["num_attention_heads"], c["head_dim"]
        width = self.heads * self.dim
        self.q_proj = nn.Linear(c["hidden_size"], width, bias=False)
        self.k_proj = nn.Linear(c["hidden_size"], width, bias=False)
        self.v_proj = nn.Linear(c["hidden_size"], width, bias=False)
        self.o_proj = nn.Linear(width, c["hidden_size"], bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape

        def split(y: Tensor) -> Tensor:
            return y.view(batch, length, self.heads, self.dim).transpose(1, 2)

        q, k = rotate(split(self.q_proj(x)), cos, sin), rotate(split(self.k_proj(x)), cos, sin)
        y = fn.scaled_dot_product_attention(q, k, split(self.v_proj(x)), attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """Gated MLP."""

    def __init__(self, hidden: int, ffn: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = Linear(hidden, ffn), Linear(hidden, ffn)
        self.down_proj = Linear(ffn, hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(fn.silu(self.gate_proj(x)) * self.up_proj(x))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """Transformer layer with layer scales."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        hidden, eps = c["hidden_size"], c["rms_norm_eps"]
        self.self_attn = Attention(c)
        self.mlp = Mlp(hidden, c["intermediate_size"])
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(hidden, eps), RMSNorm(hidden, eps)
        self.self_attn_layer_scale = Scale(hidden, c["layer_scale_initial_scale"])
        self.mlp_layer_scale = Scale(hidden, c["layer_scale_initial_scale"])

    def forward(self, x: Tensor, *context: Tensor) -> Tensor:
        x = x + self.self_attn_layer_scale(self.self_attn(self.input_layernorm(x), *context))
        return x + self.mlp_layer_scale(self.mlp(self.post_attention_layernorm(x)))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Transformer over frames with a sliding window."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.config = c
        self.input_proj = nn.Linear(c["latent_dim"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.output_proj = nn.Linear(c["hidden_size"], c["latent_dim"])

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        cos, sin = rope(length, self.config["head_dim"], self.config["rope_theta"])
        age = torch.arange(length)[:, None] - torch.arange(length)
        mask = (age >= 0) & (age < self.config["sliding_window"])
        x = self.input_proj(x)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.output_proj(self.norm(x))  # type: ignore[no-any-return]


class _Codebook(nn.Module):
    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.cluster_usage = nn.Parameter(torch.ones(size), requires_grad=False)
        self.embedding_sum = nn.Parameter(torch.zeros(size, dim))


class _Quantized(nn.Module):
    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self._codebook = _Codebook(size, dim)


class _Stack(nn.Module):
    def __init__(self, count: int, size: int, dim: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Quantized(size, dim) for _ in range(count))


class _Quantizer(nn.Module):
    def __init__(self, count: int, size: int, dim: int, outer: int) -> None:
        super().__init__()
        self.input_proj = nn.Conv1d(outer, dim, 1, bias=False).requires_grad_(False)
        self.output_proj = nn.Conv1d(dim, outer, 1, bias=False)
        self.vq = _Stack(count, size, dim)


class Quantizer(nn.Module):
    """Codes [batch, groups, frames] -> [batch, codebook_dim, frames]."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        sizes = c["codebook_size"], c["codebook_dim"] // 2, c["codebook_dim"]
        self.rvq_first = _Quantizer(1, *sizes)
        self.rvq_rest = _Quantizer(c["num_quantizers"] - 1, *sizes)

    def forward(self, codes: Tensor) -> Tensor:
        total: Any = 0.0
        for part, start in ((self.rvq_first, 0), (self.rvq_rest, 1)):
            vectors: Any = 0.0
            for index, layer in enumerate(part.vq.layers):
                vectors = vectors + fn.embedding(codes[:, start + index], layer._codebook.embedding_sum)
            total = total + part.output_proj(vectors.transpose(1, 2))
        return total  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Codes [batch, groups, frames] -> samples [batch, frames * 1920], not clamped."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.config = c
        latent, width, rates = c["latent_dim"], c["decoder_dim"], c["upsample_rates"]
        self.quantizer = Quantizer(c)
        self.pre_conv = Conv(c["codebook_dim"], latent, 3)
        self.pre_transformer = Transformer(c)
        self.upsample = nn.ModuleList(
            nn.Sequential(TransposedConv(latent, latent, ratio, ratio), ConvNeXt(latent))
            for ratio in c["upsampling_ratios"]
        )
        self.decoder = nn.Sequential(
            Conv(latent, width, 7),
            *(Block(width >> i, width >> (i + 1), rate) for i, rate in enumerate(rates)),
            Snake(width >> len(rates)),
            Conv(width >> len(rates), 1, 7),
        )

    def forward(self, codes: Tensor) -> Tensor:
        x = self.pre_conv(self.quantizer(codes))
        # The official class has no shortcut around the transformer; its layers are residual inside.
        x = self.pre_transformer(x.transpose(1, 2)).transpose(1, 2)
        for stage in self.upsample:
            x = stage(x)
        return self.decoder(x)[:, 0]  # type: ignore[no-any-return]


def config_for(groups: int, entries: int) -> dict[str, Any]:
    """CONFIG for that many codes a frame."""
    return CONFIG | {"num_quantizers": groups, "codebook_size": entries, "semantic_codebook_size": entries}
