"""Threads of small models: their matrices fit the CPU's cache, and threads would wait longer than compute."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from edgettsd.config import Config

# Below this a stage gets one thread.
LIGHT_BYTES = 64 << 20


def weight_bytes(model: str) -> int:
    """Bytes of the language models in a bundle folder; 0 when there are none."""
    return sum(
        path.stat().st_size
        for name in ("talker", "predictor")
        if (path := Path(model, f"{name}.gguf")).is_file()
    )


def single_threads(config: Config, given: Config) -> Config:
    """`config` with one thread a stage, except where `given`, the user's configuration, names a number."""
    engine = given.engine
    changed = dataclasses.replace(
        config.engine,
        threads_generator=engine.threads_generator or 1,
        threads_decoder=engine.threads_decoder or 1,
    )
    return dataclasses.replace(config, engine=changed)
