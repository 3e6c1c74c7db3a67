"""A second model family, for tests: chirps by letters, 50 frames a second of three codes and a decision each.

Everything that a family has is another thing here than elsewhere: rate, samples of a frame, codebooks, frame
plan, manifest fields, files, front end, and kernels (scripted ones).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cython_kernels.fake import FakeDecoder, FakePredictor, FakeTalker, frame_pcm
from cython_kernels.pipe import DecoderHandle, Pipe, PredictorHandle, TalkerHandle
from edgettsd.config import Config
from edgettsd.engine._api import SpeakOptions, Voice
from edgettsd.engine.parts import ModelInfo, Segment
from edgettsd.engine.sources import FrameSource, LocalFrames
from edgettsd.errors import InvalidOptionError, ModelInvalidError
from edgettsd.families.plan import FramePlan, LoopSampling, decision_first
from edgettsd.models._fields import Fields
from edgettsd.models.manifest import Manifest, common
from edgettsd.models.store import Bundle

NAME = "toy-chirps"
RATE, SPF, GROUPS, CODES, HIDDEN = 16_000, 320, 3, 64, 5
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyManifest(Manifest):
    """`letters`: how many the front end knows; `frames_per_letter`: how long one sounds."""

    letters: int
    frames_per_letter: int


class ToyParts:
    """Scripted kernels; the decision says stop as soon as it may, which the front end's letters decide."""

    def __init__(self, bundle: Bundle) -> None:
        manifest = bundle.manifest
        assert isinstance(manifest, ToyManifest)
        self._letters = bundle.files["letters.txt"].read_text()
        self._per_letter = manifest.frames_per_letter
        voices = (Voice("cricket", ("english",), "a chirp"),)
        self.info = ModelInfo(
            manifest.name,
            manifest.sample_rate,
            manifest.samples_per_frame,
            manifest.code_groups,
            voices,
            ("auto", "english"),
            manifest.schedule_kind,
            manifest.schedule_chunks,
        )

    @property
    def plan(self) -> FramePlan:
        return decision_first(GROUPS, CODES)

    def check(self, options: SpeakOptions) -> None:
        if options.instruct:
            raise InvalidOptionError("instruct: a cricket takes no instructions")

    def source(self, pipe: Pipe) -> FrameSource:
        return LocalFrames(pipe, self)

    def talker(self) -> TalkerHandle:
        # Its logits are of no use to the plan.
        return FakeTalker(HIDDEN, 2, eos_after=-1, eos_id=1)

    def predictor(self) -> PredictorHandle | None:
        return FakePredictor(GROUPS, CODES, input_hidden=HIDDEN, decides=True, stop_after=0)

    def constant(self) -> npt.NDArray[np.float32] | None:
        return np.full(HIDDEN, 0.5, np.float32)

    def decoder(self) -> DecoderHandle:
        return FakeDecoder(GROUPS, SPF, (1, 2, 4))

    def tables(self) -> Sequence[npt.NDArray[Any]]:
        return [np.full((CODES, HIDDEN), group, np.float16) for group in range(GROUPS)]

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        letters = [letter for letter in text.lower() if letter in self._letters]
        rows = np.array([[self._letters.index(letter)] * HIDDEN for letter in letters], np.float32)
        greedy = LoopSampling(do_sample=False)
        return Segment(
            np.ones((1, HIDDEN), np.float32),
            rows.reshape(-1, HIDDEN),
            np.zeros(HIDDEN, np.float32),
            (greedy,) * self.plan.samplers,
            min_frames=self._per_letter * len(letters),
        )

    def frames(self, text: str, options: SpeakOptions) -> int:
        return 0

    def close(self) -> None:
        pass


class ToyFamily:
    """See `edgettsd.families.Family`."""

    name = NAME

    def manifest(self, top: Fields) -> Manifest:
        chirps = top.table("chirps")
        letters = chirps.whole("letters", 1, len(LETTERS))
        per_letter = chirps.whole("frames_per_letter", 1, 9)
        chirps.done()
        return ToyManifest(
            **common(top, ("letters.txt", "decoder.tflite")), letters=letters, frames_per_letter=per_letter
        )

    def check(self, files: Mapping[str, Path], manifest: Manifest) -> None:
        assert isinstance(manifest, ToyManifest)
        found = len(files["letters.txt"].read_text())
        if found != manifest.letters:
            raise ModelInvalidError(
                f"{files['letters.txt']} has {found} letters, {manifest.letters} are needed"
            )

    def parts(self, bundle: Bundle, config: Config) -> ToyParts:
        return ToyParts(bundle)


def write_bundle(folder: Path, **changes: Any) -> Path:
    """A bundle of this family; `changes` replace fields of its manifest."""
    folder.mkdir()
    (folder / "letters.txt").write_text(LETTERS)
    (folder / "decoder.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    files = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name in ("letters.txt", "decoder.tflite")
        for data in [(folder / name).read_bytes()]
    }
    manifest = {
        "format": 1,
        "family": NAME,
        "name": "cricket",
        "license": "",
        "source": {},
        "sample_rate": RATE,
        "samples_per_frame": SPF,
        "code_groups": GROUPS,
        "files": files,
        "decoder": {"precision": "f32", "chunks": [1, 2, 4], "states": 1},
        "schedule": {"kind": "fixed", "chunks": [2]},
        "chirps": {"letters": len(LETTERS), "frames_per_letter": 3},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    return folder


def sound(letters: int, per_letter: int = 3) -> npt.NDArray[np.int16]:
    """What so many letters sound like."""
    frames = [[(13 * k + 7 * g + 5) % CODES for g in range(GROUPS)] for k in range(per_letter * letters)]
    pcm = np.concatenate([frame_pcm(codes, k, SPF) for k, codes in enumerate(frames)])
    return np.clip(np.rint(pcm * 32768), -32768, 32767).astype(np.int16)
