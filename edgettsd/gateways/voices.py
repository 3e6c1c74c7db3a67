"""Voices as foreign clients name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgettsd.gateways.watch import Watch

# Names of OpenAI's voices: clients send them by default, and mean nothing by them here.
OPENAI = (
    "alloy",
    "ash",
    "ballad",
    "cedar",
    "coral",
    "echo",
    "fable",
    "marin",
    "nova",
    "onyx",
    "sage",
    "shimmer",
    "verse",
)


# What the default voice is called where none is known yet, because the daemon is away.
DEFAULT = "default"


class Voices:
    """The daemon's voices, and other names for them.

    `aliases` maps a name to a voice of the daemon, or to "" for its default one.
    """

    def __init__(self, watch: Watch, aliases: Mapping[str, str]) -> None:
        self._watch = watch
        self._aliases = dict.fromkeys((DEFAULT, *OPENAI), "") | {
            name.casefold(): voice for name, voice in aliases.items()
        }

    @property
    def known(self) -> Sequence[Mapping[str, Any]]:
        """The daemon's voices as ListVoices tells them."""
        return self._watch.voices

    def daemons(self, name: str | None) -> str | None:
        """The daemon's voice for a client's name; None is the default one. An unknown name stays as it is."""
        if not name:
            return None
        ids = [str(voice["id"]) for voice in self.known]
        if name in ids:
            return name
        folded = name.casefold()
        for voice in ids:
            if voice.casefold() == folded:
                return voice
        if folded in self._aliases:
            return self._aliases[folded] or None
        return name
