"""The decoder on LiteRT's GPU accelerator, SwiftShader being the Vulkan driver, and without a GPU."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import model_files
import numpy as np
import pytest

from cython_kernels import _libs
from cython_kernels.litert import LiteRtDecoder
from edgettsd import config
from edgettsd.engine.accelerator import open_decoder
from edgettsd.engine.bundle_parts import BundleParts

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgettsd-tests"
pytestmark = pytest.mark.timeout(600)
# Of PCM against the CPU's; the GPU computes in half precision where it sees fit.
SNR_DB = 60.0

# Decodes 17 frames by several schedules on the GPU, in a process of its own: the driver is chosen at start.
CHILD = """
import json, sys
import numpy as np
from cython_kernels.litert import LiteRtDecoder
path, settings, codes = sys.argv[1], json.loads(sys.argv[2]), np.load(sys.argv[3])
decoder = LiteRtDecoder(path, accelerator="gpu", **settings)
def run(sizes):
    out, at = [], 0
    for n in sizes:
        out.append(decoder.decode(codes[at:at + n]))
        at += n
    return np.concatenate(out)
first = run([1, 4, 4, 4, 4])
run([4])            # an utterance that is aborted here ...
decoder.reset()     # ... leaves nothing behind
again = run([1, 4, 4, 4, 4])
decoder.reset()
singles = run([1] * 17)
np.savez(sys.argv[4], first=first, again=again, singles=singles)
print(json.dumps(dict(decoder.info)))
"""


def settings(bundle: Path) -> dict[str, Any]:
    manifest = json.loads((bundle / "manifest.json").read_text())
    return {
        "groups": manifest["code_groups"],
        "samples_per_frame": manifest["samples_per_frame"],
        "chunks": [1, 4],
        "threads": 1,
        "entries": manifest["predictor"]["vocab"],
    }


def snr(reference: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    return float(10 * np.log10(np.sum(reference**2) / np.sum((reference - other) ** 2)))


@pytest.fixture(scope="module")
def swiftshader() -> Path:
    """Folder with a Vulkan loader and SwiftShader, of Debian's browser package; downloaded once a machine."""
    folder = CACHE / "swiftshader"
    if not (folder / "vk_swiftshader_icd.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for command in (
            "apt-get -q download chromium-common || "
            "{ apt-get -q update && apt-get -q download chromium-common; }",
            "dpkg-deb --fsys-tarfile chromium-common_*.deb | tar -xf - --strip-components=4 --wildcards "
            "./usr/lib/chromium/libvk_swiftshader.so ./usr/lib/chromium/libvulkan.so.1 "
            "./usr/lib/chromium/vk_swiftshader_icd.json",
            "rm chromium-common_*.deb",
        ):
            subprocess.run(["bash", "-ec", command], cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


def test_the_gpu_decodes_as_the_cpu_does(swiftshader: Path, tmp_path: Path) -> None:
    bundle = model_files.bundle()
    given = settings(bundle)
    rng = np.random.default_rng(3)
    codes = rng.integers(0, given["entries"], (17, given["groups"])).astype(np.int32)
    np.save(tmp_path / "codes.npy", codes)
    cpu = LiteRtDecoder(bundle / "decoder.tflite", **given)
    reference = np.concatenate([cpu.decode(codes[i : i + 1]) for i in range(17)])

    driver = str(swiftshader / "vk_swiftshader_icd.json")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "LD_LIBRARY_PATH": str(swiftshader),
        "VK_ICD_FILENAMES": driver,
        "VK_DRIVER_FILES": driver,
    }
    arguments = [str(bundle / "decoder.tflite"), json.dumps(given), str(tmp_path / "codes.npy")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments, str(tmp_path / "pcm.npz")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout.splitlines()[-1])
    assert info["accelerator"] == "gpu"
    assert info["fully_delegated"]
    with np.load(tmp_path / "pcm.npz") as pcm:
        assert snr(reference, pcm["first"]) >= SNR_DB
        assert snr(reference, pcm["singles"]) >= SNR_DB
        assert hashlib.sha256(pcm["again"]).digest() == hashlib.sha256(pcm["first"]).digest()


@pytest.mark.parametrize(("wish", "level"), [("gpu", logging.WARNING), ("auto", logging.INFO)])
def test_without_a_gpu_the_cpu_decodes_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wish: str, level: int
) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nonexistent.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nonexistent.json")
    bundle = model_files.bundle()
    with caplog.at_level(logging.INFO, logger="edgettsd"):
        decoder = open_decoder(wish, bundle / "decoder.tflite", **settings(bundle))
    assert decoder.info["accelerator"] == "cpu"
    (record,) = [r for r in caplog.records if "runs on the CPU" in r.getMessage()]
    assert record.levelno == level
    assert "GPU" in record.getMessage()
    assert decoder.decode(np.zeros((1, settings(bundle)["groups"]), np.int32)).size


