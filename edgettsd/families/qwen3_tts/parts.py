"""The parts of a Qwen3-TTS bundle: its kernels as every bundle's, prompts from its embedding tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy.typing as npt

from edgettsd.config import Config
from edgettsd.engine._api import SpeakOptions, Voice
from edgettsd.engine.bundle_parts import BundleParts
from edgettsd.engine.parts import ModelInfo, Segment
from edgettsd.errors import InvalidOptionError
from edgettsd.families.plan import FramePlan, talker_first
from edgettsd.frontends import Timed
from edgettsd.models.store import Bundle

from .frontends import FRONTENDS
from .manifest import QwenManifest
from .prompt import PromptBuilder
from .sampling import Sampling
from .tokenizer import Tokenizer

# The voice of a bundle that has none by name: the model's own choice, or what `instruct` describes.
DEFAULT_VOICE = "default"


class QwenParts(BundleParts):
    """Parts of an opened bundle. See `edgettsd.engine.parts.Parts` for which thread calls what."""

    def __init__(self, bundle: Bundle, config: Config) -> None:
        manifest = cast(QwenManifest, bundle.manifest)
        self._manifest = manifest
        self._embeddings = bundle.open_embeddings()
        tables = self._embeddings
        self._tokenizer = load_tokenizer(bundle)
        # A front end with one token a frame knows how long a text is spoken, and can plan other lengths
        # (`rate`).
        self._timed = cast(Timed, self._tokenizer) if FRONTENDS[manifest.text_frontend].timed else None
        self._builder = PromptBuilder(manifest.raw, tables, self._tokenizer)
        self._sampling = Sampling.from_manifest(manifest.raw)
        self._tables = [tables[f"codec.{group}"] for group in range(manifest.code_groups)]
        self._banned = self._sampling.banned(manifest.talker.vocab)
        languages = tuple(self._builder.languages)
        voices = tuple(
            Voice(name, entry.languages or languages, entry.dialect or "")
            for name, entry in manifest.voices.items()
        )
        super().__init__(
            bundle,
            config,
            ModelInfo(
                name=manifest.name,
                sample_rate=manifest.sample_rate,
                samples_per_frame=manifest.samples_per_frame,
                groups=manifest.code_groups,
                voices=voices or (Voice(DEFAULT_VOICE, languages, "the model's own voice"),),
                languages=languages,
                schedule=manifest.schedule_kind,
                chunks=manifest.schedule_chunks,
            ),
            max_context=manifest.talker.max_context,
            entries=manifest.predictor.vocab,
        )
        self.check(SpeakOptions(voice=config.engine.voice or None, language=config.engine.language))

    def check(self, options: SpeakOptions) -> None:
        """Raise UnknownVoiceError or InvalidOptionError for what this model cannot do."""
        self._builder.check(self._voice(options), options.language)
        if options.instruct and (self._timed is not None or not self._manifest.supports_instruct):
            raise InvalidOptionError(f"instruct: model {self.info.name!r} takes no instructions")
        if self._timed is None and self._rate(options) != 1.0:
            raise InvalidOptionError(
                f"rate = {self._rate(options):g}: model {self.info.name!r} has a speed of its own; allowed: 1"
            )
        self._merged(options)

    @property
    def plan(self) -> FramePlan:
        """A code by the talker with the end among them, the others by the predictor."""
        return talker_first(self._manifest.code_groups, self._sampling.eos)

    def tables(self) -> Sequence[npt.NDArray[Any]]:
        """Embedding rows of every codebook."""
        return self._tables

    def segment(self, text: str, options: SpeakOptions) -> Segment:
        """Prompt rows and sampling of one sentence."""
        timed = self._timed is not None
        if self._timed is not None:
            self._timed.rate = self._rate(options)
        # Only the streaming layout, because each of these tokens belongs to one frame.
        layout = "streaming" if timed else self._config.engine.layout or None
        prompt = self._builder.build(
            text,
            voice=self._voice(options),
            language=options.language or self._config.engine.language,
            instruct=options.instruct,
            layout=layout,
        )
        lead, sampling = self._manifest.lead_frames, self._merged(options)
        # Trailing rows are as many as tokens, because the first token is in the prompt and the last row ends
        # the text.
        return Segment(
            prompt.prompt,
            prompt.trailing,
            prompt.pad_row,
            (sampling.talker, sampling.predictor),
            banned=(self._banned,),
            min_frames=sampling.min_new_tokens,
            max_frames=sampling.max_frames,
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
    manifest = cast(QwenManifest, bundle.manifest)
    return FRONTENDS[manifest.text_frontend].load(bundle.files, manifest)
