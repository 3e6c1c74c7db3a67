"""Small random talker and predictor models: weights in numpy, GGUF files from them, their forward pass.

The forward pass is the models' definition in few lines of float64 numpy; nothing is shared with the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from edgettsd_tools import kquants

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder-only model; groups and input_hidden matter for a predictor only."""

    hidden: int = 64
    layers: int = 2
    ffn: int = 128
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    vocab: int = 96
    theta: float = 1e6
    eps: float = 1e-6
    groups: int = 6
    input_hidden: int = 64


@dataclass
class Model:
    """Named float32 tensors in the files' naming, matrices as [rows, columns]."""

    shape: Shape
    tensors: dict[str, F32] = field(default_factory=dict)


def _layers(shape: Shape, rng: np.random.Generator) -> dict[str, F32]:
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {
        "attn_norm": (shape.hidden,),
        "attn_q": (q, shape.hidden),
        "attn_k": (kv, shape.hidden),
        "attn_v": (kv, shape.hidden),
        "attn_q_norm": (shape.head_dim,),
        "attn_k_norm": (shape.head_dim,),
        "attn_output": (shape.hidden, q),
        "ffn_norm": (shape.hidden,),
        "ffn_gate": (shape.ffn, shape.hidden),
        "ffn_up": (shape.ffn, shape.hidden),
        "ffn_down": (shape.hidden, shape.ffn),
    }
    return {
        f"blk.{i}.{name}.weight": _random(rng, size)
        for i in range(shape.layers)
        for name, size in sizes.items()
    }


def _random(rng: np.random.Generator, size: tuple[int, ...]) -> F32:
    if len(size) == 1:
        return np.asarray(1 + 0.3 * rng.standard_normal(size), np.float32)
    return np.asarray(rng.standard_normal(size) * 1.5 / np.sqrt(size[1]), np.float32)


def talker(shape: Shape = Shape(), seed: int = 0) -> Model:
    """Random talker."""
    rng = np.random.default_rng(seed)
    tensors = _layers(shape, rng)
    tensors["token_embd.weight"] = _random(rng, (shape.vocab, shape.hidden))
    tensors["output.weight"] = _random(rng, (shape.vocab, shape.hidden))
    tensors["output_norm.weight"] = _random(rng, (shape.hidden,))
    return Model(shape, tensors)


def predictor(shape: Shape = Shape(), seed: int = 0) -> Model:
    """Random code predictor; with an input projection when input_hidden differs from hidden."""
    rng = np.random.default_rng(seed)
    tensors = _layers(shape, rng)
    for g in range(1, shape.groups):
        tensors[f"head.{g}.weight"] = _random(rng, (shape.vocab, shape.hidden))
    tensors["output_norm.weight"] = _random(rng, (shape.hidden,))
    if shape.hidden != shape.input_hidden:
        tensors["input_proj.weight"] = _random(rng, (shape.hidden, shape.input_hidden))
        tensors["input_proj.bias"] = (0.5 * rng.standard_normal(shape.hidden)).astype(np.float32)
    return Model(shape, tensors)


def _quantise(value: F32, precision: str) -> tuple[npt.NDArray[np.generic], gguf.GGMLQuantizationType | None]:
    if value.ndim == 1 or precision == "f32":
        return value, None
    if precision == "f16":
        return value.astype(np.float16), None
    if precision == "q4_K":
        return kquants.quantize(value, gguf.GGMLQuantizationType.Q4_K), gguf.GGMLQuantizationType.Q4_K
    kind = gguf.GGMLQuantizationType[precision.upper()]
    return gguf.quants.quantize(value, kind), kind


def quantised(model: Model, precision: str) -> Model:
    """The model with the values that its file of this precision holds."""
    tensors = {}
    for name, value in model.tensors.items():
        data, kind = _quantise(value, precision)
        tensors[name] = value if kind is None else gguf.quants.dequantize(data, kind)
    return Model(model.shape, tensors)


def _write(
    path: Path, arch: str, keys: Mapping[str, str | int | float], model: Model, precision: str
) -> Path:
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_float32(key, value)
    for name, tensor in model.tensors.items():
        data, kind = _quantise(tensor, precision)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _common_keys(prefix: str, shape: Shape) -> dict[str, str | int | float]:
    return {
        f"{prefix}.embedding_length": shape.hidden,
        f"{prefix}.block_count": shape.layers,
        f"{prefix}.feed_forward_length": shape.ffn,
        f"{prefix}.attention.head_count": shape.heads,
        f"{prefix}.attention.head_count_kv": shape.kv_heads,
        f"{prefix}.attention.key_length": shape.head_dim,
        f"{prefix}.attention.layer_norm_rms_epsilon": shape.eps,
        f"{prefix}.rope.freq_base": shape.theta,
        f"{prefix}.vocab_size": shape.vocab,
    }


