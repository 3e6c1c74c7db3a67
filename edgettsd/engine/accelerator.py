"""The codec decoder on the accelerator that the configuration asks for, or else on the CPU."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from cython_kernels.litert import LiteRtDecoder

log = logging.getLogger(__name__)


def open_decoder(accelerator: str, path: Path, *, library: str = "", **settings: Any) -> LiteRtDecoder:
    """A decoder of the file `path`; `settings` are those of LiteRtDecoder.

    `accelerator` is cpu, gpu or auto; `library` is the path of another GPU accelerator than LiteRT's own. On
    the GPU every operator must run there and the stream's state stays in its memory; when that cannot be, the
    CPU decodes and the reason is logged: as a warning where the GPU was asked for by name. Raises what
    LiteRtDecoder raises for a file that the CPU cannot decode either.
    """
    if accelerator != "cpu":
        try:
            return LiteRtDecoder(path, accelerator="gpu", library=library, **settings)
        # OSError: the accelerator is not installed; ValueError: no driver, or an operator it lacks.
        except (OSError, ValueError) as error:
            level = logging.WARNING if accelerator == "gpu" else logging.INFO
            log.log(level, "the decoder runs on the CPU, not on a GPU: %s", error)
    return LiteRtDecoder(path, **settings)
