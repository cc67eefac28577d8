"""Refuses a request body that is too large, in the API's own error shape, before it is read whole."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api_errors import answer

MAX_BODY_BYTES: Final = 64 * 1024  # the longest message fits, with room for its escapes


def _text(limit: int) -> str:
    return f"a request may have {limit} bytes"


class BodyLimit:
    """ASGI middleware. FastAPI's own answers in plain text, and outside of every other middleware."""

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY_BYTES) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdigit() and int(length) > self._limit:
            await answer(413, "too_large", _text(self._limit))(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise HTTPException(413, _text(self._limit))
            return message

        return counted