LIBRARY = """
import json, sys
import numpy as np
from cython_kernels.litert import LiteRtDecoder
decoder = LiteRtDecoder(sys.argv[1], accelerator="gpu", library=sys.argv[3], **json.loads(sys.argv[2]))
decoder.decode(np.zeros((1, decoder.groups), np.int32))
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "Accelerator" in line}
print(json.dumps([decoder.info["accelerator"], sorted(mapped)]))
"""


def test_an_accelerator_is_taken_by_its_path(swiftshader: Path, tmp_path: Path) -> None:
    """A board's own library, here LiteRT's at another place: it and no other one is loaded and used."""
    import ai_edge_litert

    bundle = model_files.bundle()
    library = tmp_path / _libs.GPU_LIB
    shutil.copy(Path(ai_edge_litert.__file__).parent / _libs.GPU_LIB, library)
    driver = str(swiftshader / "vk_swiftshader_icd.json")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "LD_LIBRARY_PATH": str(swiftshader),
        "VK_ICD_FILENAMES": driver,
        "VK_DRIVER_FILES": driver,
    }
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            LIBRARY,
            str(bundle / "decoder.tflite"),
            json.dumps(settings(bundle)),
            str(library),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["gpu", [str(library)]]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("libMali.so", "libMali.so: LiteRT knows accelerators by the names libLiteRtGpuAccelerator.so"),
        ("none/libLiteRtOpenClAccelerator.so", "libLiteRtOpenClAccelerator.so"),
        ("libLiteRtOpenClAccelerator.so", "libLiteRtOpenClAccelerator.so"),
    ],
)
def test_a_library_that_cannot_be_used_is_a_reason_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, reason: str
) -> None:
    (tmp_path / "libMali.so").write_bytes(b"not a library")
    (tmp_path / "libLiteRtOpenClAccelerator.so").write_bytes(b"not a library")
    bundle = model_files.bundle()
    with caplog.at_level(logging.INFO, logger="edgettsd"):
        decoder = open_decoder(
            "gpu", bundle / "decoder.tflite", library=str(tmp_path / name), **settings(bundle)
        )
    assert decoder.info["accelerator"] == "cpu"
    assert reason in caplog.text


def test_missing_accelerator_is_a_reason_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cython_kernels._libs.GPU_LIB", "libNoSuchAccelerator.so")
    bundle = model_files.bundle()
    with caplog.at_level(logging.INFO, logger="edgettsd"):
        decoder = open_decoder("gpu", bundle / "decoder.tflite", **settings(bundle))
    assert decoder.info["accelerator"] == "cpu"
    assert "libNoSuchAccelerator.so" in caplog.text


def test_a_damaged_file_is_not_blamed_on_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "decoder.tflite").write_bytes(b"\0" * 100)
    with pytest.raises(ValueError, match=r"decoder\.tflite"):
        open_decoder("auto", tmp_path / "decoder.tflite", **settings(model_files.bundle()))


def test_unknown_accelerator_is_refused() -> None:
    bundle = model_files.bundle()
    with pytest.raises(ValueError, match="accelerator is 'npu', allowed are cpu and gpu"):
        LiteRtDecoder(bundle / "decoder.tflite", accelerator="npu", **settings(bundle))


def test_configuration_reaches_talker_and_decoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        "edgettsd.engine.bundle_parts.LlamaTalker",
        lambda *_, **named: seen.update(talker=named) or SimpleNamespace(file_bytes=0),
    )
    monkeypatch.setattr(
        "edgettsd.engine.bundle_parts.open_decoder",
        lambda wish, *_, library, **named: (
            seen.update(wish=wish, library=library) or LiteRtDecoder(*_, **named)
        ),
    )
    monkeypatch.setenv("CACHE_DIRECTORY", str(tmp_path))
    tables = {
        "model": {"path": str(model_files.bundle())},
        "engine": {"n_gpu_layers": 7, "decoder_accelerator": "auto", "decoder_library": "/x/lib.so"},
    }
    parts = BundleParts.load(config.Config().updated(tables, "test"))
    parts.talker()
    parts.decoder()
    parts.close()
    assert seen["talker"]["n_gpu_layers"] == 7
    assert (seen["wish"], seen["library"]) == ("auto", "/x/lib.so")
