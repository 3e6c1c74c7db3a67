"""Prompt rows of Qwen3-TTS: what the talker is fed before and between frames.

A prompt row is the sum of a text row (already through the text projection) and a codec row. In the streaming
layout the prompt holds only the first text token and token i+1 is added to the input of frame i; in the full
layout ("non-streaming" in the official code) the whole text is in the prompt and a frame gets the pad row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgettsd.errors import InvalidOptionError, ModelInvalidError, UnknownVoiceError

from .tokenizer import Tokenizer

Rows = npt.NDArray[np.float32]

LAYOUTS = ("streaming", "full")
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Rows for one utterance, all float32, H the talker's hidden size.

    `prompt` [n, H] goes in at once; `trailing` [m, H] holds the row to add to the codec sum of frame i; after
    the last one `pad_row` [H] is added. `ids` are the text ids behind it, instruction first.
    """

    prompt: Rows
    trailing: Rows
    pad_row: Rows
    ids: tuple[int, ...]
    # Leading rows of `prompt` that do not depend on the text.
    prefix: int = 0


class PromptBuilder:
    """Builds prompts from a bundle's manifest and its memory-mapped embedding tables.

    `tensors` maps tensor names to arrays [rows, H] (float32 or float16): ``text``, ``codec.0`` and
    ``speaker.NAME`` [H]. Only the rows that a prompt uses are read.
    """

    def __init__(
        self, manifest: Mapping[str, Any], tensors: Mapping[str, np.ndarray], tokenizer: Tokenizer
    ) -> None:
        self._name: str = manifest["name"]
        self._tensors = tensors
        self._tokenizer = tokenizer
        self._tokens: Mapping[str, int] = manifest["tokens"]
        self._codec: Mapping[str, int] = manifest["codec_tokens"]
        self._languages: Mapping[str, int] = manifest["languages"]
        self._voices: Mapping[str, Mapping[str, Any]] = manifest["voices"]
        self._instruct: bool = manifest["supports_instruct"]
        self._layout: str = manifest.get("layout", LAYOUTS[0])
        for table in ("text", "codec.0"):
            if table not in tensors:
                raise ModelInvalidError(f"embeddings: tensor {table!r} is missing")

    @property
    def languages(self) -> tuple[str, ...]:
        """What a caller may ask for; dialects are reached through their voices only."""
        return (AUTO, *(name for name in self._languages if "dialect" not in name))

    @property
    def voices(self) -> tuple[str, ...]:
        """Voice names in the manifest's order."""
        return tuple(self._voices)

    def build(
        self,
        text: str,
        *,
        voice: str | None = None,
        language: str | None = None,
        instruct: str | None = None,
        layout: str | None = None,
    ) -> Prompt:
        """The prompt of one utterance; None or "" stands for no voice, automatic language, no instruction.

        Names are matched without regard to case. Raises UnknownVoiceError, InvalidOptionError or
        InvalidTextError.
        """
        layout = self._layout if layout is None else layout
        if layout not in LAYOUTS:
            raise InvalidOptionError(f"layout {layout!r} is unknown; allowed: {', '.join(LAYOUTS)}")
        chosen = self._voice(voice)
        ids = self._tokenizer.speech(text)
        instruct_ids = self._instruction(instruct)
        head, tail = self._tokenizer.HEAD, self._tokenizer.TAIL
        pad, bos, eos = (self._text([self._tokens[name]]) for name in ("tts_pad", "tts_bos", "tts_eos"))

        codec = [self._codec_rows(self._tags(language, chosen))]
        if chosen is not None:
            codec.append(self._speaker(chosen))
        codec.append(self._codec_rows([self._codec["pad"]]))
        intro = np.concatenate(codec)
        # Every codec row before the text carries the pad row, the last one the begin-of-text row.
        intro[:-1] += pad
        intro[-1:] += bos

        codec_bos = self._codec_rows([self._codec["bos"]])
        parts = [self._text(instruct_ids), self._text(ids[:head]), intro]
        prefix = sum(len(part) for part in parts)
        if layout == "streaming":
            # An empty text has its end-of-turn id here, as in the official code.
            parts.append(self._text(ids[head : head + 1]) + codec_bos)
            trailing = np.concatenate([self._text(ids[head + 1 : -tail]), eos])
        else:
            body = np.concatenate([self._text(ids[head:-tail]), eos])
            parts += [body + self._codec_rows([self._codec["pad"]]), pad + codec_bos]
            trailing = pad
        return Prompt(
            prompt=np.concatenate(parts),
            trailing=trailing,
            pad_row=pad[0].copy(),
            ids=tuple(instruct_ids) + tuple(ids),
            prefix=prefix,
        )

    def check(self, voice: str | None, language: str | None) -> None:
        """Raise UnknownVoiceError or InvalidOptionError when `build` would refuse these."""
        self._tags(language, self._voice(voice))

    def _voice(self, voice: str | None) -> Mapping[str, Any] | None:
        if not voice:
            return None
        for name, entry in self._voices.items():
            if name.lower() == voice.lower():
                return entry
        allowed = ", ".join(self._voices) or "none"
        raise UnknownVoiceError(f"voice {voice!r} is not in model {self._name!r}; allowed: {allowed}")

    def _tags(self, language: str | None, voice: Mapping[str, Any] | None) -> list[int]:
        """Codec ids that announce the language, or that there is none to announce."""
        wanted = (language or AUTO).lower()
        allowed = {name.lower(): name for name in self.languages}
        if wanted not in allowed:
            raise InvalidOptionError(
                f"language {language!r} is not in model {self._name!r}; allowed: {', '.join(self.languages)}"
            )
        tag = None if wanted == AUTO else self._languages[allowed[wanted]]
        dialect = voice.get("dialect") if voice is not None else None
        # A dialect speaker speaks the dialect unless another language than Chinese was asked for.
        if dialect and wanted in (AUTO, "chinese"):
            tag = self._languages[dialect]
        names = ("nothink", "think_bos", "think_eos") if tag is None else ("think", "think_bos", "think_eos")
        ids = [self._codec[name] for name in names]
        return ids if tag is None else [*ids[:2], tag, ids[2]]

    def _speaker(self, voice: Mapping[str, Any]) -> Rows:
        if "row" in voice:
            return np.array(self._tensor(voice["row"]), np.float32).reshape(1, -1)
        return self._codec_rows([voice["codec_id"]])

    def _instruction(self, instruct: str | None) -> list[int]:
        if not instruct:
            return []
        if not self._instruct:
            raise InvalidOptionError(f"instruct: model {self._name!r} takes no instructions")
        return self._tokenizer.instruction(instruct)

    def _text(self, ids: Sequence[int]) -> Rows:
        return self._take("text", ids)

    def _codec_rows(self, ids: Sequence[int]) -> Rows:
        return self._take("codec.0", ids)

    def _take(self, table: str, ids: Sequence[int]) -> Rows:
        rows = self._tensor(table)
        return rows[np.asarray(ids, np.intp)].astype(np.float32)

    def _tensor(self, name: str) -> np.ndarray:
        try:
            return self._tensors[name]
        except KeyError:
            raise ModelInvalidError(f"embeddings: tensor {name!r} is missing") from None
