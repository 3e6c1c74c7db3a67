"""What a frame of Qwen3-TTS costs by the sizes of a model, for tools that compare or project times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .sizes import model_config

FRAME_MS = 80.0


def official(size: str) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes of talker and predictor of an official model, "0.6b" or "1.7b", by the manifest's names.

    The predictor's table has `code_groups` too.
    """
    config: Any = model_config(size, "custom_voice")["talker_config"]
    fine = config["code_predictor_config"]
    return _sizes(config), _sizes(fine) | {"code_groups": fine["num_code_groups"]}


def _sizes(config: Mapping[str, Any]) -> dict[str, int]:
    names = {
        "hidden": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads",
        "head_dim": "head_dim",
        "ffn": "intermediate_size",
        "vocab": "vocab_size",
    }
    return {name: int(config[key]) for name, key in names.items()}


def facts(manifest: Any) -> dict[str, str]:
    """What a benchmark tells of a bundle."""
    return {
        "size": manifest.size,
        "talker": manifest.talker.precision,
        "predictor": manifest.predictor.precision,
    }


def floors(manifest: Any, machine: dict[str, Any], threads: int, context: int) -> dict[str, float]:
    """The least ms a frame can take: weights (and cached keys and values) read once, or direct convolutions.

    `manifest` is one of this family; `context` positions of the talker.
    """
    bits = {"q4_0": 4.5, "q4_K": 4.5, "q8_0": 8.5, "f16": 16.0, "f32": 32.0}

    def matrices(part: Any) -> int:
        attention = part.hidden * part.head_dim * (2 * part.heads + 2 * part.kv_heads)
        return int(part.layers * (attention + 3 * part.hidden * part.ffn))

    talker, predictor, groups = manifest.talker, manifest.predictor, manifest.code_groups
    value_bytes = 4 if talker.precision == "f32" else 2
    cache = 2 * talker.layers * talker.kv_heads * talker.head_dim * value_bytes * context
    talker_bytes = (matrices(talker) + talker.vocab * talker.hidden) * bits[talker.precision] / 8 + cache
    heads = (groups - 1) * predictor.vocab * predictor.hidden
    predictor_bytes = ((groups - 1) * matrices(predictor) + heads) * bits[predictor.precision] / 8
    rate, peak = machine["read_gb_s"][str(threads)], machine["sgemm_gflop_s"][str(threads)]
    return {
        "talker": round(talker_bytes / rate / 1e6, 2),
        "predictor": round(predictor_bytes / rate / 1e6, 2),
        # Multiply-adds of the official decoder's convolutions at its only size.
        "decoder": round(4.96 / peak * 1e3, 2),
    }
