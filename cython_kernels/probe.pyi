from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import Pipe

def schedule_next(
    kind: str,
    chunks: Sequence[int],
    index: int,
    *,
    frame: float,
    cost: Mapping[int, float],
    turns: bool = True,
    spread: float = 0.0,
    late: float = 0.0,
    ahead: float = 0.0,
    pending: int = 0,
    queued: int = 0,
) -> int:
    """Frames of chunk number `index`. All times and amounts are in frames.

    `frame` is what one takes the generator, cost[size] a chunk the decoder; with `turns` one computes at a
    time; `spread` is by what share a chunk's time differs, `late` by how much one may be too late. `ahead`:
    audio before the listener, `pending`: frames that wait to be decoded, `queued` come after them.
    """

def start_shortage(
    kind: str,
    chunks: Sequence[int],
    index: int,
    *,
    frame: float,
    cost: Mapping[int, float],
    remaining: int,
    turns: bool = True,
    spread: float = 0.0,
    late: float = 0.0,
    ahead: float = 0.0,
    pending: int = 0,
    queued: int = 0,
    drop: int = 0,
    open: bool = False,
) -> float:
    """By how much playing would run dry if it began now with `ahead`; 0 or less: it would not.

    `remaining` frames are still to come (`open`: and perhaps more), `queued` of them generated already. The
    first `drop` frames to be decoded are not heard.
    """

def quiet_runaway(frames: Iterable[npt.ArrayLike], limit: int, db: float) -> int | None:
    """Index of the frame (samples in -1..1) at which an utterance has run away into silence, or None."""

def repeat_runaway(codes: Iterable[int], limit: int, longest: int) -> int | None:
    """Index of the code at which an utterance has run away into repetition; None when it has not."""

class PipeEnds(Pipe):
    """A pipe whose ends are in Python's reach; see pipe/et_pipe.h for who calls what."""

    def pop_item(self, timeout_ms: int = 0) -> tuple[int, int, int, int, list[int]] | None: ...
    def push_pcm(self, generation: int, pcm: npt.NDArray[np.float32]) -> str: ...
    def push_silence(self, generation: int, n: int) -> str: ...
    def push_end(self, generation: int, reason: int = 1) -> str: ...
    def front(self) -> tuple[int, int, int, int] | None: ...
    def read(self, n: int) -> bytes: ...
    def consume_end(self) -> None: ...
