"""Upper bounds of what a bundle or the configuration may ask for: those of the kernels.

Read from their header, cython_kernels/base/et_limits.h; no compiled module is loaded for that.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path


def _header() -> str:
    package = importlib.util.find_spec("cython_kernels")
    assert package is not None and package.submodule_search_locations, "cython_kernels is not installed"
    return (Path(package.submodule_search_locations[0]) / "base" / "et_limits.h").read_text(encoding="ascii")


ALL = {
    name: int(value) for name, value in re.findall(r"^#define ET_(MAX_\w+) (\d+)", _header(), re.MULTILINE)
}
"""Every bound by its name."""

MAX_GROUPS = ALL["MAX_GROUPS"]
MAX_SPF = ALL["MAX_SPF"]
MAX_VOCAB = ALL["MAX_VOCAB"]
MAX_CHUNK = ALL["MAX_CHUNK"]
MAX_SIZES = ALL["MAX_SIZES"]
MAX_STEPS = ALL["MAX_STEPS"]
MAX_STATES = ALL["MAX_STATES"]
MAX_HIDDEN = ALL["MAX_HIDDEN"]
MAX_FFN = ALL["MAX_FFN"]
MAX_HEADS = ALL["MAX_HEADS"]
MAX_HEAD_DIM = ALL["MAX_HEAD_DIM"]
MAX_TALKER_LAYERS = ALL["MAX_TALKER_LAYERS"]
MAX_PREDICTOR_LAYERS = ALL["MAX_PREDICTOR_LAYERS"]
MAX_CONTEXT = ALL["MAX_CONTEXT"]
MAX_GPU_LAYERS = ALL["MAX_GPU_LAYERS"]
MAX_THREADS = ALL["MAX_THREADS"]
MAX_PERIOD = ALL["MAX_PERIOD"]
MAX_PERIOD_MS = ALL["MAX_PERIOD_MS"]
MAX_BUFFER_MS = ALL["MAX_BUFFER_MS"]
MAX_FADE_MS = ALL["MAX_FADE_MS"]
MAX_ROLL_MS = ALL["MAX_ROLL_MS"]
