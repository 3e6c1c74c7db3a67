"""The machine under the bench: what it is, how fast it reads and multiplies, how warm it is."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

# Larger than any last-level cache, in MB for each thread.
READ_MB = 128
_SGEMM = """
import time, numpy as np
a = np.random.rand(1024, 1024).astype(np.float32); b = a.T.copy(); a @ b
best = 0.0
for _ in range(8):
    t = time.perf_counter(); a @ b; best = max(best, 2 * 1024**3 / (time.perf_counter() - t) / 1e9)
print(best)
"""


def facts(threads: int) -> dict[str, Any]:
    """Name, CPUs, memory, system and the measured rates with `threads` threads."""
    names = [
        line.partition(":")[2].strip()
        for line in _text("/proc/cpuinfo").splitlines()
        if line.startswith(("model name", "Model", "Hardware"))
    ]
    memory = next(
        (line.split()[1] for line in _text("/proc/meminfo").splitlines() if "MemTotal" in line), "0"
    )
    return {
        "cpu": names[0] if names else platform.machine(),
        "arch": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mb": int(memory) // 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "read_gb_s": {str(n): round(read_rate(n), 1) for n in sorted({1, threads})},
        "sgemm_gflop_s": {str(n): round(sgemm_rate(n), 1) for n in sorted({1, threads})},
    }


def read_rate(threads: int, seconds: float = 0.5) -> float:
    """GB/s that `threads` threads read from memory; the best pass counts, as others only slow it down."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # The library's own threads would share each pass out once more.
        code = f"from edgettsd_tools.bench_machine import read_rate; print(read_rate({threads}, {seconds}))"
        return float(_python(code, 1))
    blocks = [np.ones(READ_MB << 18, np.float32) for _ in range(threads)]
    best, end = 0.0, time.perf_counter() + seconds * threads
    barrier = threading.Barrier(threads + 1)
    stop = False

    def work(block: np.ndarray[Any, np.dtype[np.float32]]) -> None:
        while True:
            barrier.wait()
            if stop:
                return
            np.dot(block, block)
            barrier.wait()

    workers = [threading.Thread(target=work, args=(block,), daemon=True) for block in blocks]
    for worker in workers:
        worker.start()
    while time.perf_counter() < end:
        began = time.perf_counter()
        barrier.wait()
        barrier.wait()
        best = max(best, threads * (READ_MB << 20) / (time.perf_counter() - began) / 1e9)
    stop = True
    barrier.wait()
    return best


def sgemm_rate(threads: int) -> float:
    """GFLOP/s of single-precision matrix products with `threads` threads (numpy's BLAS), the best of some."""
    return float(_python(_SGEMM, threads))


def sensors() -> dict[str, Any]:
    """Highest temperature (C) and lowest and highest clock (MHz) now; {} where the kernel tells neither."""
    zones = [_number(path) for path in Path("/sys/class/thermal").glob("thermal_zone*/temp")]
    clocks = [
        _number(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    ]
    result: dict[str, Any] = {}
    if any(zones):
        result["celsius"] = max(zones) / 1000
    if any(clocks):
        result["mhz"] = [min(clocks) // 1000, max(clocks) // 1000]
    return result


def _python(code: str, threads: int) -> str:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    return done.stdout.strip()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def dump(value: Any, path: Path) -> None:
    """Write JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
