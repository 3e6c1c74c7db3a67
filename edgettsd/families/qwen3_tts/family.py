"""Qwen3-TTS at 12.5 frames a second as a family."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgettsd.models.manifest import Manifest

from . import files as checks
from . import manifest as fields

if TYPE_CHECKING:
    from edgettsd.config import Config
    from edgettsd.engine.parts import Parts
    from edgettsd.models._fields import Fields
    from edgettsd.models.store import Bundle


class Qwen3Tts:
    """See `edgettsd.families.Family`."""

    name = fields.FAMILY

    def manifest(self, top: Fields) -> Manifest:
        """Transformer sizes, front end, ids, voices, sampling."""
        return fields.parse(top)

    def check(self, files: Mapping[str, Path], manifest: Manifest) -> None:
        """Talker, predictor, front end and embeddings."""
        checks.check(files, cast(fields.QwenManifest, manifest))

    def parts(self, bundle: Bundle, config: Config) -> Parts:
        """Kernels are made later, by the threads that use them."""
        from .parts import QwenParts

        return QwenParts(bundle, config)


FAMILY = Qwen3Tts()
