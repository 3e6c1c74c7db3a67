"""A source of frames: give it a sentence, and it puts the sentence's frames into the pipe.

The interface exists so that frames may be made here (`LocalFrames`: talker and code predictor) or elsewhere
and be read from a descriptor. Nothing behind the pipe knows which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from edgettsd.engine._api import SpeakOptions
from edgettsd.engine.plan import Sentence


@dataclass(frozen=True, slots=True)
class Order:
    """One segment to make: sentence number `index` of the utterance whose generation is `generation`.

    At most `left` frames are left of the utterance. It has run away when more than `repeat_frames` codes of
    codebook 0 in a row repeat with a period of up to `repeat_period` frames; 0: never.
    """

    generation: int
    index: int
    sentence: Sentence
    options: SpeakOptions
    seed: int
    left: int
    repeat_frames: int = 0
    repeat_period: int = 0


class FrameSource(Protocol):
    """Makes the frames of one segment after the other; all methods are called in the generator thread.

    These are the source's own business, because only the source knows how to do them:

    - cancel: `segment` returns within one piece of work, or at once where it waits, when the pipe's
      generation is another one or the pipe stops;
    - the reason to end, and its error;
    - cost: how long each frame took, for the start policy (of frames that come from elsewhere the time
      between their arrivals);
    - backpressure: the pipe takes a frame when it has room, and until then the source makes or reads no more;
    - progress: it moves the pipe's generator beat also while it waits, and gives up by itself on what does
      not answer.

    `cython_kernels.frame_loop.Generator` and `cython_kernels.frames.FrameGate` do what of this is common.
    """

    def segment(self, order: Order) -> dict[str, Any]:
        """Put the segment into the pipe; returns its figures as `Generator.run` does.

        An exception ends the utterance with reason error and its text.
        """
        ...

    def close(self) -> None:
        """Release what the source holds; nothing else is called afterwards."""
        ...
