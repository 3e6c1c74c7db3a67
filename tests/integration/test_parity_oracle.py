"""The official code, run again, gives the committed reference files.

Runs where its environment is (made by ``tools/oracle --prepare``), and always in CI.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from edgettsd_tools.convert import Options, convert
from edgettsd_tools.families.qwen3_tts import parity
from edgettsd_tools.families.qwen3_tts.oracle_cases import VOICE_CASES
from english_files import english_checkpoint

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "oracle"
CASES = ("streaming", "full-auto")
OTHERS = {
    "voice_design": "design-streaming",
    "base": "base-streaming-x-vector",
    "projected": "streaming",
}
EXACT = ("ids", "instruct_ids", "codes", "top1", "logit_steps", "kept", "history")

pytestmark = pytest.mark.official_code


@pytest.mark.timeout(900)
def test_references_are_what_the_official_code_gives(tmp_path: Path) -> None:
    done = subprocess.run(
        [DATA / "regenerate", tmp_path, *CASES], capture_output=True, text=True, timeout=880
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = tmp_path / "custom_voice"
    now, then = (json.loads((f / "meta.json").read_text()) for f in (made, DATA / "custom_voice"))
    assert now["checkpoint_sha256"] == then["checkpoint_sha256"]
    assert set(now["cases"]) == set(CASES)
    assert (made / "tokens.json").read_text() == (DATA / "custom_voice" / "tokens.json").read_text()
    pairs = {made / f"{n}.npz": DATA / "custom_voice" / f"{n}.npz" for n in (*CASES, "decoder")}
    pairs[tmp_path / "sampling.npz"] = DATA / "sampling.npz"
    for folder, case in OTHERS.items():
        pairs[tmp_path / folder / f"{case}.npz"] = DATA / folder / f"{case}.npz"
    for new, old in pairs.items():
        with np.load(new) as ours, np.load(old) as theirs:
            assert sorted(ours) == sorted(theirs)
            for key in theirs:
                if theirs[key].dtype.kind == "U" or key.split("_")[0] in EXACT or key in EXACT:
                    np.testing.assert_array_equal(ours[key], theirs[key], err_msg=f"{old} {key}")
                else:
                    np.testing.assert_allclose(
                        ours[key], theirs[key], atol=2e-4, rtol=1e-3, err_msg=f"{old} {key}"
                    )


@pytest.mark.timeout(900)
def test_a_checkpoint_with_the_english_front_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the built-in voice is one, with random weights: in float32 every code is the official one."""
    checkpoint = english_checkpoint(tmp_path / "checkpoint", "joe")
    out = tmp_path / "references"
    done = subprocess.run(
        [ROOT / "tools" / "oracle", checkpoint, out], capture_output=True, text=True, timeout=880
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(f.stem for f in out.iterdir()) == sorted(
        ["decoder", "meta", *(case.name for case in VOICE_CASES)]
    )
    convert(checkpoint, tmp_path / "bundle", Options(talker="f32", predictor="f32"))
    assert parity.main([str(tmp_path / "bundle"), str(out)]) == 0, capsys.readouterr().out
    told = capsys.readouterr().out
    assert told.count("40/40 frames, 16 codebooks") == len(VOICE_CASES)
