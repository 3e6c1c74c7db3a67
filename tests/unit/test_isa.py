"""EDGETTSD_ISA switches products of our own off, is read once, and has no other values than it says."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import model_files
import numpy as np
import pytest
import tiny_gguf as tiny

from cython_kernels.isa import CHOICES, own_isa
from cython_kernels.llama import LlamaTalker
from edgettsd.config import Config
from edgettsd.ctl import main
from edgettsd.engine.engine import Engine
from edgettsd.hw import calibration, load_profile

TESTS = Path(__file__).parent
FLAGS = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
SHAPE = tiny.Shape(hidden=128, heads=6, kv_heads=2, head_dim=64, ffn=192, vocab=96)
# The talker's and the predictor's results, and whether libllama was used, in a process of its own.
CHILD = """
import json, os, sys
import numpy as np
from cython_kernels.isa import own_isa
from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor
before = own_isa()
os.environ["EDGETTSD_ISA"] = "generic" if before != "generic" else "auto"
talker = LlamaTalker(sys.argv[1], max_context=64, threads=1)
talker.feed(np.load(sys.argv[3]))
predictor = GgmlPredictor(sys.argv[2], threads=1)
logits = talker.logits().tolist()
print(json.dumps({"isa": [before, own_isa()], "own": talker.own_products, "logits": logits}))
"""


def _run(isa: str | None, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "EDGETTSD_ISA"}
    environment |= {} if isa is None else {"EDGETTSD_ISA": isa}
    return subprocess.run(
        [sys.executable, "-P", *command], env=environment, capture_output=True, text=True, timeout=120
    )


def _isa_of(wish: str | None) -> str:
    done = _run(wish, "-c", "from cython_kernels.isa import own_isa; print(own_isa())")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_without_a_wish_the_cpu_decides() -> None:
    expected = "generic"
    if platform.machine() == "x86_64" and {"avx512bw", "avx512vl", "avx512dq"} <= set(FLAGS):
        expected = "avx512-vnni" if "avx512_vnni" in FLAGS else "avx512"
    assert {_isa_of(wish) for wish in (None, "", "auto")} == {expected}


def test_generic_leaves_all_to_libllama_and_ggml(tmp_path: Path) -> None:
    """Also for who changes the variable afterwards: it is read once."""
    file = tiny.write_talker(tmp_path / "t.gguf", tiny.talker(SHAPE, seed=3), "q4_0")
    predictor = tiny.write_predictor(tmp_path / "p.gguf", tiny.predictor(tiny.Shape()), "q4_0")
    rows = np.random.default_rng(5).standard_normal((9, SHAPE.hidden)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    found = {}
    for wish in CHOICES:
        done = _run(wish, "-c", CHILD, str(file), str(predictor), str(tmp_path / "rows.npy"))
        assert done.returncode == 0, done.stderr
        found[wish] = json.loads(done.stdout)
    assert found["generic"]["isa"] == ["generic", "generic"] and found["generic"]["own"] is False
    assert found["auto"]["own"] is (found["auto"]["isa"][0] == "avx512-vnni")
    assert len(set(found["auto"]["isa"])) == 1
    talker = LlamaTalker(file, max_context=64, threads=1, own_products=False)
    talker.feed(rows)
    np.testing.assert_array_equal(np.array(found["generic"]["logits"], np.float32), talker.logits())


@pytest.mark.parametrize("wish", ["none", "AUTO", "avx2", "generic "])
def test_an_unknown_value_is_refused_by_name_at_start(wish: str, tmp_path: Path) -> None:
    message = f"EDGETTSD_ISA={wish}: allowed are auto, generic"
    config = tmp_path / "edgettsd.toml"
    config.write_text("")
    daemon = _run(wish, "-m", "edgettsd", "--config", str(config), "--bus-address", "unix:path=/nowhere")
    assert daemon.returncode == 2 and message in daemon.stderr, daemon.stderr
    told = _run(wish, "-c", "import sys; from edgettsd.ctl import main; sys.exit(main(['hw']))")
    assert told.returncode == 1 and message in told.stderr, told.stderr


def test_what_is_in_force_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edgettsd.toml").write_text("")
    arguments = ["hw", "--config", str(tmp_path / "edgettsd.toml")]
    assert main(arguments) == 0
    assert f"\nown code: {own_isa()}" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["own_isa"] == own_isa()
    assert Engine(Config()).stats()["isa"] == own_isa()


def test_a_calibration_holds_for_one_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config().updated({"model": {"path": str(model_files.bundle())}}, "test")
    keys = set()
    for isa in ("generic", "avx512-vnni", "generic"):
        monkeypatch.setattr(calibration, "own_isa", lambda isa=isa: isa)
        keys.add(calibration.fingerprint(load_profile(), config))
    assert len(keys) == 2
