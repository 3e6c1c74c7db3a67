"""Errors in the form of the OpenAI API: {"error": {"message", "type", "param", "code"}}."""

from __future__ import annotations

from aiohttp import web

from edgettsd.client import ClientError, DeniedError, RefusedError, UnreachableError

RETRY_SECONDS = 2


class ApiError(Exception):
    """A request that is answered with an error; `param` names the field of the body that is wrong."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers = headers or {}

    def response(self) -> web.Response:
        """The answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        body = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return web.json_response({"error": body}, status=self.status, headers=self.headers)


def of_client(error: ClientError) -> ApiError:
    """What a failed call of the daemon means to the HTTP client."""
    if isinstance(error, RefusedError):
        if error.name == "QueueFull":
            wait = {"Retry-After": str(RETRY_SECONDS)}
            return ApiError(429, str(error), code="rate_limit_exceeded", headers=wait)
        if error.name == "NotReady":
            return ApiError(503, str(error), code="not_ready", headers={"Retry-After": str(RETRY_SECONDS)})
        if error.name == "UnknownVoice":
            return ApiError(400, str(error), param="voice", code="invalid_value")
        if error.name == "InvalidText":
            return ApiError(400, str(error), param="input", code="invalid_value")
        return ApiError(400, str(error), code="invalid_value")
    if isinstance(error, DeniedError):
        return ApiError(503, f"{error}: the gateway's user lacks the group", code="not_permitted")
    if isinstance(error, UnreachableError):
        return ApiError(503, str(error), code="unavailable", headers={"Retry-After": str(RETRY_SECONDS)})
    return ApiError(500, str(error))
