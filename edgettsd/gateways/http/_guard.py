"""Who may ask, and how much at once: names of the host, origins, the token, connections."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

from aiohttp import web

from edgettsd.client import ClientError
from edgettsd.gateways.http import _errors
from edgettsd.gateways.http._errors import RETRY_SECONDS, ApiError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# What anybody may read: a probe has no token, and the page asks for it.
OPEN_PATHS = ("/health", "/", "/page.js", "/page.css")
# No page of another site can send this without a preflight, which is answered for configured origins alone.
_JSON = "application/json"
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "media-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Guard:
    """A middleware. `hosts` are names beside loopback addresses under which the gateway may be asked."""

    def __init__(
        self,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        token: str = "",
        requests: int = 16,
    ) -> None:
        self._hosts = {host.casefold() for host in hosts}
        self._origins = set(origins)
        self._token = token
        self._limit = requests
        self._busy = 0

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse what is not allowed, and turn errors into answers."""
        try:
            self._check(request)
            if request.method == "OPTIONS":
                response: web.StreamResponse = self._preflight(request)
            else:
                response = await self._counted(request, handler)
        except ApiError as error:
            response = error.response()
        except ClientError as error:
            response = _errors.of_client(error).response()
        except web.HTTPRequestEntityTooLarge as error:
            response = ApiError(413, f"the body is too large: {error.text}", code="too_large").response()
        except web.HTTPException as error:
            response = ApiError(error.status, f"{request.method} {request.path}: {error.reason}").response()
        if not response.prepared:
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            response.headers.setdefault("Content-Security-Policy", _CSP)
            response.headers.setdefault("Referrer-Policy", "no-referrer")
            self._allow(request, response)
        return response

    async def on_prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        """A signal of aiohttp: answers that are sent piece by piece get their headers here."""
        self._allow(request, response)

    def _allow(self, request: web.Request, response: web.StreamResponse) -> None:
        """Let the browser give the answer to a page of a configured origin."""
        origin = request.headers.get("Origin", "")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Vary"] = "Origin"

    def _preflight(self, request: web.Request) -> web.Response:
        """The answer to a browser that asks for a page of another origin."""
        if request.headers.get("Origin", "") not in self._origins:
            raise ApiError(405, "OPTIONS is for pages of configured origins ([http] origins)")
        headers = {
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Max-Age": "600",
        }
        return web.Response(status=204, headers=headers)

    def _check(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        if not self._knows(host):
            raise ApiError(421, f"host {host!r} is not one of this gateway's ([http] hosts)", code="bad_host")
        origin = request.headers.get("Origin")
        if origin is not None and origin not in self._origins and urlsplit(origin).netloc != host:
            raise ApiError(403, f"origin {origin!r} may not use this gateway", code="bad_origin")
        is_open = request.path in OPEN_PATHS or request.method == "OPTIONS"
        if self._token and not is_open and not self._has_token(request):
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, "a valid bearer token is needed", code="invalid_api_key", headers=headers)
        if request.method == "POST" and request.content_type != _JSON:
            raise ApiError(
                415, f"Content-Type is {request.content_type}: allowed is {_JSON}", code="bad_type"
            )

    def _has_token(self, request: web.Request) -> bool:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return kind.lower() == "bearer" and hmac.compare_digest(given, self._token.encode())

    def _knows(self, host: str) -> bool:
        """Whether a Host header names this gateway: another name is one that somebody's DNS points here."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").casefold()
        except ValueError:
            return False
        if name == "localhost" or name in self._hosts:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    async def _counted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method != "POST":
            return await handler(request)
        if self._busy >= self._limit:
            headers = {"Retry-After": str(RETRY_SECONDS)}
            raise ApiError(
                429,
                f"{self._busy} requests are being served; the limit is {self._limit}",
                code="rate_limit_exceeded",
                headers=headers,
            )
        self._busy += 1
        try:
            return await handler(request)
        finally:
            self._busy -= 1
