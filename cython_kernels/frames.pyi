from typing import Any

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import Pipe

def doze(pipe: Pipe, generation: int) -> bool:
    """The generator thread waits without the GIL for a wake-up (Pipe.wake_all), some 200 ms at most.

    False, at once, when the utterance of `generation` is not wanted any more. It is progress for the
    watchdog.
    """

class FrameGate:
    """Through which frames that were made elsewhere enter the pipe; used by the generator thread alone.

    The bounds of a segment and the checks for a runaway are those of the local generator. A call that waits
    does so without the GIL, returns at once when the utterance is aborted, and is progress for the watchdog.
    """

    def __init__(self, pipe: Pipe, *, entries: int) -> None:
        """`entries`: codes of a codebook, 1 to 32768; frames with others are refused."""
    @property
    def open(self) -> bool:
        """Whether the segment goes on; False before the first one."""
    def begin(
        self,
        generation: int,
        *,
        max_frames: int,
        drop_frames: int = 0,
        repeat_frames: int = 0,
        repeat_period: int = 0,
    ) -> bool:
        """Begin a segment of at most `max_frames` frames; False when its utterance is over already.

        The first `drop_frames` are decoded and not heard. It has run away when more than `repeat_frames`
        codes of codebook 0 in a row are those of up to `repeat_period` (at most 64) frames before; 0: never.
        """
    def wait(self, fd: int, seconds: float) -> bool:
        """Wait until `fd` can be read or has ended: True. False when the time has passed or it is over."""
    def push(self, codes: npt.NDArray[np.int16]) -> bool:
        """Append frames, [n, groups] int16 C-contiguous, when there is room; False when it is over.

        What they cost, for the start policy, is the time since the last call returned. Raises ValueError for
        another shape, and for a code that is in no codebook, whereupon none of them is played.
        """
    def finish(self, reason: str = "completed") -> dict[str, Any]:
        """End the segment and tell of it as `Generator.run` does, `network_ns` being the time in `wait`.

        `reason`, of REASON_NAMES, counts where nothing has ended it before.
        """
