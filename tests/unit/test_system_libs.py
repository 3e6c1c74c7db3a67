"""Kernels built with -Dlibs=system use the distribution's libllama, ggml and libLiteRt, and no wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import ai_edge_litert
import llama_cpp
import model_files
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
# Compiling takes most of a minute of CPU time.
pytestmark = pytest.mark.timeout(900)
MODULES = ("pipe", "vocab", "llama", "predictor", "litert")
LIBRARIES = ("libllama.so.0", "libggml.so.0", "libggml-base.so.0", "libggml-cpu.so.0", "libLiteRt.so")

# Speaks a few frames through each native library; prints what came out and what is mapped.
CHILD = """
import importlib.util, json, sys
import numpy as np
from pathlib import Path
bundle = Path(sys.argv[1])
import cython_kernels
from cython_kernels.litert import LiteRtDecoder
from cython_kernels.llama import LlamaTalker
from cython_kernels.pipe import Pipe
from cython_kernels.predictor import GgmlPredictor
from cython_kernels.vocab import Vocab
manifest = json.loads((bundle / "manifest.json").read_text())
talker = LlamaTalker(bundle / "talker.gguf", max_context=64, threads=1)
rows = np.linspace(-0.5, 0.5, 3 * talker.hidden_size, dtype=np.float32).reshape(3, -1)
talker.feed(rows)
predictor = GgmlPredictor(bundle / "predictor.gguf", threads=1)
logits = predictor.begin(rows[0], rows[1])
decoder = LiteRtDecoder(bundle / "decoder.tflite", groups=manifest["code_groups"],
                        samples_per_frame=manifest["samples_per_frame"], chunks=(1,), threads=1,
                        entries=manifest["predictor"]["vocab"])
pcm = decoder.decode(np.full((1, manifest["code_groups"]), 7, np.int32))
mapped = sorted({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line})
json.dump({
    "wheels": [n for n in ("llama_cpp", "ai_edge_litert") if importlib.util.find_spec(n) is not None],
    "preloaded": cython_kernels.LIBRARIES,
    "mapped": mapped,
    "hidden": talker.hidden().tolist(),
    "logits": np.asarray(logits).tolist(),
    "pcm": pcm.tolist(),
    "modules": [Pipe.__module__, Vocab.__module__],
}, sys.stdout)
"""


def run(path: list[Path], bundle: Path, **environment: str) -> dict[str, Any]:
    """Run CHILD with only `path` and the standard library to import from."""
    argv = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {[str(p) for p in path]!r}\n{CHILD}"]
    done = subprocess.run(
        [*argv, str(bundle)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a distribution's packages install: libraries by soname, headers, llama.pc."""
    folder = tmp_path_factory.mktemp("prefix")
    lib = folder / "lib"
    (lib / "pkgconfig").mkdir(parents=True)
    wheels = Path(llama_cpp.__file__).parent / "lib", Path(ai_edge_litert.__file__).parent
    for name in LIBRARIES:
        source = next(wheel / name for wheel in wheels if (wheel / name).exists())
        shutil.copy(source, lib / name)
        plain = name.removesuffix(".0")
        if plain != name:
            (lib / plain).symlink_to(name)
    shutil.copytree(Path(llama_cpp.__file__).parent.parent / "include", folder / "include")
    (lib / "pkgconfig/llama.pc").write_text(
        f"Name: llama\nDescription: llama.cpp\nVersion: 0.5.0\nLibs: -L{lib} -lggml -lggml-base -lllama\n"
        f"Cflags: -I{folder}/include\n"
    )
    return folder


@pytest.fixture(scope="module")
def stage(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import the kernels from that were built against `prefix`."""
    build = tmp_path_factory.mktemp("build")
    scripts = sysconfig.get_path("scripts")
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{scripts}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"),
        "LIBRARY_PATH": str(prefix / "lib"),
    }
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    targets = [f"cython_kernels/{name}{suffix}" for name in MODULES]
    # What is compiled is what is asked; how fast it runs is not.
    setup = ["meson", "setup", str(build), str(ROOT), "-Dlibs=system", "-Dbuildtype=plain"]
    for command in (setup, ["ninja", "-C", str(build), *targets]):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    package = build / "stage" / "cython_kernels"
    package.mkdir(parents=True)
    for target in [*targets, "cython_kernels/libedgettsd-kernels.so", "cython_kernels/_build_info.py"]:
        shutil.copy(build / target, package)
    for file in (ROOT / "cython_kernels").glob("*.py"):
        shutil.copy(file, package)
    return package.parent


@pytest.fixture(scope="module")
def only_numpy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (site / name).exists():
            (folder / name).symlink_to(site / name)
    return folder


def test_only_the_systems_libraries_are_used(prefix: Path, stage: Path, only_numpy: Path) -> None:
    bundle = model_files.bundle()
    said = run([stage, only_numpy], bundle, LD_LIBRARY_PATH=str(prefix / "lib"))
    assert said["wheels"] == []
    assert said["preloaded"] == {}
    for name in LIBRARIES:
        assert [path for path in said["mapped"] if Path(path).name == name] == [str(prefix / "lib" / name)]
    assert np.isfinite(said["hidden"]).all()
    assert np.abs(said["pcm"]).max() > 0


def test_installed_wheels_are_left_alone(prefix: Path, stage: Path) -> None:
    site = Path(np.__file__).parent.parent
    said = run([stage, site], model_files.bundle(), LD_LIBRARY_PATH=str(prefix / "lib"))
    assert said["wheels"] == ["llama_cpp", "ai_edge_litert"]
    wheels = (str(Path(llama_cpp.__file__).parent), str(Path(ai_edge_litert.__file__).parent))
    assert not [path for path in said["mapped"] if path.startswith(wheels)]


def test_both_modes_compute_the_same(prefix: Path, stage: Path, only_numpy: Path) -> None:
    import cython_kernels

    bundle = model_files.bundle()
    system = run([stage, only_numpy], bundle, LD_LIBRARY_PATH=str(prefix / "lib"))
    installed = Path(cython_kernels.__path__[0]).parent
    wheel = run([installed, Path(np.__file__).parent.parent], bundle)
    assert wheel["preloaded"].keys() == set(LIBRARIES)
    for name in ("hidden", "logits", "pcm"):
        assert np.allclose(system[name], wheel[name], rtol=1e-4, atol=1e-5), name


def test_what_only_tests_need_is_left_out_unless_asked_for(stage: Path) -> None:
    plan = json.loads((stage.parent / "meson-info" / "intro-install_plan.json").read_text())
    places = [Path(file["destination"]) for files in plan.values() for file in files.values()]
    installed = {place.name.partition(".")[0] for place in places if place.parent.name == "cython_kernels"}
    assert {"pipe", "playout", "libedgettsd-kernels"} <= installed
    assert {"fake", "fake_sink", "probe", "probe_audio"} & installed == set()


def test_another_series_of_libllama_is_refused(prefix: Path, tmp_path: Path) -> None:
    text = (prefix / "lib/pkgconfig/llama.pc").read_text()
    (tmp_path / "llama.pc").write_text(text.replace("Version: 0.5.0", "Version: 0.6.0"))
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(tmp_path),
        "LIBRARY_PATH": str(prefix / "lib"),
    }
    done = subprocess.run(
        ["meson", "setup", str(tmp_path / "build"), str(ROOT), "-Dlibs=system"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0
    assert "llama" in done.stdout
    assert "0.6.0" in done.stdout