def write_talker(
    path: Path,
    model: Model,
    precision: str = "f32",
    arch: str = "qwen3",
    keys: Mapping[str, str | int | float] | None = None,
) -> Path:
    """talker.gguf; keys override or add metadata (dots of a key as in the file)."""
    shape = model.shape
    meta = _common_keys(arch, shape) | {
        f"{arch}.context_length": 4096,
        f"{arch}.attention.value_length": shape.head_dim,
        "tokenizer.ggml.model": "none",
    }
    return _write(path, arch, meta | dict(keys or {}), model, precision)


def write_predictor(
    path: Path,
    model: Model,
    precision: str = "f32",
    arch: str = "qwen3tts-predictor",
    keys: Mapping[str, str | int | float] | None = None,
) -> Path:
    """predictor.gguf; keys override or add metadata."""
    meta = _common_keys(arch, model.shape) | {
        f"{arch}.input_embedding_length": model.shape.input_hidden,
        f"{arch}.code_groups": model.shape.groups,
    }
    return _write(path, arch, meta | dict(keys or {}), model, precision)


def _rms(x: F64, weight: F32, eps: float) -> F64:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight, np.float64)


def _rotate(x: F64, theta: float) -> F64:
    """Rotary embedding of x [positions, heads, dim] at positions 0.., halves of the head as pairs."""
    n, _, dim = x.shape
    angle = np.outer(np.arange(n), theta ** (-np.arange(0, dim, 2) / dim))[:, None, :]
    a, b = x[..., : dim // 2], x[..., dim // 2 :]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def forward(model: Model, rows: F32) -> F64:
    """Hidden states after the final norm, [n, hidden], of rows [n, hidden] at positions 0 to n - 1."""
    s, t = model.shape, model.tensors
    x = rows.astype(np.float64)
    n = len(x)
    mask = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(s.layers):
        w = {k.split(".")[2]: v for k, v in t.items() if k.startswith(f"blk.{i}.")}
        h = _rms(x, w["attn_norm"], s.eps)
        q = _rotate(_rms((h @ w["attn_q"].T).reshape(n, s.heads, -1), w["attn_q_norm"], s.eps), s.theta)
        k = _rotate(_rms((h @ w["attn_k"].T).reshape(n, s.kv_heads, -1), w["attn_k_norm"], s.eps), s.theta)
        v = (h @ w["attn_v"].T).reshape(n, s.kv_heads, -1)
        k, v = (np.repeat(z, s.heads // s.kv_heads, axis=1) for z in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(s.head_dim) + mask
        p = np.exp(scores - scores.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", p, v).reshape(n, -1) @ w["attn_output"].T
        h = _rms(x, w["ffn_norm"], s.eps)
        gate = h @ w["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-np.maximum(gate, -700))) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T
    return _rms(x, t["output_norm.weight"], s.eps)


def talker_outputs(model: Model, rows: F32) -> tuple[F64, F64]:
    """Hidden states [n, hidden] and logits [n, vocab]."""
    hidden = forward(model, rows)
    return hidden, hidden @ model.tensors["output.weight"].T


def predictor_outputs(model: Model, rows: F32) -> F64:
    """Logits [groups - 1, vocab] of codebooks 1.. for rows [groups, input_hidden].

    The first row is the talker's hidden state, then come the rows of codebooks 0 to groups - 2.
    """
    t = model.tensors
    x = rows.astype(np.float64)
    if "input_proj.weight" in t:
        x = x @ t["input_proj.weight"].T + t["input_proj.bias"]
    hidden = forward(model, x.astype(np.float64))
    return np.stack([hidden[g] @ t[f"head.{g}.weight"].T for g in range(1, model.shape.groups)])


def without(model: Model, name: str) -> Model:
    """The model with one tensor left out."""
    return Model(model.shape, {k: v for k, v in model.tensors.items() if k != name})


def with_tensor(model: Model, name: str, value: F32) -> Model:
    """The model with one tensor replaced."""
    return replace(model, tensors=model.tensors | {name: value})
