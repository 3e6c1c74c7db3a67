"""What the pipeline is made of: a source of frames and a decoder; of a talker, also the prompts that go in.

The interface exists so that the pipeline can be run with scripted kernels (`FakeParts`); `BundleParts` in
`edgettsd.engine.bundle_parts` is the real one, made from a model bundle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import DecoderHandle, Pipe, PredictorHandle, TalkerHandle
from edgettsd.engine._api import SpeakOptions, Voice
from edgettsd.engine.sources import FrameSource, LocalFrames
from edgettsd.families.plan import FramePlan, LoopSampling, talker_first

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model before it is loaded."""

    name: str
    sample_rate: int
    samples_per_frame: int
    groups: int
    voices: tuple[Voice, ...]
    languages: tuple[str, ...]
    schedule: str = "ramp"
    chunks: tuple[int, ...] = (1, 4, 8)

    @property
    def frame_seconds(self) -> float:
        """Duration of one frame."""
        return self.samples_per_frame / self.sample_rate


@dataclass(frozen=True, slots=True)
class Segment:
    """Everything the frame loop needs for one sentence; H is the talker's hidden size.

    `prompt` [n, H], `trailing` [m, H] and `pad_row` [H] float32. `samplers` are those of the frame plan;
    `banned` has for each of its first steps None or a mask uint8 [vocab] of ids that are never drawn. The
    first `prefix` rows of the prompt come again in the next one of the same voice; `drop_frames` leading
    frames are decoded and dropped. The plan's end is not drawn before `min_frames`; at `max_frames` the
    sentence ends by its limit. With `end_frames` it is complete after exactly so many frames, dropped ones
    included; 0: at the plan's end.
    """

    prompt: Rows
    trailing: Rows
    pad_row: Rows
    samplers: tuple[LoopSampling, ...]
    banned: tuple[npt.NDArray[np.uint8] | None, ...] = ()
    min_frames: int = 0
    max_frames: int = 4096
    drop_frames: int = 0
    end_frames: int = 0
    prefix: int = 0


class Parts(Protocol):
    """A model's parts, as the pipeline needs them; without a talker where frames are made elsewhere.

    `check` runs on the loop; source and frames in the generator thread, decoder in the decoder thread.
    """

    @property
    def info(self) -> ModelInfo: ...

    def check(self, options: SpeakOptions) -> None:
        """Raise UnknownVoiceError or InvalidOptionError for what this model cannot do."""
        ...

    def source(self, pipe: Pipe) -> FrameSource:
        """What makes the frames that go into `pipe`."""
        ...

    def decoder(self) -> DecoderHandle: ...

    def frames(self, text: str, options: SpeakOptions) -> int:
        """How many frames of a sentence are heard, where that is known before it is spoken; else 0."""
        ...

    def close(self) -> None:
        """Release files; no other method is called afterwards."""
        ...


class TalkerParts(Protocol):
    """What frames are made of here; everything is called in the generator thread."""

    @property
    def plan(self) -> FramePlan:
        """Which steps make a frame."""
        ...

    def talker(self) -> TalkerHandle: ...

    def predictor(self) -> PredictorHandle | None:
        """What makes the plan's local steps; None where it has none."""
        ...

    def constant(self) -> Rows | None:
        """The constant row [H] of the local steps; None where the plan has none."""
        ...

    def tables(self) -> Sequence[npt.NDArray[Any]]:
        """Embedding rows of every codebook, [rows, H] each, float32 or float16."""
        ...

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        """The segment of one sentence."""
        ...


@dataclass(slots=True)
class FakeParts:
    """Scripted kernels: an utterance has as many frames as `eos_after` says, with given costs and faults."""

    eos_after: int = 25
    step_us: int = 0
    substep_us: int = 0
    decode_us: int = 0
    talker_fail_at: int = -1
    decoder_fail_at: int = -1
    # `script` are codes of codebook 0, whose last `period` repeat for ever; `levels` how loud frames are (see
    # cython_kernels.fake).
    script: Sequence[int] = ()
    period: int = 0
    levels: Sequence[int] = ()
    # Samples depend on how many frames are decoded at once.
    by_chunk: bool = False
    groups: int = 8
    hidden: int = 8
    sample_rate: int = 24_000
    frame_ms: int = 80
    # `vocab` ids of codebook 0, the last of which ends an utterance; `codes` ids of each other codebook.
    vocab: int = 2050
    codes: int = 1024
    drop_frames: int = 0
    end_frames: int = 0
    # Length of a sentence in frames that is known beforehand; 0: none.
    known_frames: int = 0
    segment_error: Exception | None = None
    # How long making the talker takes, and whether it fails.
    load_us: int = 0
    load_fails: bool = False
    # The first sentence ends the generator thread.
    dies: bool = False
    info: ModelInfo = field(init=False)

    def __post_init__(self) -> None:
        voices = (Voice("fake", ("english",), "a scripted voice"),)
        self.info = ModelInfo(
            "fake", self.sample_rate, self.samples_per_frame, self.groups, voices, ("auto", "english")
        )

    def check(self, options: SpeakOptions) -> None:
        """Everything is accepted."""

    def source(self, pipe: Pipe) -> FrameSource:
        """The scripted talker and predictor."""
        return LocalFrames(pipe, self)

    @property
    def samples_per_frame(self) -> int:
        """Samples of a frame."""
        return self.sample_rate * self.frame_ms // 1000

    @property
    def plan(self) -> FramePlan:
        """The talker's code with the end, then the others."""
        return talker_first(self.groups, self.vocab - 1)

    def constant(self) -> Rows | None:
        """None."""
        return None

    def talker(self) -> TalkerHandle:
        """A talker that says EOS after `eos_after` frames."""
        from cython_kernels.fake import FakeTalker

        time.sleep(self.load_us / 1e6)
        if self.load_fails:
            raise RuntimeError("scripted failure to load")
        return FakeTalker(
            self.hidden,
            self.vocab,
            eos_after=self.eos_after,
            eos_id=self.vocab - 1,
            step_us=self.step_us,
            fail_at=self.talker_fail_at,
            script=self.script,
            period=self.period,
        )

    def predictor(self) -> PredictorHandle:
        """A predictor with deterministic codes."""
        from cython_kernels.fake import FakePredictor

        return FakePredictor(self.groups, self.codes, input_hidden=self.hidden, substep_us=self.substep_us)

    def decoder(self) -> DecoderHandle:
        """A decoder whose samples are a function of the codes."""
        from cython_kernels.fake import FakeDecoder

        return FakeDecoder(
            self.groups,
            self.samples_per_frame,
            (1, 4, 8),
            frame_us=self.decode_us,
            fail_at=self.decoder_fail_at,
            levels=self.levels,
            by_chunk=self.by_chunk,
        )

    def tables(self) -> Sequence[npt.NDArray[Any]]:
        """Zero rows."""
        return [
            np.zeros((self.codes if g else self.vocab, self.hidden), np.float32) for g in range(self.groups)
        ]

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        """Greedy, without any text rows."""
        if self.segment_error is not None:
            raise self.segment_error
        if self.dies:
            raise SystemExit("scripted end of a thread")
        greedy = LoopSampling(do_sample=False)
        zeros = np.zeros((1, self.hidden), np.float32)
        return Segment(
            zeros,
            zeros[:0],
            zeros[0],
            (greedy, greedy),
            min_frames=2,
            drop_frames=self.drop_frames,
            end_frames=self.end_frames,
        )

    def frames(self, text: str, options: SpeakOptions) -> int:
        """As scripted."""
        return self.known_frames

    def close(self) -> None:
        """Nothing to release."""
