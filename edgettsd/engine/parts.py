"""What the pipeline is made of: a source of frames and a decoder; of a talker, also the prompts that go in.

The interface exists so that the pipeline can be run with scripted kernels (`FakeParts`); `BundleParts` in
`edgettsd.engine.bundle_parts` is the real one, made from a model bundle.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cython_kernels.pipe import DecoderHandle, Pipe, PredictorHandle, TalkerHandle
from edgettsd.engine._api import SpeakOptions, Voice
from edgettsd.engine.sources import FrameSource, LocalFrames

if TYPE_CHECKING:
    from edgettsd.families.qwen3_tts.sampling import Sampling

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

    `prompt` [n, H], `trailing` [m, H] and `pad_row` [H] float32; `banned` uint8 [talker vocab] marks ids of
    codebook 0 that are never drawn; the first `prefix` rows of the prompt come again in the next one of the
    same voice; `drop_frames` leading frames are decoded and dropped. With
    `end_frames` the sentence is complete after exactly so many frames, dropped ones included; 0: at EOS.
    """

    prompt: Rows
    trailing: Rows
    pad_row: Rows
    sampling: Sampling
    banned: npt.NDArray[np.uint8] | None = None
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

    def talker(self) -> TalkerHandle: ...
    def predictor(self) -> PredictorHandle: ...

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
    # Codes of codebook 0, the last `period` of them for ever; loudness of frames (see cython_kernels.fake).
    script: Sequence[int] = ()
    period: int = 0
    levels: Sequence[int] = ()
    groups: int = 16
    hidden: int = 8
    drop_frames: int = 0
    end_frames: int = 0
    # What is told of a sentence's length beforehand.
    known_frames: int = 0
    segment_error: Exception | None = None
    # How long it takes to make the talker, and whether that fails.
    load_us: int = 0
    load_fails: bool = False
    # The first sentence ends the generator thread.
    dies: bool = False
    info: ModelInfo = field(init=False)

    def __post_init__(self) -> None:
        voices = (Voice("fake", ("english",), "a scripted voice"),)
        self.info = ModelInfo("fake", 24_000, 1920, self.groups, voices, ("auto", "english"))

    def check(self, options: SpeakOptions) -> None:
        """Everything is accepted."""

    def source(self, pipe: Pipe) -> FrameSource:
        """The scripted talker and predictor."""
        return LocalFrames(pipe, self)

    def talker(self) -> TalkerHandle:
        """A talker that says EOS after `eos_after` frames."""
        from cython_kernels.fake import FakeTalker

        time.sleep(self.load_us / 1e6)
        if self.load_fails:
            raise RuntimeError("scripted failure to load")
        return FakeTalker(
            self.hidden,
            3072,
            eos_after=self.eos_after,
            eos_id=2150,
            step_us=self.step_us,
            fail_at=self.talker_fail_at,
            script=self.script,
            period=self.period,
        )

    def predictor(self) -> PredictorHandle:
        """A predictor with deterministic codes."""
        from cython_kernels.fake import FakePredictor

        return FakePredictor(self.groups, 2048, input_hidden=self.hidden, substep_us=self.substep_us)

    def decoder(self) -> DecoderHandle:
        """A decoder whose samples are a function of the codes."""
        from cython_kernels.fake import FakeDecoder

        return FakeDecoder(
            self.groups,
            1920,
            (1, 4, 8),
            frame_us=self.decode_us,
            fail_at=self.decoder_fail_at,
            levels=self.levels,
        )

    def tables(self) -> Sequence[npt.NDArray[Any]]:
        """Zero rows."""
        return [np.zeros((3072 if g == 0 else 2048, self.hidden), np.float32) for g in range(self.groups)]

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        """Greedy, without any text rows."""
        if self.segment_error is not None:
            raise self.segment_error
        if self.dies:
            raise SystemExit("scripted end of a thread")
        from edgettsd.families.qwen3_tts.sampling import LoopSampling, Sampling

        greedy = LoopSampling(do_sample=False)
        zeros = np.zeros((1, self.hidden), np.float32)
        return Segment(
            zeros,
            zeros[:0],
            zeros[0],
            Sampling(talker=greedy, predictor=greedy, eos=2150),
            drop_frames=self.drop_frames,
            end_frames=self.end_frames,
        )

    def frames(self, text: str, options: SpeakOptions) -> int:
        """As scripted."""
        return self.known_frames

    def close(self) -> None:
        """Nothing to release."""
