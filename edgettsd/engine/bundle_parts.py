"""The parts of a model bundle, as far as families have them in common: kernels over the bundle's files."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from cython_kernels.llama import LlamaTalker
from cython_kernels.pipe import DecoderHandle, Pipe, PredictorHandle, TalkerHandle
from cython_kernels.predictor import GgmlPredictor
from edgettsd import families
from edgettsd.config import Config
from edgettsd.engine._api import SpeakOptions
from edgettsd.engine.accelerator import open_decoder
from edgettsd.engine.parts import ModelInfo, Parts, Rows, Segment
from edgettsd.engine.sources import FrameSource, LocalFrames
from edgettsd.families.plan import FramePlan
from edgettsd.hw import adapt, load_profile
from edgettsd.hw.cache import cache_folder, weight_file
from edgettsd.models.store import Bundle, open_bundle

log = logging.getLogger(__name__)


class BundleParts(ABC):
    """Kernels of an opened bundle. See `edgettsd.engine.parts.Parts` for which thread calls what.

    A family derives its own and overrides a kernel that it has another one for.
    """

    def __init__(
        self, bundle: Bundle, config: Config, info: ModelInfo, *, max_context: int, entries: int
    ) -> None:
        """`max_context`: positions that the talker was made for; `entries`: codes of a codebook."""
        self._bundle, self._config, self.info = bundle, config, info
        self._max_context, self._entries = max_context, entries

    @staticmethod
    def load(config: Config) -> Parts:
        """Open the configured bundle; raises ModelInvalidError."""
        bundle = open_bundle(config.model.path)
        return families.find(bundle.manifest.family).parts(bundle, config)

    @abstractmethod
    def check(self, options: SpeakOptions) -> None:
        """Raise UnknownVoiceError or InvalidOptionError for what this model cannot do."""

    @property
    @abstractmethod
    def plan(self) -> FramePlan:
        """Which steps make a frame."""

    def constant(self) -> Rows | None:
        """The constant row of the local steps: none."""
        return None

    @abstractmethod
    def tables(self) -> Sequence[npt.NDArray[Any]]:
        """Embedding rows of every codebook."""

    @abstractmethod
    def segment(self, text: str, options: SpeakOptions) -> Segment:
        """Prompt rows and sampling of one sentence."""

    @abstractmethod
    def frames(self, text: str, options: SpeakOptions) -> int:
        """Frames that are heard of a sentence; 0 where only the model finds its end."""

    @abstractmethod
    def close(self) -> None:
        """Release the files."""

    def source(self, pipe: Pipe) -> FrameSource:
        """The bundle's talker and code predictor."""
        return LocalFrames(pipe, self)

    def talker(self) -> TalkerHandle:
        """The talker, with room for the configured context."""
        kernel = LlamaTalker(
            self._bundle.files["talker.gguf"],
            max_context=min(self._max_context, self._config.engine.context),
            threads=self._threads("threads_generator"),
            n_gpu_layers=self._config.engine.n_gpu_layers,
            weight_file=self._weight_file("talker"),
        )
        log.debug("talker: %d MB of weights in files", kernel.file_bytes >> 20)
        return kernel

    def predictor(self) -> PredictorHandle | None:
        """The code predictor; it shares the talker's thread."""
        threads = self._threads("threads_generator")
        kernel = GgmlPredictor(
            self._bundle.files["predictor.gguf"], threads=threads, weight_file=self._weight_file("predictor")
        )
        log.debug("predictor: %d MB of weights in files", kernel.file_bytes >> 20)
        return kernel

    def decoder(self) -> DecoderHandle:
        """The codec decoder, with its packed weights kept for the next start where a cache folder is."""
        manifest = self._bundle.manifest
        cache, digest = cache_folder(), manifest.files["decoder.tflite"].sha256
        decoder = open_decoder(
            self._config.engine.decoder_accelerator,
            self._bundle.files["decoder.tflite"],
            groups=manifest.code_groups,
            samples_per_frame=manifest.samples_per_frame,
            chunks=self._sizes(),
            threads=self._threads("threads_decoder"),
            entries=self._entries,
            cache_path=cache / "decoder" if cache is not None else None,
            digest=digest,
            library=self._config.engine.decoder_library,
        )
        log.debug("decoder: %s", dict(decoder.info))
        return decoder

    def _sizes(self) -> tuple[int, ...]:
        """The decoder's chunk sizes that the schedule can use; each one that is loaded takes work space."""
        sizes = self._bundle.manifest.decoder.chunks
        most = max(self._config.engine.chunks or self._bundle.manifest.schedule_chunks)
        return tuple(size for size in sizes if size <= most or size == sizes[0])

    def _weight_file(self, part: str) -> Path | None:
        """Where a part keeps the weights that it rearranges; None: in memory."""
        if not self._config.engine.weight_files:
            return None
        return weight_file(cache_folder(), part, self._bundle.manifest.files[f"{part}.gguf"].sha256)

    def _threads(self, name: str) -> int:
        """Threads of a stage: what is configured, or suits this machine."""
        configured = getattr(self._config.engine, name)
        return int(configured or getattr(adapt(load_profile(), self._config), name))
