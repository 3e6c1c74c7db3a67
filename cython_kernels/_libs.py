"""Load the native libraries that the kernels are linked against.

The kernels name libllama.so.0, libggml*.so.0 and libLiteRt.so as ordinary dependencies. On a distribution
the dynamic linker finds them; beside the Python wheels they lie in the packages' own folders, so they are
loaded here once by absolute path, and the linker then takes the copies that are already mapped.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
from pathlib import Path

# Order matters: each library needs those before it.
LLAMA_LIBS = ("libggml-base.so.0", "libggml-cpu.so.0", "libggml.so.0", "libllama.so.0")
LITERT_LIBS = ("libLiteRt.so",)
GPU_LIB = "libLiteRtWebGpuAccelerator.so"
# What libLiteRt looks for, each by its name only.
GPU_LIBS = (
    "libLiteRtGpuAccelerator.so",
    "libLiteRtOpenClAccelerator.so",
    "libLiteRtVulkanAccelerator.so",
    GPU_LIB,
)


def _package_dir(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _built_for_system() -> bool:
    """Whether the kernels were built with -Dlibs=system. Without a record of the build: no."""
    try:
        info: dict[str, str] = importlib.import_module("cython_kernels._build_info").BUILD_INFO
    except ModuleNotFoundError:
        return False
    return info["libs"] == "system"


def library_versions() -> dict[str, str]:
    """Versions of the packages that compute, by name; of the distribution's libraries files and ages."""
    versions: dict[str, str] = {}
    for name in ("llama-cpp-python", "ai-edge-litert"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    if not _built_for_system():
        return versions
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[-1].rstrip() for line in maps}
    for path in map(Path, sorted(paths)):
        if path.name.startswith(("libggml", "libllama", "libLiteRt")) and path.is_file():
            versions[path.name] = f"{path} {path.stat().st_mtime_ns}"
    return versions


def preload() -> dict[str, str]:
    """Map the native libraries; returns the path of each one that came from a wheel.

    Nothing for kernels that use the distribution's: wheels that happen to be installed are then left alone.
    Raises OSError when a wheel is there but its library does not load.
    """
    loaded: dict[str, str] = {}
    if _built_for_system():
        return loaded
    for package, folder, names in (
        ("llama_cpp", "lib", LLAMA_LIBS),
        ("ai_edge_litert", ".", LITERT_LIBS),
    ):
        base = _package_dir(package)
        if base is None:
            continue
        for name in names:
            path = base / folder / name
            if path.exists():
                ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
                loaded[name] = str(path)
    return loaded


def preload_gpu(library: str = "") -> None:
    """Map LiteRT's GPU accelerator, which LiteRT itself looks for by name only; `library` names another file.

    Raises OSError when it is not installed or does not load, ValueError for a file name that LiteRT does not
    look for. LiteRT's own needs a Vulkan driver to be of use.
    """
    if library:
        if Path(library).name not in GPU_LIBS:
            raise ValueError(f"{library}: LiteRT knows accelerators by the names {', '.join(GPU_LIBS)}")
        ctypes.CDLL(library, mode=ctypes.RTLD_LOCAL)
        return
    base = None if _built_for_system() else _package_dir("ai_edge_litert")
    ctypes.CDLL(GPU_LIB if base is None else str(base / GPU_LIB), mode=ctypes.RTLD_LOCAL)
