"""Frames made here: prompt rows through the talker, its states through the code predictor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cython_kernels.frame_loop import Generator
from cython_kernels.pipe import Pipe
from edgettsd.engine.sources._api import Order

if TYPE_CHECKING:
    from edgettsd.engine.parts import TalkerParts


class LocalFrames:
    """Talker and code predictor of a model, made in the generator thread: their workers inherit its CPUs."""

    def __init__(self, pipe: Pipe, parts: TalkerParts) -> None:
        self._parts = parts
        self._generator = Generator(
            pipe, parts.talker(), parts.predictor(), parts.tables(), parts.plan, parts.constant()
        )

    def segment(self, order: Order) -> dict[str, Any]:
        """One segment into the pipe."""
        segment = self._parts.segment(order.sentence.text, order.options)
        return self._generator.run(
            order.generation,
            segment.prompt,
            segment.trailing,
            segment.pad_row,
            samplers=segment.samplers,
            banned=segment.banned,
            min_frames=segment.min_frames,
            # The estimated bound gives way to a length that the front end knows.
            max_frames=min(
                order.left, max(order.sentence.max_frames, segment.end_frames), segment.max_frames
            ),
            drop_frames=segment.drop_frames,
            end_frames=segment.end_frames,
            prefix=segment.prefix,
            repeat_frames=order.repeat_frames,
            repeat_period=order.repeat_period,
            seed=order.seed,
            stream=order.index,
        )

    def close(self) -> None:
        """Nothing: the kernels go with the last reference to them."""
