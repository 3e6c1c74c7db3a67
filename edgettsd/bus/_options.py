"""From the a{sv} of a call to SpeakOptions: a closed set, exact types, checked ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbus_fast import Variant

from edgettsd.engine._api import Priority, SpeakOptions, Voice
from edgettsd.errors import InvalidOptionError, InvalidTextError, UnknownVoiceError

FORMATS = ("s16le", "wav")
AUTO_LANGUAGE = "auto"


@dataclass(frozen=True, slots=True)
class _Range:
    """Bounds of a number; `open_low` leaves `low` itself out."""

    low: float
    high: float
    open_low: bool = False

    def holds(self, value: float) -> bool:
        """Whether the value is allowed; never for NaN."""
        return self.low <= value <= self.high and not (self.open_low and value == self.low)

    def __str__(self) -> str:
        low = f"above {self.low:.12g}" if self.open_low else f"from {self.low:.12g}"
        return low if math.isinf(self.high) else f"{low} to {self.high:.12g}"


# D-Bus type of every option, in the order in which refusals list them.
TYPES: dict[str, str] = {
    "voice": "s",
    "language": "s",
    "instruct": "s",
    "priority": "s",
    "interrupt": "b",
    "client_bound": "b",
    "volume": "d",
    "seed": "t",
    "temperature": "d",
    "top_k": "u",
    "top_p": "d",
    "repetition_penalty": "d",
    "max_seconds": "d",
    "rate": "d",
}
_RANGES = {
    "volume": _Range(0, 4),
    "temperature": _Range(0, 2),
    "top_k": _Range(1, 2**31 - 1),
    "top_p": _Range(0, 1, open_low=True),
    "repetition_penalty": _Range(0.5, 2),
    "rate": _Range(0.5, 2),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the configuration that callers meet."""

    max_text_bytes: int
    max_seconds: float


def check_text(text: str, limits: Limits, field: str = "text") -> None:
    """Raises InvalidTextError for text that is too long or not plain Unicode."""
    if "\0" in text:
        raise InvalidTextError(f"{field}: a NUL character at position {text.index(chr(0))} is not allowed")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidTextError(
            f"{field}: a lone surrogate at position {error.start} is not allowed"
        ) from None
    if size > limits.max_text_bytes:
        raise InvalidTextError(f"{field}: {size} bytes of UTF-8; at most {limits.max_text_bytes} are allowed")


def parse_options(
    options: Mapping[str, Variant],
    limits: Limits,
    voices: Sequence[Voice],
    languages: Sequence[str],
    *,
    with_format: bool = False,
) -> tuple[SpeakOptions, str]:
    """The options and the audio format ("s16le" without one).

    Raises InvalidOptionError, UnknownVoiceError, InvalidTextError, naming key, value and what is allowed.
    """
    types = TYPES | {"format": "s"} if with_format else TYPES
    values: dict[str, Any] = {}
    for key, variant in options.items():
        if key not in types:
            allowed = ", ".join(f"{name} ({type_})" for name, type_ in types.items())
            raise InvalidOptionError(f"option {_shown(key)} is unknown; allowed: {allowed}")
        if variant.signature != types[key]:
            raise InvalidOptionError(
                f'option {key} = {_shown(variant.value)} has D-Bus type "{variant.signature}"; '
                f'allowed: "{types[key]}"'
            )
        values[key] = variant.value
    ranges = _RANGES | {"max_seconds": _Range(0, limits.max_seconds, open_low=True)}
    for key, allowed_range in ranges.items():
        if key in values and not allowed_range.holds(values[key]):
            raise InvalidOptionError(f"option {key} = {values[key]!r}; allowed: {allowed_range}")
    if "priority" in values:
        values["priority"] = _priority(values["priority"])
    if "language" in values:
        _one_of("language", values["language"], (AUTO_LANGUAGE, *languages))
    if "instruct" in values:
        check_text(values["instruct"], limits, "option instruct")
    if "voice" in values and values["voice"] not in (known := [voice.id for voice in voices]):
        names = ", ".join(known) or "none, the model has no voices"
        raise UnknownVoiceError(f"voice {_shown(values['voice'])} is unknown; allowed: {names}")
    audio_format = values.pop("format", FORMATS[0])
    _one_of("format", audio_format, FORMATS)
    return SpeakOptions(**values), audio_format


def _priority(value: str) -> Priority:
    names = [priority.name.lower() for priority in Priority]
    _one_of("priority", value, names)
    return Priority(names.index(value))


def _one_of(key: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidOptionError(f"option {key} = {_shown(value)}; allowed: {', '.join(allowed)}")


def _shown(value: object) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
