"""The sampler against the official logits processors' distributions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cython_kernels.sampler import Sampler

REFERENCE = Path(__file__).parent.parent / "data" / "oracle" / "sampling.npz"
CASES = sorted(int(k.split("_")[1]) for k in np.load(REFERENCE) if k.startswith("logits_"))
PARAMETERS = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")


@pytest.mark.parametrize("case", CASES)
def test_distribution_equals_the_official_chain(case: int) -> None:
    data = np.load(REFERENCE)
    logits, history = data[f"logits_{case}"], data[f"history_{case}"]
    params, expected = json.loads(str(data[f"params_{case}"])), data[f"probs_{case}"]
    eos = params.get("eos", -1)
    banned = [i for lo, hi in params.get("suppress", []) for i in range(lo, hi) if i != eos]
    sampler = Sampler(len(logits), banned=banned)
    sampler.restart(0)
    for token in history:
        sampler.accept(int(token))
    got = sampler.probabilities(
        logits,
        **{k: params[k] for k in PARAMETERS if k in params},
        eos=eos,
        ban_eos=len(history) < params.get("min_new_tokens", 0),
    )
    if params["do_sample"]:
        assert np.array_equal(got > 0, expected > 0)
        assert np.max(np.abs(got - expected)) < 1e-6
    else:
        assert int(got.argmax()) == int(expected.argmax())
        assert got.max() == 1.0


def test_draws_follow_the_distribution() -> None:
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 2, 64).astype(np.float32)
    sampler = Sampler(64)
    sampler.restart(7)
    probs = sampler.probabilities(logits, temperature=0.9, top_k=10)
    n = 20_000
    counts = np.bincount([sampler.draw(logits, temperature=0.9, top_k=10) for _ in range(n)], minlength=64)
    assert (counts[probs == 0] == 0).all()
    sigma = np.sqrt(n * probs * (1 - probs)) + 1e-9
    assert np.max(np.abs(counts - n * probs)[probs > 0] / sigma[probs > 0]) < 5


def test_a_seed_names_its_stream_whatever_came_before() -> None:
    logits = np.random.default_rng(1).normal(0, 1, 2048).astype(np.float32)
    sampler = Sampler(2048)

    def draws(seed: int, stream: int) -> list[int]:
        sampler.restart(seed, stream)
        return [sampler.draw(logits, top_k=50) for _ in range(30)]

    first = draws(42, 0)
    assert draws(42, 1) != first
    assert draws(43, 0) != first
    assert draws(42, 0) == first
    assert len(set(first)) > 5


def test_restart_forgets_the_history() -> None:
    logits = np.array([2.0, 1.9, -5.0], np.float32)
    sampler = Sampler(3)
    sampler.accept(0)
    assert sampler.draw(logits, do_sample=False, repetition_penalty=1.5) == 1
    sampler.restart(0)
    assert sampler.draw(logits, do_sample=False, repetition_penalty=1.5) == 0


def test_ties_at_the_top_k_border_stay() -> None:
    logits = np.array([3.0, 1.0, 1.0, 0.0, 1.0], np.float32)
    probs = Sampler(5).probabilities(logits, top_k=2)
    assert (probs > 0).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_strange_logits_still_give_an_allowed_id(bad: float) -> None:
    logits = np.full(16, bad, np.float32)
    logits[5] = 1.0
    sampler = Sampler(16)
    for _ in range(50):
        assert 0 <= sampler.draw(logits, top_k=3, top_p=0.9) < 16
    assert 0 <= sampler.draw(np.full(16, bad, np.float32), top_k=3) < 16


@pytest.mark.parametrize("temperature", [1e-37, 1e-38, 1e-40, 1e-45, 1e-46, 5e-324])
@pytest.mark.parametrize("best", [9.0, 0.0, -2.0])
def test_the_smallest_temperatures_give_the_largest_logit(temperature: float, best: float) -> None:
    logits = np.linspace(best - 8, best - 1, 64, dtype=np.float32)
    logits[20] = best
    sampler = Sampler(64)
    sampler.restart(0)
    expected = np.zeros(64)
    expected[20] = 1
    for options in ({}, {"top_k": 5}, {"top_p": 0.5}):
        assert np.array_equal(sampler.probabilities(logits, temperature=temperature, **options), expected)
        assert sampler.draw(logits, temperature=temperature, **options) == 20


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="15 given, 16 expected"):
        Sampler(16).draw(np.zeros(15, np.float32))
    with pytest.raises(ValueError, match="vocab is 0"):
        Sampler(0)
    with pytest.raises(ValueError, match="token is 16"):
        Sampler(16).accept(16)
