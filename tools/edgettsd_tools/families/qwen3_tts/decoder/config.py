"""Sizes of the 12 Hz codec decoder, read from a checkpoint's ``decoder_config`` and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

# The official configuration class fills a missing key with these values.
_DEFAULTS: dict[str, Any] = {
    "codebook_size": 2048,
    "codebook_dim": 512,
    "hidden_size": 1024,
    "latent_dim": 1024,
    "rope_theta": 10000.0,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "attention_bias": False,
    "sliding_window": 72,
    "intermediate_size": 3072,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "num_hidden_layers": 8,
    "num_quantizers": 16,
    "upsample_rates": (8, 5, 4, 3),
    "upsampling_ratios": (2, 2),
    "decoder_dim": 1536,
}

CONV_TAPS = 7
PRE_CONV_TAPS = 3
DILATIONS = (1, 3, 9)
LAYER_NORM_EPS = 1e-6
CODEBOOK_EPS = 1e-5


@dataclass(frozen=True)
class DecoderConfig:
    """Checked sizes of one decoder; every count is a positive integer."""

    codebook_size: int
    codebook_dim: int
    hidden: int
    latent: int
    rope_theta: float
    heads: int
    kv_heads: int
    head_dim: int
    attention_bias: bool
    window: int
    ffn: int
    rms_eps: float
    layers: int
    quantizers: int
    rates: tuple[int, ...]
    ratios: tuple[int, ...]
    decoder_dim: int

    @property
    def samples_per_frame(self) -> int:
        """Samples that one code frame becomes (1920 for the official rates)."""
        return prod(self.rates) * prod(self.ratios)


def _integer(config: Mapping[str, Any], key: str) -> int:
    value = config.get(key, _DEFAULTS.get(key))
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"decoder_config.{key} is {value!r}; a positive integer is needed")
    return value


def _number(config: Mapping[str, Any], key: str) -> float:
    value = config.get(key, _DEFAULTS[key])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"decoder_config.{key} is {value!r}; a positive number is needed")
    return float(value)


def _integers(config: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = config.get(key, _DEFAULTS[key])
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(f"decoder_config.{key} is {value!r}; a list of positive integers is needed")
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int) or item < 1:
            raise ValueError(f"decoder_config.{key} is {value!r}; a list of positive integers is needed")
    return tuple(value)


def parse_config(config: Mapping[str, Any]) -> DecoderConfig:
    """Check a checkpoint's ``decoder_config`` and return the sizes.

    Raises ValueError that names the field, its value and what is allowed.
    """
    if config.get("rope_scaling") is not None:
        raise ValueError(f"decoder_config.rope_scaling is {config['rope_scaling']!r}; only null is supported")
    act = config.get("hidden_act", _DEFAULTS["hidden_act"])
    if act != "silu":
        raise ValueError(f"decoder_config.hidden_act is {act!r}; only 'silu' is supported")
    bias = config.get("attention_bias", False)
    if not isinstance(bias, bool):
        raise ValueError(f"decoder_config.attention_bias is {bias!r}; true or false is needed")
    heads = _integer(config, "num_attention_heads")
    kv_heads = _integer(config, "num_key_value_heads")
    hidden = _integer(config, "hidden_size")
    if heads % kv_heads:
        raise ValueError(f"decoder_config.num_key_value_heads is {kv_heads}; a divisor of {heads} is needed")
    if config.get("head_dim") is None:
        if hidden % heads:
            raise ValueError(
                f"decoder_config.num_attention_heads is {heads}; a divisor of {hidden} is needed"
            )
        head_dim = hidden // heads
    else:
        head_dim = _integer(config, "head_dim")
    if head_dim % 2:
        raise ValueError(f"decoder_config.head_dim is {head_dim}; an even number is needed")
    codebook_dim = _integer(config, "codebook_dim")
    if codebook_dim % 2:
        raise ValueError(f"decoder_config.codebook_dim is {codebook_dim}; an even number is needed")
    window = _integer(config, "sliding_window")
    if window < 2:
        raise ValueError("decoder_config.sliding_window is 1; at least 2 is needed")
    quantizers = _integer(config, "num_quantizers")
    if quantizers < 2:
        raise ValueError("decoder_config.num_quantizers is 1; at least 2 are needed")
    rates = _integers(config, "upsample_rates")
    decoder_dim = _integer(config, "decoder_dim")
    if decoder_dim % (1 << len(rates)):
        raise ValueError(
            f"decoder_config.decoder_dim is {decoder_dim}; a multiple of {1 << len(rates)} is needed"
        )
    return DecoderConfig(
        codebook_size=_integer(config, "codebook_size"),
        codebook_dim=codebook_dim,
        hidden=hidden,
        latent=_integer(config, "latent_dim"),
        rope_theta=_number(config, "rope_theta"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        attention_bias=bias,
        window=window,
        ffn=_integer(config, "intermediate_size"),
        rms_eps=_number(config, "rms_norm_eps"),
        layers=_integer(config, "num_hidden_layers"),
        quantizers=quantizers,
        rates=rates,
        ratios=_integers(config, "upsampling_ratios"),
        decoder_dim=decoder_dim,
    )
