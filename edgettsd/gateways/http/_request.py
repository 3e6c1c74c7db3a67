"""The body of POST /v1/audio/speech, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgettsd.gateways.encode import FORMATS
from edgettsd.gateways.http._errors import ApiError

MAX_INPUT = 4096
SPEED_LOW, SPEED_HIGH = 0.25, 4.0
STREAM_FORMATS = ("audio", "sse")
# Home Assistant's client writes this where nothing is set.
_NO_INSTRUCTIONS = ("", "none")


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """What is to be said: `text` as sent; the other fields are None where nothing was asked for."""

    text: str
    voice: str | None
    instructions: str | None
    language: str | None
    speed: float | None
    format: str
    stream: str
    plain: bool | None


def parse(body: bytes) -> SpeechRequest:
    """Check the body; fields that are not known are left alone, as OpenAI does. Raises ApiError (400)."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not valid JSON: {error}", code="invalid_json") from None
    if not isinstance(data, dict):
        raise ApiError(400, "the body must be a JSON object", code="invalid_json")
    text = _text(data, "input")
    if not text:
        raise ApiError(400, "input is missing: allowed are 1 to 4096 characters", param="input")
    if len(text) > MAX_INPUT:
        raise _wrong("input", f"{len(text)} characters", f"1 to {MAX_INPUT} characters")
    instructions = _text(data, "instructions")
    if instructions is not None and instructions.strip().lower() in _NO_INSTRUCTIONS:
        instructions = None
    return SpeechRequest(
        text=text,
        voice=_voice(data.get("voice")),
        instructions=instructions,
        language=_text(data, "language"),
        speed=_speed(data.get("speed")),
        format=_choice(data, "response_format", tuple(FORMATS), "mp3"),
        stream=_choice(data, "stream_format", STREAM_FORMATS, "audio"),
        plain=_flag(data, "plain_text"),
    )


def _wrong(param: str, value: object, allowed: str) -> ApiError:
    return ApiError(400, f"{param} is {value!r}: allowed is {allowed}", param=param, code="invalid_value")


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong(name, value, "a string")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ApiError(400, f"{name} has a NUL character or half a surrogate pair", param=name)
    return value


def _voice(value: Any) -> str | None:
    """A name, or {"id": name}."""
    if isinstance(value, dict):
        value = value.get("id")
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _wrong("voice", value, 'a string, or an object with "id"')
    return _text({"voice": value}, "voice")


def _speed(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not math.isfinite(value) or not SPEED_LOW <= value <= SPEED_HIGH:
        raise _wrong("speed", value, f"a number from {SPEED_LOW} to {SPEED_HIGH:g}")
    return float(value)


def _choice(data: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, str) or value not in allowed:
        raise _wrong(name, value, ", ".join(allowed))
    return value


def _flag(data: Mapping[str, Any], name: str) -> bool | None:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value
