"""The web pages, and the headers that keep them safe: strict CSP, no foreign origin, nothing inline, Trusted Types."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

STATIC: Final = Path(__file__).parent / "static"
PAGE_CSP: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",  # no policy at all: nothing here turns text into markup
    ]
)
HEADERS: Final = {
    "Content-Security-Policy": PAGE_CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
WIDGET_PATHS: Final = "/static/widget/"  # what other sites may load

pages = APIRouter(include_in_schema=False)


@pages.get("/")
async def chat_page() -> FileResponse:
    """The chat, full page."""
    return FileResponse(STATIC / "chat.html", headers={"Cache-Control": "no-cache"})


@pages.get("/desk")
async def desk_page() -> FileResponse:
    """The page for support people."""
    return FileResponse(STATIC / "desk.html", headers={"Cache-Control": "no-cache"})


@pages.get("/favicon.ico")
async def icon() -> FileResponse:
    """The bell."""
    return FileResponse(STATIC / "bell.svg", media_type="image/svg+xml")


def static_files() -> StaticFiles:
    """Scripts, styles and images of the pages and the widget."""
    return StaticFiles(directory=STATIC)


class SafeHeaders:
    """Adds the headers above to every HTTP answer; the widget's files may also be loaded by other sites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith(WIDGET_PATHS):
                    headers["Access-Control-Allow-Origin"] = "*"
                    headers["Cross-Origin-Resource-Policy"] = "cross-origin"
                if scope["path"].startswith("/static/"):
                    headers.setdefault("Cache-Control", "no-cache")  # ETags make it cheap, updates arrive at once
            await send(message)

        await self._app(scope, receive, with_headers)
