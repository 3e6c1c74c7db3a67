"""The voice inside the package, as it is shipped, against the official model run on its checkpoint.

The references are made by tests/data/oracle/voice-references, which also compares a float32 conversion: there
every code is the official one. Here the weights are those of the package, rounded to 8 and 16 bits.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts import parity
from edgettsd_tools.families.qwen3_tts.parity_parts import DECODER_DB

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "oracle" / "voice"
BUNDLE = ROOT / "edgettsd" / "voice"
NAMES = list(parity.read_meta(DATA)["cases"])
STALE = "references of another voice or front end? tests/data/oracle/voice-references CHECKPOINT makes them"


@pytest.fixture(scope="module")
def parts() -> parity.Parts:
    return parity.open_parts(BUNDLE)


@pytest.fixture(scope="module")
def cases() -> dict[str, tuple[parity.Case, parity.Case]]:
    frames = parity.read_meta(DATA)["frames"]
    return {name: (settings | {"frames": frames}, arrays) for name, settings, arrays in parity.cases(DATA)}


Cases = dict[str, tuple[parity.Case, parity.Case]]


def _missed(results: Iterator[parity.Result]) -> list[str]:
    found = list(results)
    assert found
    return [f"{r.what} {r.case}: {r.figure}, {r.limit} is needed" for r in found if not r.ok]


@pytest.mark.parametrize("name", NAMES)
def test_the_official_code_was_given_the_tokens_of_the_front_end(
    parts: parity.Parts, cases: Cases, name: str
) -> None:
    settings, reference = cases[name]
    assert parts.tokenizer.speech(settings["text"]) == reference["ids"].tolist(), STALE


@pytest.mark.parametrize("name", NAMES)
def test_prompt_rows_are_the_official_ones_rounded(parts: parity.Parts, cases: Cases, name: str) -> None:
    """Rows of the text alone are off by what half precision rounds, each number for itself."""
    settings, reference = cases[name]
    results = list(parity.compare_prompt(parts, name, settings, reference))
    assert results[1].limit == "<= 1.01" and results[1].ok, f"{results[1].figure}; {STALE}"
    prompt = parity.build_prompt(parts, settings, reference)
    for field in ("trailing", "pad_row"):
        theirs = reference[field]
        assert np.mean(getattr(prompt, field) == theirs.astype(np.float16)) > 0.999
    role = prompt.prompt[: parts.tokenizer.HEAD]
    assert np.mean(role == reference["prompt"][: len(role)].astype(np.float16)) > 0.999


def test_hidden_states_and_most_likely_codes_under_teacher_forcing(parts: parity.Parts, cases: Cases) -> None:
    forced = []
    for name, (_, reference) in cases.items():
        forced.append(parity.teacher_forced(parts, reference))
        assert forced[-1].hidden_error < 0.03, name
    assert _missed(parity.compare_top1(parts, forced)) == []
    assert sum(f.steps for f in forced) >= 50 and sum(f.sub_steps for f in forced) >= 500


def test_predictor_logits(parts: parity.Parts, cases: Cases) -> None:
    """Of the frame that the references keep, from its own codes: the nearest entry of each group is found."""
    _, reference = cases["voice"]
    frame, logits = int(reference["sub_frames"][0]), reference["sub_logits"][0].astype(np.float32)
    codes = reference["codes"][frame]
    out = [parts.predictor.begin(reference["hidden"][frame], parts.tables[0][codes[0]].astype(np.float32))]
    for group in range(1, len(codes) - 1):
        out.append(parts.predictor.next(group, parts.tables[group][codes[group]].astype(np.float32)))
    assert len(out) == len(logits)
    spread = logits.max(axis=1) - logits.min(axis=1)
    assert (np.abs(np.stack(out) - logits).max(axis=1) < 0.02 * spread).all()


def test_the_closed_loop_says_the_same(parts: parity.Parts, cases: Cases) -> None:
    """By codes that may be others: a choice between near entries tips over, and later groups with it."""
    loops = [parity.closed(parts, settings, reference) for settings, reference in cases.values()]
    assert _missed(parity.compare_closed(parts, n, loop) for n, loop in zip(cases, loops, strict=True)) == []
    total = parity.compare_closed_codes(loops)
    assert total.ok, total.figure
    assert all(abs(loop.made - loop.frames) <= 2 for loop in loops), "it ends elsewhere"


def test_decoder(parts: parity.Parts) -> None:
    results = list(parity.compare_decoder(parts, DATA))
    assert _missed(iter(results)) == []
    assert {result.limit for result in results} == {f">= {DECODER_DB['w8']:g} dB"}
    figures = [float(result.figure.split(" dB")[0]) for result in results]
    assert max(figures) - min(figures) < 0.25, "the chunks make a difference"


def test_other_codes_other_rows_and_another_sound_are_told(
    parts: parity.Parts, cases: Cases, tmp_path: Path
) -> None:
    """The limits are no wider than a frame's shift, a row of another token, or a tenth of the sound."""
    settings, reference = cases["voice"]
    shifted = reference | {"codes": np.roll(reference["codes"], 1, axis=0)}
    loop = parity.closed(parts, settings, shifted)
    assert not parity.compare_closed(parts, "shifted", loop).ok
    assert not parity.compare_closed_codes([loop]).ok
    other = reference | {"trailing": np.roll(reference["trailing"], 1, axis=0)}
    assert [r.ok for r in parity.compare_prompt(parts, "other", settings, other)] == [True, False]
    with np.load(DATA / "decoder.npz") as arrays:
        changed = dict(arrays)
    changed["pcm"] = changed["pcm"] + 0.3 * np.roll(changed["pcm"], 1)
    shutil.copy(DATA / "meta.json", tmp_path)
    np.savez(tmp_path / "decoder.npz", **changed)
    assert not any(result.ok for result in parity.compare_decoder(parts, tmp_path))


def test_an_f32_decoder_is_held_to_the_rounding_of_the_official_one() -> None:
    assert parity.decoder_limit("f32", None) == parity.decoder_limit("f32", 120.0) == 100.0
    assert parity.decoder_limit("f32", 95.1) == pytest.approx(89.1)
    assert parity.decoder_limit("w8", 95.1) == DECODER_DB["w8"]
    assert parity.read_meta(DATA)["official_f32_snr_db"] > 80.0
