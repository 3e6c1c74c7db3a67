"""POST /v1/audio/speech: a render of the daemon, encoded and passed on as it is made."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from typing import Any

from aiohttp import web

from edgettsd.client import ClientError, RefusedError, Render, render
from edgettsd.engine._api import Reason
from edgettsd.gateways.encode import EncoderError, EncoderThread, encoder, encoder_thread
from edgettsd.gateways.http import _errors
from edgettsd.gateways.http._errors import ApiError
from edgettsd.gateways.http._request import SpeechRequest, parse
from edgettsd.gateways.voices import Voices
from edgettsd.text.markdown import spoken

log = logging.getLogger(__name__)

# A client that takes nothing for this long is given up.
SEND_SECONDS = 30.0
# How long the body of a request may take.
BODY_SECONDS = 10.0
# Options that a model may not have, by the field of the request.
_FIELDS = {"instruct": "instructions", "rate": "speed", "language": "language", "voice": "voice"}
# The one that is left out when the model refuses it, because clients send it whether it is heeded or not.
_OPTIONAL = "instruct"


class Speech:
    """The handler. `where` is (session, address) of the daemon's bus; `plain` leaves Markdown in the text."""

    def __init__(self, where: tuple[bool, str], voices: Voices, *, priority: str, plain: bool) -> None:
        self._where = where
        self._voices = voices
        self._priority = priority
        self._plain = plain

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer a request; errors before the first byte are ApiError, later ones cut the connection."""
        wanted = parse(await _body(request))
        async with AsyncExitStack() as stack:
            speech, ignored = await self._begin(stack, wanted)
            coder = await _coder(stack, wanted.format, speech.sample_rate)
            pieces = await stack.enter_async_context(aclosing(_encoded(speech, coder)))
            # The status waits for the first samples: a text that cannot be said is an error, not silence.
            first = await anext(pieces, None)
            if first is None:
                await _check_end(speech)
            headers = {
                "Content-Type": "text/event-stream" if wanted.stream == "sse" else coder.media_type,
                "Cache-Control": "no-store",
                "X-Sample-Rate": str(speech.sample_rate),
            }
            if ignored:
                headers["X-Ignored"] = ", ".join(ignored)
            response = web.StreamResponse(headers=headers)
            send = _Events(response) if wanted.stream == "sse" else _Audio(response)
            try:
                await response.prepare(request)
                await send.audio(first or b"")
                async for piece in pieces:
                    await send.audio(piece)
                await _check_end(speech)
                await send.done()
            except (ApiError, ClientError, EncoderError) as error:
                log.warning("utterance %d: %s", speech.utterance, error)
                send.broken = not await send.failed(error)
            except TimeoutError:
                log.warning("utterance %d: its client takes nothing", speech.utterance)
                send.broken = True
            except OSError as error:
                log.info("utterance %d: its client left: %s", speech.utterance, error)
            if send.broken and request.transport is not None:
                request.transport.abort()
            return response

    async def _begin(self, stack: AsyncExitStack, wanted: SpeechRequest) -> tuple[Render, list[str]]:
        """The daemon's render of a request, and the fields that its model cannot heed. Raises ApiError."""
        plain = self._plain if wanted.plain is None else wanted.plain
        text = wanted.text if plain else spoken(wanted.text)
        options: dict[str, Any] = {
            "voice": self._voices.daemons(wanted.voice),
            "language": wanted.language,
            "instruct": wanted.instructions,
            "rate": None if wanted.speed in (None, 1.0) else wanted.speed,
            "priority": self._priority,
        }
        ignored: list[str] = []
        while True:
            try:
                return await stack.enter_async_context(render(*self._where, text, options)), ignored
            except RefusedError as error:
                option = _option(error)
                if option == _OPTIONAL and options[_OPTIONAL]:
                    options[_OPTIONAL] = None
                    ignored.append(_FIELDS[_OPTIONAL])
                    continue
                answer = _errors.of_client(error)
                answer.param = answer.param or _FIELDS.get(option)
                raise answer from error
            except ClientError as error:
                raise _errors.of_client(error) from error


class _Audio:
    """The bytes of the format as they are."""

    def __init__(self, response: web.StreamResponse) -> None:
        self._response = response
        # Whether the connection must be cut, because a clean end would look like success.
        self.broken = False

    async def audio(self, data: bytes) -> None:
        """Send bytes of the format; may be empty."""
        if data:
            await self._write(data)

    async def done(self) -> None:
        """End a speech that is whole."""
        await self._response.write_eof()

    async def failed(self, error: Exception) -> bool:
        """End a speech that is not; false when the format has no place for that."""
        return False

    async def _write(self, data: bytes) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await self._response.write(data)


class _Events(_Audio):
    """Server-sent events with the bytes in base64."""

    async def audio(self, data: bytes) -> None:
        if data:
            audio = base64.b64encode(data).decode("ascii")
            await self._event({"type": "speech.audio.delta", "audio": audio})

    async def done(self) -> None:
        usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
        await self._event({"type": "speech.audio.done", "usage": usage})
        await self._response.write_eof()

    async def failed(self, error: Exception) -> bool:
        code = error.code if isinstance(error, ApiError) else None
        body = {"message": str(error), "type": "server_error", "param": None, "code": code}
        try:
            await self._event({"type": "error", "error": body})
            await self._response.write_eof()
        except (OSError, TimeoutError):
            return False
        return True

    async def _event(self, data: dict[str, Any]) -> None:
        await self._write(b"data: " + json.dumps(data).encode() + b"\n\n")


def _option(error: RefusedError) -> str:
    """The daemon's option that an error is about; empty where it is about none."""
    found = re.match(r"(?:option )?(\w+)", str(error)) if error.name == "InvalidOption" else None
    return found[1] if found else ""


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise ApiError(408, f"the body did not come within {BODY_SECONDS:g} s", code="timeout") from None


async def _coder(stack: AsyncExitStack, name: str, sample_rate: int) -> EncoderThread:
    try:
        return await stack.enter_async_context(encoder_thread(lambda: encoder(name, sample_rate)))
    except EncoderError as error:
        raise ApiError(400, str(error), param="response_format", code="unsupported_format") from error


async def _encoded(speech: Render, coder: EncoderThread) -> AsyncGenerator[bytes, None]:
    """The encoder's output, from the first piece of samples on; nothing where the speech failed before."""
    head = await coder.start()
    begun = False
    async for samples in speech:
        data = await coder.encode(samples)
        if not begun:
            data, begun = head + data, True
        if data:
            yield data
    reason, _ = await speech.finished()
    if begun or reason is Reason.COMPLETED:
        yield (b"" if begun else head) + await coder.finish()


async def _check_end(speech: Render) -> None:
    """Raise ApiError unless the utterance was said to its end."""
    reason, stats = await speech.finished()
    if reason is not Reason.COMPLETED:
        detail = f": {stats['detail']}" if "detail" in stats else ""
        raise ApiError(500, f"speech ended as {reason.value}{detail}", code=reason.value)
