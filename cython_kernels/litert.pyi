from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cython_kernels.pipe import DecoderHandle

class LiteRtDecoder(DecoderHandle):
    """The codec decoder of one stream: a TFLite file run by LiteRT.

    The file has a signature ``decode_N`` for every N of `chunks` with the inputs ``codes`` int32
    [1, N, groups] and ``state_00``.. float32, and the outputs ``pcm`` float32 [1, N * samples_per_frame] and
    the same states. Codes are 0 to `entries` - 1.

    The compute threads (`threads` with the caller) are created here and inherit the CPU affinity of the
    creating thread. `cache_path` names a file, without suffix, in which the packed weights are kept for the
    next start and mapped from; its folder must exist and be writable, otherwise they are packed into memory.
    `digest` is the file's SHA-256 in hex where it is known; it saves reading the file to find its cache.

    With `accelerator` "gpu" every operator runs on LiteRT's GPU accelerator (WebGPU over Vulkan, at the
    driver's
    precision) and the states stay in its memory; ValueError when there is no such GPU or an operator is not
    supported, OSError when the accelerator is not installed. `threads` and `cache_path` are then not used.
    `library` is the path of another accelerator for LiteRT, such as a board's OpenCL one.

    Raises FileNotFoundError, ValueError (an argument out of range; a file that is damaged or has other
    signatures, names, types or shapes, named in the message) and MemoryError.
    """

    groups: int
    samples_per_frame: int
    entries: int
    threads: int
    sizes: tuple[int, ...]
    accelerator: str

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        groups: int,
        samples_per_frame: int,
        chunks: Sequence[int] = (1, 4, 8),
        threads: int = 2,
        entries: int = 2048,
        cache_path: str | PathLike[str] | None = None,
        digest: str | None = None,
        accelerator: str = "cpu",
        library: str = "",
    ) -> None: ...
    @property
    def info(self) -> Mapping[str, Any]:
        """Facts of the loaded model.

        version (of LiteRT), accelerator, fully_delegated (every operator runs in XNNPACK or on the GPU),
        threads, states,
        state_bytes (of one copy), weight_cache (the file, "" when the weights were packed into memory) and
        weight_cache_problem (why not into a file, "" when no file was asked for).
        """
    def reset(self) -> None:
        """Start a new stream: all states zero."""
    def decode(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """Decode the next n frames, codes int32 [n, groups], to float32 [n * samples_per_frame] in -1..1.

        n is one of `sizes`. Raises ValueError (shape, n, a code out of range; the state is unchanged) and
        RuntimeError (LiteRT failed).
        """
