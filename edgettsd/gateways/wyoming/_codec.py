"""Events of the Wyoming protocol: a line of JSON, data of `data_length` bytes, a payload of `payload_length`.

All lengths come from the network and are bounded before anything is kept for them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_LINE = 64 * 1024
MAX_DATA = 256 * 1024
# Nothing that a client of a speaking service sends has a payload; some is skipped for politeness.
MAX_PAYLOAD = 1024 * 1024
VERSION = "1.10.2"


class ProtocolError(Exception):
    """What came is not an event; the connection cannot be used any more."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `payload` is raw bytes."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = b""


def encode(event: Event) -> bytes:
    """The event as bytes."""
    head: dict[str, Any] = {"type": event.type, "version": VERSION}
    data = json.dumps(event.data, ensure_ascii=False).encode() if event.data else b""
    if data:
        head["data_length"] = len(data)
    if event.payload:
        head["payload_length"] = len(event.payload)
    return json.dumps(head).encode() + b"\n" + data + event.payload


async def read(reader: asyncio.StreamReader) -> Event | None:
    """The next event, None at the end of the stream; `reader` must be made with limit MAX_LINE.

    Raises ProtocolError.
    """
    try:
        line = await reader.readline()
    except ValueError:
        raise ProtocolError(f"a line is longer than {MAX_LINE} bytes") from None
    if not line:
        return None
    head = _object(line, "the line")
    kind = head.get("type")
    if not isinstance(kind, str) or not kind:
        raise ProtocolError(f"type is {kind!r}: a name expected")
    data = head.get("data") or {}
    if not isinstance(data, dict):
        raise ProtocolError("data is not an object")
    size, payload = _length(head, "data_length", MAX_DATA), _length(head, "payload_length", MAX_PAYLOAD)
    try:
        if size:
            data = {**data, **_object(await reader.readexactly(size), "the data")}
        return Event(kind, data, await reader.readexactly(payload) if payload else b"")
    except asyncio.IncompleteReadError:
        raise ProtocolError("the stream ends within an event") from None


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError(f"{what} is not JSON") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"{what} is not a JSON object")
    return value


def _length(head: Mapping[str, Any], name: str, most: int) -> int:
    value = head.get(name)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"{name} is {value!r}: allowed is 0 to {most}")
    return value
