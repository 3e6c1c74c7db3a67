from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import DecoderHandle, PredictorHandle, TalkerHandle

class FakeTalker(TalkerHandle):
    """Talker without a model: code 0 of frame k is (31 k + 7) mod codes, every hidden value is k.

    k counts the feeds since reset, the prompt being 0. From k = eos_after on the code is eos_id (-1: never),
    so an utterance has eos_after frames. codes defaults to eos_id. A feed sleeps step_us microseconds; feed
    fail_at fails (-1: none). `script` replaces the first codes; after its end its last `period` codes are
    repeated for ever (0: the formula goes on). Methods and errors are those of LlamaTalker, but a failing
    feed raises RuntimeError in every case.
    """

    def __init__(
        self,
        hidden: int,
        vocab: int,
        *,
        eos_after: int,
        eos_id: int,
        codes: int | None = None,
        step_us: int = 0,
        fail_at: int = -1,
        max_context: int = 4096,
        script: Sequence[int] = (),
        period: int = 0,
    ) -> None: ...
    @property
    def hidden_size(self) -> int: ...
    @property
    def vocab(self) -> int: ...
    @property
    def max_context(self) -> int: ...
    @property
    def step_us(self) -> int:
        """May be set while the talker works: the machine becomes slower."""
    @step_us.setter
    def step_us(self, value: int) -> None: ...
    @property
    def counts(self) -> dict[str, int]:
        """Over the whole life: resets, calls (of feed) and positions; may be read from any thread."""
    def feed(self, rows: npt.NDArray[np.float32]) -> None: ...
    def reset(self) -> None: ...
    def hidden(self) -> npt.NDArray[np.float32]: ...
    def logits(self) -> npt.NDArray[np.float32]: ...

class FakePredictor(PredictorHandle):
    """Code predictor without a model: code g of frame k is (13 k + 7 g + 5) mod vocab, k the hidden state's
    value.

    A sub-step sleeps substep_us microseconds; begin of frame fail_at fails (-1: none). With `decides` the
    first local step is a decision (0 go on, 1 stop from frame stop_after on, -1: never), asked for with the
    hidden state alone, and codebook 0 is a local step too.
    """

    def __init__(
        self,
        groups: int,
        vocab: int,
        *,
        input_hidden: int,
        substep_us: int = 0,
        fail_at: int = -1,
        decides: bool = False,
        stop_after: int = -1,
    ) -> None: ...
    @property
    def groups(self) -> int: ...
    @property
    def vocab(self) -> int: ...
    @property
    def input_hidden(self) -> int: ...
    @property
    def counts(self) -> dict[str, int]:
        """Over the whole life: resets (0), calls (sub-steps) and frames; may be read from any thread."""
    def begin(
        self, hidden: npt.NDArray[np.float32], row0: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]: ...
    def next(self, group: int, row: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]: ...

class FakeDecoder(DecoderHandle):
    """Decoder without a model: PCM is a ramp that depends on every code and on the frame's index since reset.

    sizes are the chunk sizes it takes. A frame sleeps frame_us microseconds; the call that holds frame
    fail_at fails (-1: none). All samples are exact in 16 bits. The samples of frame n since reset are divided
    by 2**levels[n], after the end of `levels` by its last value. by_chunk: they also depend on how many
    frames are decoded at once.
    """

    def __init__(
        self,
        groups: int,
        samples_per_frame: int,
        sizes: Sequence[int] = (1, 4, 8),
        *,
        frame_us: int = 0,
        fail_at: int = -1,
        levels: Sequence[int] = (),
        by_chunk: bool = False,
    ) -> None: ...
    @property
    def groups(self) -> int: ...
    @property
    def samples_per_frame(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def counts(self) -> dict[str, int]:
        """Over the whole life: resets, calls (of decode) and frames; may be read from any thread."""
    def reset(self) -> None: ...
    def decode(self, codes: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """PCM, float32 [n * samples_per_frame], of codes [n, groups]."""

def frame_codes(frame: int, *, groups: int, vocab: int, codes: int) -> list[int]:
    """Codes [groups] that FakeTalker (codes) and FakePredictor (vocab) give for a frame before the end."""

def frame_pcm(codes: Sequence[int], index: int, samples_per_frame: int) -> npt.NDArray[np.float32]:
    """The PCM that FakeDecoder gives for codes [groups] as frame number index since reset."""
