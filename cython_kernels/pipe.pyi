from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

COUNTERS: tuple[str, ...]
ITEM_FRAME: int
ITEM_SEG_BEGIN: int
ITEM_SEG_END: int
ITEM_WAIT: int
ITEM_PAUSE: int
ITEM_END: int
ITEM_RENDER: int
BLOCK_PCM: int
BLOCK_END: int
BLOCK_MARK: int
# Where a render goes on: sentences before, and what the decoder knows of them; made by Pipe.events.
Mark = tuple[int, float, int, int]
BEGINNING: Mark
STEP_PREFILL: int
STEP_FRAME: int
STEP_DECODE: int
STEP_TALKER: int
STEP_SAMPLE: int
STEP_WAIT: int
STEP_SUBSTEPS: int
STEP_DECODER: int
STEP_PUSH: int
STEP_DTYPE: np.dtype[np.void]
EVENT_NAMES: tuple[str, ...]
REASON_NAMES: tuple[str, ...]
ERROR_NAMES: dict[int, str]

def use_huge_pages(least: int = 32 << 20) -> int:
    """Ask for huge pages behind private anonymous mappings of at least `least` bytes, such as weights are in.

    Reading weights is what a step spends its time on, and page walks are a part of that. Returns the bytes
    asked for, 0 where the kernel has no such pages. Contents and addresses stay.
    """

class TalkerHandle: ...
class PredictorHandle: ...
class DecoderHandle: ...
class SinkHandle: ...

class Pipe:
    """Rings, generation number and events between generator, decoder, playout and loop.

    Only next_generation, stop, set_*, events, counters and the properties are for the engine; push_* and
    pop_*, front and read stand in for a thread in tests. Push methods return "ok", "stale" or "stopped".
    """

    def __init__(
        self,
        groups: int,
        samples_per_frame: int,
        sample_rate: int = 24000,
        *,
        codes_capacity: int = 1024,
        pcm_seconds: float = 4.0,
        backpressure_seconds: float = 2.0,
    ) -> None: ...
    @property
    def generation(self) -> int: ...
    @property
    def loop_fd(self) -> int: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def samples_per_frame(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def buffered(self) -> int: ...
    @property
    def pending_frames(self) -> int: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def paused(self) -> bool: ...
    def next_generation(self) -> int: ...
    def stop(self) -> None: ...
    def wake_all(self) -> None: ...
    def set_paused(self, paused: bool) -> None: ...
    def set_plan(self, min_start: int, expected_frames: int) -> None:
        """Before next_generation: the least samples to buffer before playing, and the estimated frames (0:
        unknown)."""
    def set_expected(self, frames: int) -> None:
        """The live utterance has at least so many frames, now that more of its text is known."""
    def set_gain(self, gain: float) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def events(self) -> list[tuple[str, int, str, Any, int]]:
        """(name, generation, reason, value, CLOCK_MONOTONIC ns) of every waiting event; resets loop_fd.

        The value is an integer; of "sentence" it is (samples of the generation so far, mark).
        """
    def take_turns(self) -> None:
        """Generator and decoder share CPUs: never let both compute at once; before the threads start."""
    def trace(self) -> None:
        """Record every frame and chunk from now on; before the threads start. Raises MemoryError."""
    @property
    def tracing(self) -> bool: ...
    @property
    def steps_lost(self) -> int:
        """Records that were lost because nobody called steps() for minutes."""
    def steps(self) -> npt.NDArray[np.void]:
        """Records since the last call, of STEP_DTYPE: the generator's, then the decoder's, each in order.

        Fields: generation, kind (STEP_PREFILL, STEP_FRAME, STEP_DECODE), n (rows, sub-steps, frames), t_ns
        (CLOCK_MONOTONIC), wall_ns, delay_ns (how long threads of this process were ready but had no CPU; -1:
        unknown), part_ns [parts]: for a frame [STEP_TALKER], [STEP_SAMPLE], [STEP_WAIT] and [STEP_SUBSTEPS
        + k], for a chunk [STEP_DECODER] and [STEP_PUSH].
        """
    def push_item(
        self, generation: int, kind: int, *, codes: Sequence[int] | None = None, arg: int = 0, reason: int = 0
    ) -> str: ...
    def push_render(self, generation: int, mark: Mark = BEGINNING) -> str:
        """The generation is a render that begins, or goes on, at `mark`: before its other items."""
