from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import DecoderHandle, Pipe, PredictorHandle, TalkerHandle
from cython_kernels.text_rows import TextRows

class SamplingParameters(Protocol):
    @property
    def do_sample(self) -> bool: ...
    @property
    def temperature(self) -> float: ...
    @property
    def top_k(self) -> int: ...
    @property
    def top_p(self) -> float: ...
    @property
    def repetition_penalty(self) -> float: ...

class PlanStep(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def codebook(self) -> int: ...
    @property
    def sampler(self) -> int: ...
    @property
    def row(self) -> int: ...
    @property
    def vocab(self) -> int: ...
    @property
    def end(self) -> int: ...

class Plan(Protocol):
    """See `edgettsd.families.plan.FramePlan`."""

    @property
    def steps(self) -> Sequence[PlanStep]: ...

class Generator:
    """The frame loop over a talker and a code predictor. `tables[g]` [rows, hidden] are codebook g's rows.

    `plan` says which steps make a frame; `constant` float32 [hidden] is its constant row. ValueError where
    plan, kernels, tables and pipe do not fit together.
    """

    def __init__(
        self,
        pipe: Pipe,
        talker: TalkerHandle,
        predictor: PredictorHandle | None,
        tables: Sequence[npt.NDArray[Any]],
        plan: Plan,
        constant: npt.NDArray[np.float32] | None = None,
    ) -> None: ...
    def run(
        self,
        generation: int,
        prompt: npt.NDArray[np.float32],
        trailing: npt.NDArray[np.float32] | TextRows,
        pad_row: npt.NDArray[np.float32],
        *,
        samplers: Sequence[SamplingParameters],
        banned: Sequence[npt.NDArray[np.uint8] | None] = (),
        min_frames: int = 0,
        max_frames: int = 4096,
        drop_frames: int = 0,
        seed: int = 0,
        stream: int = 0,
        collect: int = 0,
        repeat_frames: int = 0,
        repeat_period: int = 0,
        end_frames: int = 0,
        prefix: int = 0,
    ) -> dict[str, Any]:
        """One segment into the pipe, without the GIL, until the plan's end, `max_frames`, abort or error.

        `samplers` are the plan's; `banned` masks uint8 [vocab] ids of its first steps that are never drawn.
        The first `prefix` rows of the prompt are fed apart, and not again while the talker holds them.
        prompt [n, hidden] and trailing [m, hidden] float32, pad_row [hidden]; of a text that still grows
        `trailing` is TextRows, which are waited for. Returns frames, reason
        ("completed", "limit", "runaway", "aborted", "error"), error, nanoseconds by stage, and with `collect`
        the codes [frames, groups] int16 of the first `collect` frames. It has run away (error "ok") when more
        than `repeat_frames` codes of codebook 0 in a row are those of up to `repeat_period` (at most 64)
        frames before, 0: never; or (error "runaway") when the decoder says so. With `end_frames` it is
        complete after exactly so many frames, and neither the plan's end nor repetition ends it.
        """

class DecodeLoop:
    """The decoder thread: run() returns after Pipe.stop(). `rate` is expected of the first utterance."""

    def __init__(
        self,
        pipe: Pipe,
        decoder: DecoderHandle,
        *,
        kind: str = "ramp",
        chunks: Sequence[int] = (1, 4, 8),
        quiet_frames: int = 0,
        quiet_db: float = 40.0,
        rate: float = 1.0,
        expect: Mapping[int, float] | None = None,
    ) -> None:
        """`expect`: seconds that a frame (size 0) and a chunk of a size take, as measured before.

        An utterance ends with reason runaway when, after speech, more than `quiet_frames` frames in a row
        are more than `quiet_db` below its loudest one; 0: never.
        """
    @property
    def rate(self) -> float:
        """Time of a frame over its duration in the long run, as last measured."""
    @property
    def costs(self) -> dict[int, float]:
        """As last measured: of a frame (0) and of a chunk of each size, in frames of time."""
    @property
    def spread(self) -> float:
        """By how much a chunk's time differs from what was expected, as a share of it."""
    @property
    def late(self) -> float:
        """By how much the latest chunk of recent ones came too late, in frames of time."""
    def counters(self) -> dict[str, int]: ...
    def run(self) -> None: ...
