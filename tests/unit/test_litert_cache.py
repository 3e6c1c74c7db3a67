"""The file of packed weights: built once, never trusted, never in the way."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_mini import Mini

from cython_kernels import _leftovers, _weight_cache
from cython_kernels.litert import LiteRtDecoder

MINI = Mini(chunks=(1, 4, 8))
SHAPE: dict[str, Any] = {"groups": MINI.groups, "samples_per_frame": MINI.spf, "entries": MINI.entries}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return MINI.write(tmp_path / "decoder.tflite")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / "decoder"


def load(path: Path, cache: Path, mini: Mini = MINI, **kwargs: Any) -> LiteRtDecoder:
    """Make a decoder and let it prove that its weights are those of `mini`."""
    decoder = LiteRtDecoder(path, **{**SHAPE, "cache_path": cache, **kwargs})
    codes = mini.random_codes(13)
    pcm = np.concatenate([decoder.decode(codes[a:b]) for a, b in ((0, 8), (8, 12), (12, 13))])
    np.testing.assert_allclose(pcm, mini.reference(codes), atol=1e-6)
    return decoder


def packed(cache: Path) -> Path:
    (file,) = cache.parent.glob("*.xnn")
    return file


def identity(file: Path) -> tuple[int, int]:
    st = file.stat()
    return st.st_ino, st.st_mtime_ns


def test_it_is_built_once_and_then_used(model: Path, cache: Path) -> None:
    first = load(model, cache)
    file = packed(cache)
    assert first.info["weight_cache"] == str(file) and first.info["weight_cache_problem"] == ""
    assert sorted(p.suffix for p in cache.parent.iterdir()) == [".json", ".xnn"]
    before = identity(file)
    load(model, cache, threads=1)
    load(model, cache, chunks=(1, 4, 8), threads=3)
    assert identity(file) == before


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_its_end_closes_its_own_descriptor_and_no_other(model: Path, cache: Path) -> None:
    load(model, cache)
    gc.collect()
    before = open_files()
    decoder = load(model, cache)
    # They take every number that is free by now.
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
    del decoder
    gc.collect()
    kinds = [os.readlink(f"/proc/self/fd/{fd}") for fd in others if os.path.lexists(f"/proc/self/fd/{fd}")]
    for fd in others:
        with contextlib.suppress(OSError):
            os.close(fd)
    assert kinds == ["/dev/null"] * 64
    assert open_files() == before


def test_a_decoder_that_is_refused_leaves_no_descriptor(tmp_path: Path, cache: Path) -> None:
    good = MINI.write(tmp_path / "decoder.tflite")
    load(good, cache, digest="same")
    gc.collect()
    before = open_files()
    for _ in range(5):
        # The cache is there, and the signature is not.
        with pytest.raises(ValueError, match="decode_2"):
            LiteRtDecoder(good, **SHAPE, chunks=(1, 2), cache_path=cache, digest="same")
    gc.collect()
    assert open_files() == before


def test_the_mapped_file_is_the_cache(model: Path, cache: Path) -> None:
    decoder = load(model, cache)
    mapped = Path("/proc/self/maps").read_text()
    assert decoder.info["weight_cache"] in mapped


@pytest.mark.parametrize(
    "damage", ["empty", "short", "index", "header", "note gone", "note empty", "file gone"]
)
def test_a_damaged_cache_is_built_again(model: Path, cache: Path, damage: str) -> None:
    load(model, cache)
    file, note = packed(cache), packed(cache).with_suffix(".json")
    data = file.read_bytes()
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "short":
        file.write_bytes(data[:-8])
    elif damage == "index":
        file.write_bytes(data[:-8] + bytes(8))
    elif damage == "header":
        file.write_bytes(bytes(64) + data[64:])
    elif damage == "note gone":
        note.unlink()
    elif damage == "note empty":
        note.write_text("")
    else:
        file.unlink()
    decoder = load(model, cache)
    assert decoder.info["weight_cache"] == str(file)
    assert file.read_bytes() == data
    assert json.loads(note.read_text())["size"] == len(data)


def test_another_model_of_the_same_shape_gets_its_own_weights(model: Path, cache: Path) -> None:
    load(model, cache)
    old, st = packed(cache), model.stat()
    other = Mini(chunks=(1, 4, 8), seed=7)
    other.write(model)
    os.utime(model, ns=(st.st_atime_ns, st.st_mtime_ns))
    assert model.stat().st_size == st.st_size
    load(model, cache, other)
    assert packed(cache) != old


def test_a_known_digest_is_part_of_the_name(model: Path, cache: Path) -> None:
    load(model, cache, digest="00" * 32)
    first = packed(cache)
    load(model, cache, digest="00" * 32)
    assert packed(cache) == first
    load(model, cache, digest="11" * 32)
    assert packed(cache) != first


def test_leftovers_of_a_killed_builder_go_and_those_of_a_live_one_stay(model: Path, cache: Path) -> None:
    dead, live = (cache.parent / f"decoder.0123456789abcdef01234567.xnn.1.{n}.tmp" for n in (1, 2))
    foreign = cache.parent / "decoder.txt"
    for path in (dead, foreign):
        path.write_bytes(b"x")
    lock = _leftovers.create(live)
    for _ in ("built", "found"):
        load(model, cache)
        assert not dead.exists() and live.exists() and foreign.exists()
        dead.write_bytes(b"x")
    os.close(lock)


def test_a_killed_first_start_leaves_nothing_that_loads(model: Path, cache: Path) -> None:
    code = (
        "import sys, json; sys.path[:] = json.loads(sys.argv[1])\n"
        "from cython_kernels import _weight_cache as w\n"
        "w._index_digest = lambda file: print('built', flush=True) or __import__('time').sleep(60)\n"
        "w.prepare(sys.argv[2], sys.argv[3], None, json.loads(sys.argv[4]))\n"
    )
    settings = json.dumps({**SHAPE, "chunks": [1, 4, 8], "threads": 1})
    argv = [sys.executable, "-c", code, json.dumps(sys.path), str(model), str(cache), settings]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "built\n"
        child.kill()
    assert [p.suffix for p in cache.parent.iterdir()] == [".tmp"]
    load(model, cache)
    assert sorted(p.suffix for p in cache.parent.iterdir()) == [".json", ".xnn"]


def test_without_a_folder_the_weights_go_to_memory(model: Path, tmp_path: Path) -> None:
    decoder = load(model, tmp_path / "none" / "decoder")
    assert decoder.info["weight_cache"] == ""
    assert "is not a writable folder" in decoder.info["weight_cache_problem"]


def test_a_full_disk_does_not_end_the_process(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "import resource as r, sys\nif int(sys.argv[3]) >= 0: r.setrlimit(r.RLIMIT_FSIZE, (1024, 1024))\n"
    monkeypatch.setattr(_weight_cache, "_CHILD", full + _weight_cache._CHILD)
    decoder = load(model, cache)
    assert decoder.info["weight_cache"] == ""
    assert "building it ended by SIGABRT" in decoder.info["weight_cache_problem"]
    assert list(cache.parent.iterdir()) == []


def test_an_interface_error_is_the_same_with_a_cache(tmp_path: Path, cache: Path) -> None:
    path = Mini(pcm_name="audio").write(tmp_path / "bad.tflite")
    with pytest.raises(ValueError, match="signature decode_1 has no output named pcm") as error:
        LiteRtDecoder(path, **SHAPE, chunks=(1, 4), cache_path=cache)
    assert str(path) in str(error.value)
    assert list(cache.parent.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS])
def test_a_model_that_crashes_the_runtime_ends_only_the_child(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(_weight_cache, "_CHILD", f"import os; os.kill(os.getpid(), {int(number)})")
    with pytest.raises(ValueError, match=f"a trial run of it ended by {number.name}"):
        load(model, cache)


def test_a_builder_that_cannot_start_leaves_the_weights_in_memory(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    assert "could not be started" in load(model, cache).info["weight_cache_problem"]


def test_loading_from_the_cache_leaks_no_descriptor(model: Path, cache: Path) -> None:
    load(model, cache)
    fds = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        load(model, cache)
    assert len(os.listdir("/proc/self/fd")) == fds


def test_a_second_load_is_quick(model: Path, cache: Path) -> None:
    load(model, cache)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        load(model, cache)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.1
