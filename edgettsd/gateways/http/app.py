"""The HTTP gateway's routes."""

from __future__ import annotations

import time
from importlib.resources import files
from typing import Any

from aiohttp import web

from edgettsd import __version__
from edgettsd.gateways.encode import FORMATS
from edgettsd.gateways.http._doors import Doors
from edgettsd.gateways.http._guard import Guard
from edgettsd.gateways.http._metrics import MEDIA_TYPE, Metrics
from edgettsd.gateways.http._openapi import document
from edgettsd.gateways.http._speech import Speech
from edgettsd.gateways.voices import Voices
from edgettsd.gateways.watch import Watch

# Names under which OpenAI's clients ask for a model; whichever they name, the daemon has one.
MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
_PAGE = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}


def make(
    watch: Watch, voices: Voices, speech: Speech, guard: Guard, doors: Doors, *, body_kib: int = 256
) -> web.Application:
    """The application; `watch` must be running."""
    metrics = Metrics()
    watch.on_finished = metrics.finished
    info = _Info(watch, voices, metrics)
    app = web.Application(middlewares=[doors.middleware, guard.middleware], client_max_size=body_kib * 1024)
    app.on_response_prepare.append(guard.on_prepare)
    app.router.add_post("/v1/audio/speech", speech)
    app.router.add_get("/v1/models", info.models)
    app.router.add_get("/v1/models/{model}", info.model)
    app.router.add_get("/v1/audio/models", info.models)
    for path in ("/v1/voices", "/v1/audio/voices"):
        app.router.add_get(path, info.voices)
    app.router.add_get("/health", info.health)
    app.router.add_get("/metrics", info.metrics)
    app.router.add_get("/openapi.json", info.openapi)
    app.router.add_get("/v1/state", info.state)
    for path, (name, kind) in _PAGE.items():
        app.router.add_get(path, _static(name, kind))
    return app


def _static(name: str, kind: str) -> Any:
    """A handler for a file of the page, which is read once."""
    text = files("edgettsd.gateways.http").joinpath("page", name).read_text("utf-8")

    async def handler(request: web.Request) -> web.Response:
        return web.Response(
            text=text, content_type=kind, charset="utf-8", headers={"Cache-Control": "no-cache"}
        )

    return handler


class _Info:
    """Everything that is not speech."""

    def __init__(self, watch: Watch, voices: Voices, metrics: Metrics) -> None:
        self._watch = watch
        self._voices = voices
        self._metrics = metrics
        self._created = int(time.time())

    async def models(self, request: web.Request) -> web.Response:
        """GET /v1/models."""
        return web.json_response({"object": "list", "data": [self._model(name) for name in self._names()]})

    async def model(self, request: web.Request) -> web.Response:
        """GET /v1/models/{model}."""
        name = request.match_info["model"]
        if name not in self._names():
            raise web.HTTPNotFound
        return web.json_response(self._model(name))

    def _names(self) -> list[str]:
        return [*filter(None, [self._watch.properties.get("Model")]), *MODELS]

    def _model(self, name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": self._created, "owned_by": "edgettsd"}

    async def voices(self, request: web.Request) -> web.Response:
        """GET /v1/voices, in the forms that Open WebUI and Kokoro's clients read."""
        known = [
            {
                "id": voice["id"],
                "name": voice["id"],
                "languages": list(voice.get("languages", ())),
                "description": voice.get("description", ""),
                "default": bool(voice.get("default")),
            }
            for voice in self._voices.known
        ]
        return web.json_response({"object": "list", "data": known, "voices": known})

    async def health(self, request: web.Request) -> web.Response:
        """GET /health: 200 when speech can be made now, else 503."""
        ready = self._watch.ready
        state = self._watch.properties.get("State", "unreachable")
        body = {"status": "ok" if ready else "unavailable", "state": state, "version": __version__}
        return web.json_response(body, status=200 if ready else 503)

    async def state(self, request: web.Request) -> web.Response:
        """GET /v1/state: what the page shows of the daemon."""
        properties = self._watch.properties
        body = {
            "state": properties.get("State", "unreachable"),
            "queue": properties.get("QueueLength", 0),
            "model": properties.get("Model", ""),
            "sample_rate": properties.get("SampleRate", 0),
            "version": properties.get("Version", ""),
            "formats": list(FORMATS),
        }
        return web.json_response(body, headers={"Cache-Control": "no-store"})

    async def metrics(self, request: web.Request) -> web.Response:
        """GET /metrics."""
        text = self._metrics.text(self._watch.properties, await self._watch.stats())
        return web.Response(text=text, headers={"Content-Type": MEDIA_TYPE})

    async def openapi(self, request: web.Request) -> web.Response:
        """GET /openapi.json."""
        return web.json_response(document())
