"""Rearranged weights in files: the same bits, less anonymous memory, and files that are not believed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import model_files
import numpy as np
import numpy.typing as npt
import pytest
import tiny_gguf as tiny

from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor
from edgettsd.config import Config
from edgettsd.engine.bundle_parts import BundleParts
from edgettsd.hw.cache import weight_file

SHAPE = tiny.Shape(hidden=256, input_hidden=256, ffn=512)
ROWS = np.random.default_rng(1).standard_normal((6, SHAPE.hidden)).astype(np.float32)
CAPABLE = any(flag in Path("/proc/cpuinfo").read_text() for flag in (" avx2", " asimddp"))

Part = LlamaTalker | GgmlPredictor
Make = Callable[..., Part]


def _talker(folder: Path, seed: int = 0, **options: Any) -> Part:
    file = tiny.write_talker(folder / "talker.gguf", tiny.talker(SHAPE, seed), "q4_0")
    return LlamaTalker(file, max_context=16, threads=1, **options)


def _predictor(folder: Path, seed: int = 0, **options: Any) -> Part:
    file = tiny.write_predictor(folder / "predictor.gguf", tiny.predictor(SHAPE, seed), "q4_0")
    return GgmlPredictor(file, threads=1, **options)


def _logits(part: Part) -> npt.NDArray[np.float32]:
    if isinstance(part, GgmlPredictor):
        return part.begin(ROWS[0], ROWS[1])
    part.reset()
    part.feed(ROWS)
    return part.logits()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("kept.*"))


@pytest.fixture(params=[_talker, _predictor], ids=["talker", "predictor"])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param  # type: ignore[no-any-return]


def test_the_same_bits_from_a_file(tmp_path: Path, make: Make) -> None:
    plain = _logits(make(tmp_path))
    kept = tmp_path / "kept"
    for _ in ("written", "found"):
        part = make(tmp_path, weight_file=kept)
        assert np.array_equal(_logits(part), plain)
        if CAPABLE:
            # Half of the weights at the least: a block gives its whole pages only.
            assert part.file_bytes > 100_000
        assert sum(file.stat().st_size for file in _files(tmp_path)) == part.file_bytes
        mapped = Path("/proc/self/maps").read_text()
        assert all(str(file) in mapped for file in _files(tmp_path))
        del part


def test_a_file_is_written_once(tmp_path: Path, make: Make) -> None:
    make(tmp_path)
    model = next(tmp_path.glob("*.gguf"))
    kernel = "llama LlamaTalker" if make is _talker else "predictor GgmlPredictor"
    module, cls = kernel.split()
    script = (
        f"import sys; from cython_kernels.{module} import {cls}; {cls}(sys.argv[1], weight_file=sys.argv[2])"
    )
    stamps = []
    for _ in range(2):
        # Processes of their own: what lies between two matrices differs in memory that was used before.
        subprocess.run([sys.executable, "-c", script, model, tmp_path / "kept"], check=True)
        stamps.append({file: file.stat().st_mtime_ns for file in _files(tmp_path)})
    assert stamps[0] == stamps[1]
    assert stamps[0] or not CAPABLE


def test_a_file_with_other_content_is_written_anew(tmp_path: Path, make: Make) -> None:
    kept = tmp_path / "kept"
    make(tmp_path, weight_file=kept)
    # A small block may lie in the heap and have no file; then the damaged one stays, unused.
    for damage in (lambda data: data[:-1], lambda data: b"", lambda data: b"x" + data[1:]):
        for file in _files(tmp_path):
            # In place: nobody may depend on the file any more.
            file.write_bytes(damage(file.read_bytes()))
        assert np.array_equal(_logits(make(tmp_path, weight_file=kept)), _logits(make(tmp_path)))
    other = make(tmp_path, seed=5, weight_file=kept)
    assert np.array_equal(_logits(other), _logits(make(tmp_path, seed=5)))
    assert not list(tmp_path.glob("*.tmp"))


def test_two_that_write_the_same_file_at_once(tmp_path: Path, make: Make) -> None:
    plain, kept = make(tmp_path), tmp_path / "kept"
    model = next(tmp_path.glob("*.gguf"))
    ready = threading.Barrier(2)

    def load(_: int) -> Part:
        ready.wait()
        if make is _talker:
            return LlamaTalker(model, max_context=16, threads=1, weight_file=kept)
        return GgmlPredictor(model, threads=1, weight_file=kept)

    with ThreadPoolExecutor(2) as pool:
        for _ in range(40):
            for file in _files(tmp_path):
                file.unlink()
            parts = list(pool.map(load, range(2)))
            assert all(np.array_equal(_logits(part), _logits(plain)) for part in parts)
            # Neither took the other's half-written file away from it.
            assert all(part.file_bytes > 100_000 for part in parts) or not CAPABLE
    assert not list(tmp_path.glob("*.tmp"))


def test_where_no_file_can_be_written_weights_stay_in_memory(tmp_path: Path, make: Make) -> None:
    part = make(tmp_path, weight_file=tmp_path / "none" / "kept")
    assert part.file_bytes == 0
    assert np.array_equal(_logits(part), _logits(make(tmp_path)))


def test_without_a_file_nothing_is_written(tmp_path: Path, make: Make) -> None:
    before = set(os.listdir(tmp_path))
    assert make(tmp_path).file_bytes == 0
    assert set(os.listdir(tmp_path)) - before <= {"talker.gguf", "predictor.gguf"}


def test_files_of_another_model_are_deleted(tmp_path: Path) -> None:
    old, same = tmp_path / "talker.0123.weights.0", tmp_path / f"talker.{'a' * 24}.weights.1"
    others = [tmp_path / "predictor.0123.weights.0", tmp_path / "decoder.0123.xnn"]
    for file in (old, same, *others):
        file.touch()
    assert weight_file(tmp_path, "talker", "a" * 64) == tmp_path / f"talker.{'a' * 24}.weights"
    assert not old.exists() and same.exists() and all(file.exists() for file in others)
    assert weight_file(None, "talker", "a" * 64) is None


@pytest.mark.parametrize("kept", [True, False])
def test_the_configuration_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    monkeypatch.delenv("CACHE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = {"model": {"path": str(model_files.bundle())}, "engine": {"weight_files": kept}}
    parts = BundleParts.load(Config().updated(model, "test"))
    predictor = parts.predictor()
    assert isinstance(predictor, GgmlPredictor)
    written = list((tmp_path / "edgettsd").glob("predictor.*.weights.*"))
    assert bool(written) == bool(predictor.file_bytes) == kept
    parts.close()
