"""Files of the cache folder that a killed writer did not finish: the next start deletes only these."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import litert_mini
import pytest
import tiny_gguf as tiny

from cython_kernels import _leftovers
from edgettsd.hw import calibration
from edgettsd.hw.cache import weight_file

DIGEST = "a" * 64
SHAPE = tiny.Shape(hidden=256, input_hidden=256, ffn=512)
CAPABLE = any(flag in Path("/proc/cpuinfo").read_text() for flag in (" avx2", " asimddp"))
MINI = litert_mini.Mini(chunks=(1, 4, 8))
# What a start writes: the weights of three parts. It ends as a daemon that is stopped while it loads.
_START = f"""
import os, sys
from pathlib import Path
from cython_kernels.litert import LiteRtDecoder
from cython_kernels.llama import LlamaTalker
from cython_kernels.predictor import GgmlPredictor
from edgettsd.hw.cache import weight_file

models, cache = map(Path, sys.argv[1:])
file = lambda part: weight_file(cache, part, "{DIGEST}")
LiteRtDecoder(models / "decoder.tflite", groups={MINI.groups}, samples_per_frame={MINI.spf},
              entries={MINI.entries}, cache_path=cache / "decoder")
LlamaTalker(models / "talker.gguf", max_context=16, threads=1, weight_file=file("talker"))
GgmlPredictor(models / "predictor.gguf", threads=1, weight_file=file("predictor"))
os._exit(0)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.write_talker(folder / "talker.gguf", tiny.talker(SHAPE), "q4_0")
    tiny.write_predictor(folder / "predictor.gguf", tiny.predictor(SHAPE), "q4_0")
    MINI.write(folder / "decoder.tflite")
    return folder


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "kill_at.so"
    source = Path(__file__).parents[1] / "rigs" / "kill_at.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def start(models: Path, cache: Path, **environment: str) -> int:
    """Exit status of a start with this cache folder."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    return subprocess.run(
        [sys.executable, "-c", _START, models, cache], env=kept | environment, timeout=120, check=False
    ).returncode


@pytest.mark.parametrize("place", range(1, 11))
def test_a_start_that_was_killed_leaves_nothing_to_the_next(
    place: int, models: Path, shim: Path, tmp_path: Path
) -> None:
    killed = start(models, tmp_path, LD_PRELOAD=str(shim), KILL_AT=str(place))
    assert killed == -signal.SIGKILL, f"the start has no step {place}"
    assert start(models, tmp_path) == 0
    assert [file.name for file in tmp_path.glob("*.tmp")] == []
    parts = {file.name.split(".")[0] for file in tmp_path.iterdir()}
    assert parts >= ({"decoder", "talker", "predictor"} if CAPABLE else {"decoder"})


def test_the_daemons_end_during_loading_ends_the_builder_too(models: Path, tmp_path: Path) -> None:
    """The child that packs the decoder's weights does not go on for a parent that is gone."""
    script = (
        "import os, subprocess, sys, threading, time\n"
        "from cython_kernels import _weight_cache as w\n"
        "w._CHILD = w._CHILD.replace('sys.path[:]', 'print(os.getpid(), flush=True, file=sys.stderr)\\n"
        "import time\\ntime.sleep(100)\\nsys.path[:]')\n"
        "run = subprocess.run\n"
        "subprocess.run = lambda argv, capture_output, **o: run(argv, **o)\n"
        "threading.Thread(target=w.prepare, args=(sys.argv[1], sys.argv[2], None, {}), daemon=True).start()\n"
        "sys.stdin.read()\n"
        "os._exit(0)\n"
    )
    argv = [sys.executable, "-c", script, str(models / "decoder.tflite"), str(tmp_path / "decoder")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stderr is not None
        child = int(parent.stderr.readline())
        descriptor = os.pidfd_open(child)
        _, _ = parent.communicate("", timeout=30)
    assert select.select([descriptor], [], [], 20)[0], "the child lives on"
    os.close(descriptor)
    assert len(list(tmp_path.glob("*.tmp"))) == 1
    _leftovers.delete(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_being_written_stays(tmp_path: Path) -> None:
    name = weight_file(tmp_path, "talker", DIGEST)
    assert name is not None
    mine, others = Path(f"{name}.0.1.0.tmp"), tmp_path / "talker.0123.weights.0.1.0.tmp"
    dead = [Path(f"{name}.1.{os.getpid()}.0.tmp"), tmp_path / "talker.0123.weights.1.1.0.tmp"]
    for file in dead:
        file.touch()
    with contextlib.ExitStack() as stack:
        for file in (mine, others):
            stack.callback(os.close, _leftovers.create(file))
        weight_file(tmp_path, "talker", DIGEST)
        assert set(tmp_path.iterdir()) == {mine, others}
    weight_file(tmp_path, "talker", DIGEST)
    assert list(tmp_path.iterdir()) == []


def test_calibrations_leave_nothing_either(tmp_path: Path) -> None:
    left = tmp_path / f"{calibration.FILE}.123.456.tmp"
    left.touch()
    split = calibration.Split(1, 1, (0,), (0,))
    measured = calibration.Measured(split, 0.5)
    calibration.save(tmp_path, "key", calibration.Calibration(measured, (measured,)))
    assert [file.name for file in tmp_path.iterdir()] == [calibration.FILE]
    assert calibration.load(tmp_path, "key") is not None


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    _leftovers.write(file, "old")

    def fails(*arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        _leftovers.write(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_two_writers_do_not_share_a_name(tmp_path: Path) -> None:
    tmp = tmp_path / "file.1.tmp"
    fd = _leftovers.create(tmp)
    with pytest.raises(BlockingIOError, match="is written by somebody else"):
        _leftovers.create(tmp)
    os.close(fd)
    os.close(_leftovers.create(tmp))
