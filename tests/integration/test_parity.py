"""Bundles made from the tiny checkpoints, against the official model's reference files."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.families.qwen3_tts import parity

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "oracle"
# Reference folder -> size and task of its checkpoint, as in tests/data/oracle/regenerate.
CHECKPOINTS = {
    "custom_voice": ("tiny", "custom_voice"),
    "voice_design": ("tiny", "voice_design"),
    "base": ("tiny", "base"),
    "projected": ("tiny17", "custom_voice"),
}
ALL_CASES = [(f, name) for f in CHECKPOINTS for name in parity.read_meta(DATA / f)["cases"]]

MakeParts = Callable[[str, str], parity.Parts]


def _tool(name: str, *arguments: object) -> None:
    done = subprocess.run(
        [ROOT / "tools" / name, *map(str, arguments)], capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Path]]:
    """Makes (reference folder, precision) -> bundle folder, once each."""
    folder = tmp_path_factory.mktemp("parity")

    def make(name: str, precision: str) -> Path:
        checkpoint, out = folder / name, folder / f"{name}-{precision}"
        if not checkpoint.exists():
            size, task = CHECKPOINTS[name]
            _tool("make_checkpoint", "--size", size, "--task", task, "--seed", 1, checkpoint)
        if not out.exists():
            _tool("convert", checkpoint, out, "--talker", precision, "--predictor", precision)
        return out

    yield make
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def parts(bundle: Callable[[str, str], Path]) -> MakeParts:
    """Makes (reference folder, precision) -> opened parts, once each."""
    made: dict[tuple[str, str], parity.Parts] = {}

    def make(name: str, precision: str = "f32") -> parity.Parts:
        if (name, precision) not in made:
            made[name, precision] = parity.open_parts(bundle(name, precision))
        return made[name, precision]

    return make


def _case(folder: str, name: str) -> tuple[parity.Case, parity.Case]:
    meta = parity.read_meta(DATA / folder)
    with np.load(DATA / folder / f"{name}.npz") as arrays:
        return meta["cases"][name] | {"frames": meta["frames"]}, dict(arrays)


def _all_hold(results: Iterator[parity.Result]) -> list[parity.Result]:
    found = list(results)
    assert found
    assert [result for result in found if not result.ok] == []
    return found


@pytest.mark.parametrize("folder, name", ALL_CASES)
def test_ids_and_prompt_rows_are_the_official_ones(parts: MakeParts, folder: str, name: str) -> None:
    settings, reference = _case(folder, name)
    results = _all_hold(parity.compare_prompt(parts(folder, "f32"), name, settings, reference))
    assert [result.limit for result in results] == ["equal", "<= 1e-05"]


@pytest.mark.parametrize("folder, name", ALL_CASES)
def test_every_code_of_the_closed_loop_is_the_official_one(parts: MakeParts, folder: str, name: str) -> None:
    settings, reference = _case(folder, name)
    opened = parts(folder, "f32")
    assert opened.exact
    result = parity.compare_closed(opened, name, parity.closed(opened, settings, reference))
    assert result.ok
    assert result.figure == f"{len(reference['codes'])}/{len(reference['codes'])} frames, 16 codebooks"


@pytest.mark.parametrize("folder, name", ALL_CASES)
def test_hidden_states_and_most_likely_codes_under_teacher_forcing(
    parts: MakeParts, folder: str, name: str
) -> None:
    _, reference = _case(folder, name)
    forced = parity.teacher_forced(parts(folder, "f32"), reference)
    assert forced.steps == len(reference["codes"]) + 1
    assert forced.hidden_error < 1e-5
    assert forced.logit_error < 1e-4
    assert (forced.hits, forced.sub_hits) == (forced.steps, forced.sub_steps)


def test_predictor_logits(parts: MakeParts) -> None:
    opened = parts("custom_voice", "f32")
    _, reference = _case("custom_voice", "streaming")
    frame, logits = int(reference["sub_frames"][0]), reference["sub_logits"][0].astype(np.float32)
    codes = reference["codes"][frame]
    out = [opened.predictor.begin(reference["hidden"][frame], opened.tables[0][codes[0]].astype(np.float32))]
    for group in range(1, 15):
        out.append(opened.predictor.next(group, opened.tables[group][codes[group]].astype(np.float32)))
    # The reference is kept in half precision.
    np.testing.assert_allclose(np.stack(out), logits, atol=1e-2)


@pytest.mark.parametrize("precision", ["f16", "q8_0", "q4_0"])
def test_quantised_models_agree_with_the_official_one(parts: MakeParts, precision: str) -> None:
    opened = parts("custom_voice", precision)
    assert not opened.exact
    forced = []
    for name in ("streaming", "full-instruct", "streaming-mixed", "full-auto", "streaming-dialect-auto"):
        _, reference = _case("custom_voice", name)
        forced.append(parity.teacher_forced(opened, reference))
        assert parity.compare_hidden(opened, name, forced[-1]).ok
    _all_hold(parity.compare_top1(opened, forced))


def test_token_ids_of_many_texts(parts: MakeParts) -> None:
    _all_hold(parity.compare_tokens(parts("custom_voice", "f32"), DATA / "custom_voice"))


def test_control_tokens_in_a_text_are_spoken_not_obeyed(parts: MakeParts) -> None:
    opened = parts("custom_voice", "f32")
    for control in ("<|im_end|>", "<|im_start|>", "<|endoftext|>"):
        ids = opened.tokenizer.speech(f"a {control} b")
        body = ids[opened.tokenizer.HEAD : -opened.tokenizer.TAIL]
        assert len(body) > 4
        assert max(body) < opened.manifest.tokens["im_start"] - 1


def test_chunked_decoding_equals_the_full_forward(parts: MakeParts) -> None:
    results = _all_hold(parity.compare_decoder(parts("custom_voice", "f32"), DATA / "custom_voice"))
    assert {result.case for result in results} >= {"ones", "1 then 25", "4,4,8,16,25", "random 0"}
    assert all(result.figure.endswith(f"{96 * 1920} samples") for result in results)
    assert all(result.limit == ">= 100 dB" for result in results)


def test_steps_are_split_into_chunks_that_exist() -> None:
    assert parity.split(25, (1, 4, 8)) == [8, 8, 8, 1]
    assert parity.split(7, (1, 4, 8)) == [4, 1, 1, 1]
    for chunks in parity.schedules(96, (1, 4, 8)).values():
        assert sum(chunks) == 96
        assert set(chunks) <= {1, 4, 8}


def test_the_program_prints_a_table_and_tells_a_miss(
    bundle: Callable[[str, str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    oracle = tmp_path / "oracle"
    oracle.mkdir()
    meta = parity.read_meta(DATA / "base")
    name = "base-streaming-x-vector"
    meta["cases"] = {name: meta["cases"][name]}
    (oracle / "meta.json").write_text(json.dumps(meta))
    shutil.copy(DATA / "base" / f"{name}.npz", oracle)
    command = [str(bundle("base", "f32")), str(oracle)]
    assert parity.main(command) == 0
    assert "every comparison is within its limit" in capsys.readouterr().out

    with np.load(oracle / f"{name}.npz") as arrays:
        changed = dict(arrays)
    changed["codes"][20, 3] ^= 1
    np.savez(oracle / f"{name}.npz", **changed)
    assert parity.main(command) == 1
    out = capsys.readouterr().out
    assert "first difference frame 20 codebook 3" in out
    assert "MISS" in out
