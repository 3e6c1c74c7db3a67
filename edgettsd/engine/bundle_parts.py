"""The parts of a model bundle: kernels over its files, prompts from its embedding tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cython_kernels.llama import LlamaTalker
from cython_kernels.pipe import DecoderHandle, PredictorHandle, TalkerHandle
from cython_kernels.predictor import GgmlPredictor
from edgettsd.config import Config
from edgettsd.engine._api import SpeakOptions, Voice
from edgettsd.engine.accelerator import open_decoder
from edgettsd.engine.parts import ModelInfo, Segment
from edgettsd.errors import InvalidOptionError
from edgettsd.families.qwen3_tts.prompt import PromptBuilder
from edgettsd.families.qwen3_tts.sampling import Sampling
from edgettsd.families.qwen3_tts.tokenizer import TextTokenizer, Tokenizer
from edgettsd.frontends.english.frontend import EnglishFrontEnd, FrameTokenizer
from edgettsd.hw import adapt, load_profile
from edgettsd.hw.cache import cache_folder, weight_file
from edgettsd.models.manifest import FRAMES
from edgettsd.models.store import Bundle, open_bundle

log = logging.getLogger(__name__)

# The voice of a bundle that has none by name: the model's own choice, or what `instruct` describes.
DEFAULT_VOICE = "default"


class BundleParts:
    """Parts of an opened bundle. See `edgettsd.engine.parts.Parts` for which thread calls what."""

    def __init__(self, bundle: Bundle, config: Config) -> None:
        manifest = bundle.manifest
        self._bundle, self._config = bundle, config
        self._embeddings = bundle.open_embeddings()
        tables = self._embeddings
        self._tokenizer = load_tokenizer(bundle)
        # A front end that gives every frame its token knows lengths, and can plan others.
        self._timed = self._tokenizer if isinstance(self._tokenizer, FrameTokenizer) else None
        self._builder = PromptBuilder(manifest.raw, tables, self._tokenizer)
        self._sampling = Sampling.from_manifest(manifest.raw)
        self._tables = [tables[f"codec.{group}"] for group in range(manifest.code_groups)]
        self._banned = np.zeros(manifest.talker.vocab, np.uint8)
        for first, end in manifest.suppress:
            self._banned[first:end] = 1
        self._banned[manifest.codec_tokens["eos"]] = 0
        languages = tuple(self._builder.languages)
        voices = tuple(
            Voice(name, entry.languages or languages, entry.dialect or "")
            for name, entry in manifest.voices.items()
        )
        self.info = ModelInfo(
            name=manifest.name,
            sample_rate=manifest.sample_rate,
            samples_per_frame=manifest.samples_per_frame,
            groups=manifest.code_groups,
            voices=voices or (Voice(DEFAULT_VOICE, languages, "the model's own voice"),),
            languages=languages,
            schedule=manifest.schedule_kind,
            chunks=manifest.schedule_chunks,
        )
        engine = config.engine
        self.check(SpeakOptions(voice=engine.voice or None, language=engine.language))

    @classmethod
    def load(cls, config: Config) -> BundleParts:
        """Open the configured bundle; raises ModelInvalidError."""
        return cls(open_bundle(config.model.path), config)

    def check(self, options: SpeakOptions) -> None:
        """Raise UnknownVoiceError or InvalidOptionError for what this model cannot do."""
        self._builder.check(self._voice(options), options.language)
        if options.instruct and (self._timed is not None or not self._bundle.manifest.supports_instruct):
            raise InvalidOptionError(f"instruct: model {self.info.name!r} takes no instructions")
        if self._timed is None and self._rate(options) != 1.0:
            raise InvalidOptionError(
                f"rate = {self._rate(options):g}: model {self.info.name!r} has a speed of its own; allowed: 1"
            )
        self._merged(options)

    def talker(self) -> TalkerHandle:
        """The talker, with room for the configured context."""
        talker = self._bundle.manifest.talker
        kernel = LlamaTalker(
            self._bundle.files["talker.gguf"],
            max_context=min(talker.max_context, self._config.engine.context),
            threads=self._threads("threads_generator"),
            n_gpu_layers=self._config.engine.n_gpu_layers,
            weight_file=self._weight_file("talker"),
        )
        log.debug("talker: %d MB of weights in files", kernel.file_bytes >> 20)
        return kernel

    def predictor(self) -> PredictorHandle:
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
            entries=manifest.predictor.vocab,
            cache_path=cache / "decoder" if cache is not None else None,
            digest=digest,
            library=self._config.engine.decoder_library,
        )
        log.debug("decoder: %s", dict(decoder.info))
        return decoder

    def tables(self) -> Sequence[npt.NDArray[Any]]:
        """Embedding rows of every codebook."""
        return self._tables

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        """Prompt rows and sampling of one sentence."""
        manifest = self._bundle.manifest
        timed = self._timed is not None
        if self._timed is not None:
            self._timed.rate = self._rate(options)
        # A token a frame makes sense only beside its frame.
        layout = "streaming" if timed else self._config.engine.layout or None
        prompt = self._builder.build(
            text,
            voice=self._voice(options),
            language=options.language or self._config.engine.language,
            instruct=options.instruct,
            layout=layout,
        )
        lead = manifest.lead_frames
        # The first token is in the prompt, the last trailing row ends the text: as many rows as tokens.
        return Segment(
            prompt.prompt,
            prompt.trailing,
            prompt.pad_row,
            self._merged(options),
            banned=self._banned,
            drop_frames=lead,
            end_frames=len(prompt.trailing) + lead if timed else 0,
            prefix=prompt.prefix,
        )

    def frames(self, text: str, options: SpeakOptions) -> int:
        """Frames that are heard of a sentence; 0 where only the model finds its end."""
        if self._timed is None:
            return 0
        self._timed.rate = self._rate(options)
        return len(self._timed.plain(text))

    def close(self) -> None:
        """Unmap the embedding tables."""
        self._tables = []
        self._embeddings.close()

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

    def _rate(self, options: SpeakOptions) -> float:
        """How fast to speak."""
        return options.rate or self._config.voice.rate

    def _voice(self, options: SpeakOptions) -> str | None:
        """Name of the voice to use, None for a model without voices."""
        name = options.voice or self._config.engine.voice
        voices = self._builder.voices
        if not name:
            return voices[0] if voices else None
        if not voices and name == DEFAULT_VOICE:
            return None
        return name

    def _merged(self, options: SpeakOptions) -> Sampling:
        return self._sampling.merged(
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            repetition_penalty=options.repetition_penalty,
        )


def load_tokenizer(bundle: Bundle) -> Tokenizer:
    """What turns text to ids in this bundle; raises ModelInvalidError."""
    if bundle.manifest.text_frontend == FRAMES:
        return FrameTokenizer(EnglishFrontEnd.load(bundle.files))
    return TextTokenizer.load(bundle.files["tokenizer.gguf"], bundle.manifest.tokens)
