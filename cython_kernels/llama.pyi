import os

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import TalkerHandle

MAX_CONTEXT: int
MAX_THREADS: int

class LlamaTalker(TalkerHandle):
    """The talker language model, fed with embedding rows.

    path is a GGUF of architecture qwen3 whose vocabulary is the codec rows (tokenizer model "none"). One
    sequence; the KV cache holds max_context positions and is f32 for an f32 model, otherwise f16. threads are
    used for one row, threads_batch (default: threads) for several. Weights that are rearranged for this
    CPU are kept in weight_file (with an ending) and mapped from there; in memory without one, or
    where it cannot be written. Creation decodes once to warm up and may take seconds.

    With own_products, q4_0 and q8_0 models on CPUs with AVX-512 VNNI are computed without libllama: a product
    then goes at the speed of memory, where ggml's own reaches half of it. The results do not depend on the
    threads, nor on how many rows are fed at once.

    Raises FileNotFoundError, ValueError (the file is not such a model, or a parameter is out of range; the
    message names what is wrong) or MemoryError.
    """

    threads: int
    threads_batch: int
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_context: int = 4096,
        threads: int = 2,
        threads_batch: int | None = None,
        use_mmap: bool = True,
        n_gpu_layers: int = 0,
        weight_file: str | os.PathLike[str] | None = None,
        own_products: bool = True,
    ) -> None: ...
    @property
    def own_products(self) -> bool:
        """Whether libllama is not used."""
    @property
    def file_bytes(self) -> int:
        """Bytes of weights that were moved to weight_file, out of anonymous memory."""
    @property
    def hidden_size(self) -> int:
        """Values of a row and of the hidden state."""
    @property
    def vocab(self) -> int:
        """Number of logits."""
    @property
    def max_context(self) -> int:
        """Positions that fit."""
    @property
    def n_past(self) -> int:
        """Positions fed since the last reset."""
    def feed(self, rows: npt.NDArray[np.float32]) -> None:
        """Append rows, float32 [n, hidden_size]; runs without the GIL.

        Raises ValueError for a wrong shape or when the rows do not fit (nothing is appended then),
        RuntimeError when the step fails or gives values that are not finite; then hidden() and logits() raise
        it too, until rows were fed or all were forgotten.
        """
    def reset(self) -> None:
        """Forget every position."""
    def hidden(self) -> npt.NDArray[np.float32]:
        """Hidden state after the final norm of the last row fed, float32 [hidden_size], a copy."""
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last row fed, float32 [vocab], a copy."""
