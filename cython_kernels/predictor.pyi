import os

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import PredictorHandle

MAX_THREADS: int

class GgmlPredictor(PredictorHandle):
    """The code predictor: one frame's codebooks after the first, a sub-step each.

    path is a GGUF of architecture qwen3tts-predictor. Weights are read into memory in the layout that this
    CPU multiplies fastest; an F16 ffn_down is widened to F32, because activations there exceed the F16 range.
    They are kept in weight_file (with a number appended) and mapped from there; in memory without one, or
    where it cannot be written. own_products: on CPUs with AVX-512 VNNI q4_0 and q8_0 are multiplied by code
    of this module, which is faster there than ggml's.

    Raises FileNotFoundError, ValueError (the file is not such a model, or threads is out of range; the
    message names the key or tensor) or MemoryError.
    """

    threads: int
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int = 2,
        weight_file: str | os.PathLike[str] | None = None,
        own_products: bool = True,
    ) -> None: ...
    @property
    def groups(self) -> int:
        """Codebooks of a frame, the talker's included."""
    @property
    def vocab(self) -> int:
        """Logits of one codebook."""
    @property
    def input_hidden(self) -> int:
        """Values of an input row (the talker's hidden size)."""
    @property
    def hidden_size(self) -> int:
        """Values of a hidden state inside the predictor."""
    @property
    def layers(self) -> int: ...
    @property
    def weight_bytes(self) -> int:
        """Memory of the weights."""
    @property
    def file_bytes(self) -> int:
        """Bytes of the weights that were moved to weight_file, out of anonymous memory."""
    @property
    def repacked_bytes(self) -> int:
        """Part of weight_bytes that is in a CPU-specific layout."""
    def begin(
        self, hidden: npt.NDArray[np.float32], row0: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Start a frame: the talker's hidden state and the row of code 0, float32 [input_hidden] each.

        Returns the logits of codebook 1, float32 [vocab], a copy. Runs without the GIL. Raises ValueError for
        a wrong shape, RuntimeError when the result is not finite.
        """
    def next(self, group: int, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Feed the row of codebook `group` (1 to groups - 2, in order); the logits of codebook group + 1.

        Errors as for begin; ValueError also for a group out of order.
        """
