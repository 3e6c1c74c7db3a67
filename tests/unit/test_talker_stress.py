"""The talker's C under AddressSanitizer and UndefinedBehaviorSanitizer: random use, damaged weights."""

from __future__ import annotations

import os
import shlex
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import kernel_sources
import llama_cpp
import numpy as np
import pytest
import tiny_gguf as tiny

from cython_kernels.isa import own_isa

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "et_talker_open et_talker_warm_up et_talker_file et_talker_llama et_talker_matvec "
    "et_talker_matvec_weights et_talker_attend et_isa et_matvec et_ggml_graphs et_ggml_cpu et_gguf et_log "
    "et_weight_file"
).split()
LIBRARIES = "libllama.so.0 libggml.so.0 libggml-base.so.0 libggml-cpu.so.0".split()
SHAPES = {
    "q4_0": tiny.Shape(heads=6, ffn=192, head_dim=96),
    "q8_0": tiny.Shape(layers=1, heads=3, kv_heads=1, head_dim=256),
    "f16": tiny.Shape(),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    package = Path(llama_cpp.__file__).parent
    out, lib = tmp_path_factory.mktemp("rig") / "talker_stress", package / "lib"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    command = [
        compiler,
        "-std=gnu11",
        "-O1",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    command += ["-Wno-psabi", *kernel_sources.INCLUDES, "-isystem", str(package.parent / "include")]
    command += ["-o", str(out)]
    command += [str(ROOT / "tests/rigs/talker_stress.c"), *kernel_sources.files(FILES)]
    command += [
        f"-L{lib}",
        f"-Wl,-rpath,{lib}",
        *(f"-l:{name}" for name in LIBRARIES),
        "-lm",
        "-lpthread",
        "-ldl",
    ]
    subprocess.run(command, check=True)
    return out


def _run(program: Path, folder: Path, files: Sequence[Path]) -> list[list[int]]:
    """What the rig tells of each file."""
    # Threads that spin keep a small machine from its work.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    command = [str(program), "1", str(folder / "kept"), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [[int(number) for number in line.split()[-3:]] for line in done.stdout.splitlines()]


def test_random_use_under_sanitizers(program: Path, tmp_path: Path) -> None:
    files = [
        tiny.write_talker(tmp_path / f"{precision}.gguf", tiny.talker(shape), precision)
        for precision, shape in SHAPES.items()
    ]
    fast = 7 if own_isa() == "avx512-vnni" else 0
    assert _run(program, tmp_path, files) == [[7, fast, 1], [7, fast, 1], [7, 0, 1]]


def test_damaged_weights_under_sanitizers(program: Path, tmp_path: Path) -> None:
    """Scales that are infinite, NaN, enormous or next to nothing: refused, or computed with."""
    shape, rng, files = tiny.Shape(layers=1), np.random.default_rng(1), []
    whole = tiny.write_talker(tmp_path / "whole.gguf", tiny.talker(shape), "q4_0").read_bytes()
    for i, value in enumerate((0x7C00, 0xFE00, 0x7BFF, 0x0001)):
        data = bytearray(whole)
        for at in rng.integers(len(data) // 2, len(data) - 2, 40):
            data[at : at + 2] = value.to_bytes(2, "little")
        files.append(tmp_path / f"{i}.gguf")
        files[-1].write_bytes(data)
    norm = tiny.talker(shape).tensors["blk.0.attn_norm.weight"] * np.float32(1e-37)
    model = tiny.with_tensor(tiny.talker(shape), "blk.0.attn_norm.weight", norm)
    files.append(tiny.write_talker(tmp_path / "small.gguf", model, "q8_0"))
    contexts = [told[0] for told in _run(program, tmp_path, files)]
    assert contexts[:2] == [0, 0] and contexts[3:] == [7, 7]
