"""From the a{sv} of a call to SpeakOptions: a closed set, exact types, checked ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dbus_fast import Variant

from edgettsd import strict
from edgettsd.engine._api import Priority, SpeakOptions, Voice
from edgettsd.errors import InvalidOptionError, InvalidTextError, UnknownVoiceError
from edgettsd.strict import NotAllowedError, Range, shown

FORMATS = ("s16le", "wav")
AUTO_LANGUAGE = "auto"


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
    "volume": Range(0, 4),
    "temperature": Range(0, 2),
    "top_k": Range(1, 2**31 - 1),
    "top_p": Range(0, 1, open_low=True),
    "repetition_penalty": Range(0.5, 2),
    "rate": Range(0.5, 2),
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
            known = ", ".join(f"{name} ({type_})" for name, type_ in types.items())
            raise InvalidOptionError(f"option {shown(key)} is unknown; allowed: {known}")
        if variant.signature != types[key]:
            raise InvalidOptionError(
                f'option {key} = {shown(variant.value)} has D-Bus type "{variant.signature}"; '
                f'allowed: "{types[key]}"'
            )
        values[key] = variant.value
    ranges = _RANGES | {"max_seconds": Range(0, limits.max_seconds, open_low=True)}
    for key, allowed in ranges.items():
        if key in values:
            _checked(key, values[key], strict.whole if types[key] in "ut" else strict.real, allowed)
    if "priority" in values:
        values["priority"] = _priority(values["priority"])
    if "language" in values:
        allowed_languages = tuple(dict.fromkeys((AUTO_LANGUAGE, *languages)))
        _checked("language", values["language"], strict.text, allowed_languages)
    if "instruct" in values:
        check_text(values["instruct"], limits, "option instruct")
    if "voice" in values and values["voice"] not in (ids := [voice.id for voice in voices]):
        names = ", ".join(ids) or "none, the model has no voices"
        raise UnknownVoiceError(f"voice {shown(values['voice'])} is unknown; allowed: {names}")
    audio_format = values.pop("format", FORMATS[0])
    _checked("format", audio_format, strict.text, FORMATS)
    return SpeakOptions(**values), audio_format


def _priority(value: str) -> Priority:
    names = [priority.name.lower() for priority in Priority]
    _checked("priority", value, strict.text, names)
    return Priority(names.index(value))


def _checked(key: str, value: Any, check: Callable[[Any, Any], Any], allowed: Any) -> None:
    """Raise InvalidOptionError unless `check` takes the value."""
    try:
        check(value, allowed)
    except NotAllowedError as error:
        what = ", ".join(error.choices) or error
        raise InvalidOptionError(f"option {key} = {shown(value)}; allowed: {what}") from None
