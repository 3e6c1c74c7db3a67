"""What the service says of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgettsd import __version__
from edgettsd.gateways.voices import DEFAULT

ATTRIBUTION = {"name": "edgettsd", "url": ""}
# Languages of models as they name them, and as Home Assistant does. A voice without any speaks all of these.
TAGS = {
    "chinese": "zh",
    "english": "en",
    "german": "de",
    "italian": "it",
    "portuguese": "pt",
    "spanish": "es",
    "japanese": "ja",
    "korean": "ko",
    "french": "fr",
    "russian": "ru",
}


def info(model: str, voices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Data of an `info` event; the default voice comes first, because Home Assistant takes the first one.

    Without known voices there is one called "default", because clients refuse a service without any.
    """
    ordered = sorted(voices, key=lambda voice: not voice.get("default")) or [{"id": DEFAULT}]
    program = {
        "name": "edgettsd",
        "description": f"edgettsd, {model}" if model else "edgettsd",
        "attribution": ATTRIBUTION,
        "installed": True,
        "version": __version__,
        "voices": [_voice(voice) for voice in ordered],
        "supports_synthesize_streaming": True,
    }
    return {"asr": [], "tts": [program], "handle": [], "intent": [], "wake": [], "mic": [], "snd": []}


def _voice(voice: Mapping[str, Any]) -> dict[str, Any]:
    named = [tags(str(language)) for language in voice.get("languages", ())]
    return {
        "name": str(voice["id"]),
        "description": str(voice.get("description") or voice["id"]),
        "attribution": ATTRIBUTION,
        "installed": True,
        "version": __version__,
        "languages": list(dict.fromkeys(named)) or list(TAGS.values()),
        "speakers": None,
    }


def tags(language: str) -> str:
    """The tag of a language, or what the model calls it."""
    return TAGS.get(language.casefold(), language)
