"""Reference distributions of the official sampling chain, for testing the compiled sampler.

The processors are the ones that the official `generate` builds for itself, captured while it runs, so the
order of operations (repetition penalty, minimum length, suppression, temperature, top-k, top-p) is theirs.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from edgettsd_tools.families.qwen3_tts import official

# kind, do_sample, temperature, top_k, top_p, repetition_penalty, generated ids, shape of the logits
CASES: tuple[tuple[str, bool, float, int, float, float, int, str], ...] = (
    ("talker", True, 0.9, 50, 1.0, 1.05, 40, "normal"),
    ("talker", True, 0.9, 50, 1.0, 1.05, 0, "eos"),
    ("talker", True, 0.9, 50, 1.0, 1.05, 1, "eos"),
    ("talker", True, 0.9, 50, 1.0, 1.05, 2, "eos"),
    ("talker", True, 0.7, 0, 0.8, 1.0, 40, "flat"),
    ("talker", True, 1.0, 20, 0.9, 1.3, 200, "flat"),
    ("talker", True, 1.5, 1, 1.0, 1.05, 10, "normal"),
    ("talker", True, 0.9, 5, 1.0, 1.05, 6, "ties"),
    ("talker", True, 0.5, 5000, 0.3, 2.0, 30, "flat"),
    ("talker", False, 0.9, 50, 1.0, 1.05, 40, "peaked"),
    ("talker", False, 0.9, 50, 1.0, 1.0, 0, "eos"),
    ("talker", False, 0.9, 50, 1.0, 1.5, 300, "normal"),
    ("predictor", True, 0.9, 50, 1.0, 1.0, 3, "normal"),
    ("predictor", True, 0.8, 10, 0.6, 1.0, 14, "flat"),
    ("predictor", True, 1.0, 0, 0.95, 1.0, 0, "normal"),
    ("predictor", False, 0.9, 50, 1.0, 1.0, 7, "normal"),
)


def _logits(rng: np.random.Generator, shape: str, vocab: int, eos: int) -> np.ndarray:
    """Logits float32 [vocab]: of an ordinary spread, flat, peaked, with a dominant EOS, or full of ties."""
    logits = rng.normal(0.0, 1.0 if shape == "flat" else 3.0, vocab)
    if shape == "peaked":
        logits = 3.0 * logits
    elif shape == "ties":
        logits = np.round(logits)
    elif shape == "eos":
        logits[eos] = logits.max() + 2.0
    return logits.astype(np.float32)


def _chain(model: Any, case: tuple[str, bool, float, int, float, float, int, str]) -> Any:
    """The processors that the official generate made for these parameters."""
    import torch

    kind, do_sample, temperature, top_k, top_p, penalty, _, _ = case
    chosen = {"do_sample": do_sample, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    plain = {"do_sample": True, "temperature": 0.9, "top_k": 50, "top_p": 1.0}
    talker, sub = (chosen, plain) if kind == "talker" else (plain, chosen)
    ids = torch.arange(11, 11 + 12).reshape(1, -1)
    with official.observed(model) as trace:
        model.model.generate(
            input_ids=[ids],
            languages=["auto"],
            max_new_tokens=3,
            repetition_penalty=penalty,
            do_sample=talker["do_sample"],
            temperature=talker["temperature"],
            top_k=talker["top_k"],
            top_p=talker["top_p"],
            subtalker_dosample=sub["do_sample"],
            subtalker_temperature=sub["temperature"],
            subtalker_top_k=sub["top_k"],
            subtalker_top_p=sub["top_p"],
        )
    return trace.talker_processors if kind == "talker" else trace.predictor_processors


def references(model: Any, seed: int = 20) -> dict[str, np.ndarray]:
    """Arrays `logits_i` f32 [V], `history_i` int32 [n], `params_i` (JSON string), `probs_i` f32 [V].

    The JSON holds kind, do_sample, temperature, top_k (0: off), top_p, repetition_penalty, min_new_tokens,
    suppress (list of [first, end) ranges) and eos (-1: none).
    """
    config = model.model.config.talker_config
    rng = np.random.default_rng(seed)
    out: dict[str, np.ndarray] = {}
    for i, case in enumerate(CASES):
        kind, do_sample, temperature, top_k, top_p, penalty, generated, shape = case
        talker = kind == "talker"
        vocab = config.vocab_size if talker else config.code_predictor_config.vocab_size
        logits = _logits(rng, shape, vocab, config.codec_eos_token_id if talker else 0)
        reachable = vocab - 1024 if talker else vocab
        # Recent ids repeat in speech: half of the history comes from the most likely ids.
        likely = np.argsort(logits[:reachable])[-16:]
        history = np.where(
            rng.random(generated) < 0.5,
            rng.choice(likely, generated) if generated else np.zeros(0, np.int64),
            rng.integers(0, reachable, generated),
        ).astype(np.int32)
        params = {
            "kind": kind,
            "do_sample": do_sample,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "repetition_penalty": penalty if talker else 1.0,
            "min_new_tokens": 2 if talker else 0,
            "suppress": [[vocab - 1024, vocab]] if talker else [],
            "eos": config.codec_eos_token_id if talker else -1,
        }
        out[f"logits_{i}"] = logits
        out[f"history_{i}"] = history
        out[f"params_{i}"] = np.array(json.dumps(params))
        out[f"probs_{i}"] = official.processed_distribution(_chain(model, case), logits, history, do_sample)
    return out
