"""The projections of docs/boards.md: checked against measurements, and against the bytes of real files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import gguf
import model_files
import pytest
from edgettsd_tools import boards

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("stage", boards.MEASURED)
def test_the_model_reproduces_what_was_measured(stage):
    projected, measured = boards.reference_errors()[stage]
    assert projected == pytest.approx(measured, rel=0.06)


def test_bytes_are_those_of_the_files():
    """The weights that are read a step, against the tensors of a bundle of the tiny size."""
    folder = model_files.bundle(precision="q8_0")
    manifest = json.loads((folder / "manifest.json").read_text())
    work = boards.of_bundle(folder)

    def matrices(name: str, steps: int = 1) -> int:
        tensors = gguf.GGUFReader(folder / name).tensors
        # Vectors of norms are small; the talker's embedding rows are not read as a matrix.
        big = [t for t in tensors if len(t.shape) > 1 and min(t.shape) > 1 and t.name != "token_embd.weight"]
        heads = sum(int(t.n_bytes) for t in big if t.name.startswith("head."))
        return heads + steps * sum(int(t.n_bytes) for t in big if not t.name.startswith("head."))

    talker = manifest["talker"]
    memory = boards.POSITIONS * talker["layers"] * 2 * talker["kv_heads"] * talker["head_dim"] * 2
    assert work.talker_bytes - memory == matrices("talker.gguf")
    assert work.predictor_bytes == matrices("predictor.gguf", manifest["code_groups"] - 1)


def test_the_official_size():
    """440 M weights in 28 layers, 15 passes through 79 M and their heads."""
    work = boards.of_size("0.6b", "q4_0")
    assert work.talker_macs == 28 * 15_728_640 + 3072 * 1024
    assert work.predictor_macs == 15 * (5 * 15_728_640 + 2048 * 1024)


def test_more_of_everything_is_faster():
    work = boards.of_size("0.6b", "q4_0")
    for board in boards.BOARDS:
        bad, good = (boards.project(board, work, share) for share in boards.SHARES)
        assert good.generator <= bad.generator
        assert good.int8 < good.exact
        assert boards.project(board, boards.of_size("0.6b", "q8_0"), 0.5).generator > bad.generator * 0.9


def test_placement_is_the_products_own():
    work = boards.of_size("0.6b", "q4_0")
    cores = {board.name: boards.project(board, work, 0.5).cores for board in boards.BOARDS}
    assert cores == {
        "Raspberry Pi 4": (2, 2),
        "Raspberry Pi 5": (2, 2),
        "RK3588": (2, 2),
        "Orin Nano 8 GB": (3, 2),
        "Orin NX 16 GB": (3, 4),
        "AGX Orin 64 GB": (4, 4),
    }


def test_the_guide_holds_these_tables():
    guide = (ROOT / "docs" / "boards.md").read_text()
    works = boards.default_works()
    for lines in (boards.work_table(works), boards.check_table(), boards.table(works)):
        assert "\n".join(lines) in guide, "docs/boards.md: renew its tables with tools/boards"


def test_the_tool(tmp_path):
    tool = [ROOT / "tools" / "boards", "--bundle"]
    done = subprocess.run(
        [*tool, model_files.bundle()], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.count("| Raspberry Pi 5 |")) == (0, 1), done.stderr
    done = subprocess.run([*tool, tmp_path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "manifest.json" in done.stderr
