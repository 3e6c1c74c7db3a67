from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

class Sampler:
    """Draws one token after another from logits [vocab], as the official generate() does.

    `banned` ids are never drawn. The history is what accept() was given since restart().
    """

    def __init__(self, vocab: int, *, banned: Sequence[int] | None = None) -> None: ...
    def restart(self, seed: int, stream: int = 0) -> None:
        """Forget the history and start the random stream named by (seed, stream)."""
    def accept(self, token: int) -> None: ...
    def probabilities(
        self,
        logits: npt.NDArray[np.float32],
        *,
        do_sample: bool = True,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        eos: int = -1,
        ban_eos: bool = False,
    ) -> npt.NDArray[np.float32]:
        """Probabilities [vocab] after every rule; one-hot without do_sample."""
    def draw(
        self,
        logits: npt.NDArray[np.float32],
        *,
        do_sample: bool = True,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        eos: int = -1,
        ban_eos: bool = False,
    ) -> int: ...
