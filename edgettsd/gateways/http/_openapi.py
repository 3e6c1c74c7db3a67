"""The API's description in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from edgettsd import __version__
from edgettsd.gateways.encode import FORMATS
from edgettsd.gateways.http._request import MAX_INPUT, SPEED_HIGH, SPEED_LOW, STREAM_FORMATS


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _error(text: str) -> dict[str, Any]:
    return {"description": text, "content": _json({"$ref": "#/components/schemas/Error"})}


def _speech() -> dict[str, Any]:
    sound = {"schema": {"type": "string", "format": "binary"}}
    kinds = ("audio/mpeg", "audio/ogg", "audio/aac", "audio/flac", "audio/wav", "audio/pcm")
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": "createSpeech",
        "summary": "Speech of a text, sent as it is made.",
        "requestBody": {"required": True, "content": _json({"$ref": "#/components/schemas/SpeechRequest"})},
        "responses": {
            "200": {"description": "The speech.", "content": dict.fromkeys(kinds, sound) | stream},
            "400": _error("A field is wrong; `param` names it."),
            "401": _error("The bearer token is missing or wrong."),
            "403": _error("Another site's page asks."),
            "413": _error("The body is too large."),
            "415": _error("The body is not JSON by its Content-Type."),
            "421": _error("The Host header names another host."),
            "429": _error("Too much waits already; Retry-After says when to come again."),
            "500": _error("The model failed before the first sample."),
            "503": _error("The daemon is away or still starts."),
        },
    }


def _get(
    summary: str, name: str, codes: tuple[int, ...] = (200,), kind: str = "application/json"
) -> dict[str, Any]:
    answers = {str(code): {"description": summary, "content": {kind: {"schema": {}}}} for code in codes}
    answers["401"] = _error("The bearer token is missing or wrong.")
    return {"get": {"operationId": name, "summary": summary, "responses": answers}}


def document() -> dict[str, Any]:
    """The whole description."""
    request = {
        "type": "object",
        "required": ["input"],
        "properties": {
            "input": {"type": "string", "minLength": 1, "maxLength": MAX_INPUT},
            "model": {"type": "string", "description": "Ignored: the daemon has one model."},
            "voice": {
                "description": "A voice of /v1/voices; OpenAI's names mean the default one.",
                "oneOf": [
                    {"type": "string"},
                    {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
                ],
            },
            "instructions": {"type": "string", "description": "How to speak, where the model takes it."},
            "language": {"type": "string", "description": "Not of OpenAI: a language of the model, or auto."},
            "response_format": {"type": "string", "enum": list(FORMATS), "default": "mp3"},
            "speed": {"type": "number", "minimum": SPEED_LOW, "maximum": SPEED_HIGH, "default": 1},
            "stream_format": {"type": "string", "enum": list(STREAM_FORMATS), "default": "audio"},
            "plain_text": {
                "type": "boolean",
                "description": "Not of OpenAI: true: the text as it is; false: without Markdown and emoji.",
            },
        },
    }
    fields = {name: {"type": ["string", "null"]} for name in ("message", "type", "param", "code")}
    error = {"type": "object", "properties": {"error": {"type": "object", "properties": fields}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "edgettsd", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": {
            "/v1/audio/speech": {"post": _speech()},
            "/v1/models": _get("Names under which the model may be asked for.", "listModels"),
            "/v1/voices": _get("The model's voices.", "listVoices"),
            "/v1/audio/voices": _get("The same.", "listAudioVoices"),
            "/v1/state": _get("What the daemon does now.", "getState"),
            "/health": _get("Whether speech can be made now.", "getHealth", (200, 503)),
            "/metrics": _get("Figures for Prometheus.", "getMetrics", kind="text/plain"),
        },
        "components": {
            "schemas": {"SpeechRequest": request, "Error": error},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
