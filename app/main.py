"""`create_app(settings)` builds the whole application; nothing happens at import."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI, WebSocket

from app import (
    api,
    api_errors,
    approvals_api,
    events_api,
    offers_api,
    pages,
    runs_api,
    socket,
    timeline_api,
    values_api,
)
from app.body_limit import BodyLimit
from app.building import open_desk
from app.desk import Desk
from app.settings import Settings
from handoffs.hooks import Hook
from handoffs.roster import Roster

Opener = Callable[[Settings], AbstractAsyncContextManager[Desk]]


def create_app(
    settings: Settings,
    *,
    roster: Roster | None = None,
    opener: Opener | None = None,
    on_handoff: Iterable[Hook] = (),
) -> FastAPI:
    """The application. Its parts are opened when the server starts, by `opener`, and closed when it stops.

    `roster` is one that was made in Python (`Roster.from_agents`); without it the agents folder is read.
    `on_handoff` are functions that are called with a HandoffInfo after each step of a handoff.
    """
    opener = opener or functools.partial(open_desk, roster=roster, on_handoff=tuple(on_handoff))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opener(settings) as desk:
            app.state.desk = desk
            yield

    app = FastAPI(
        title="Frontdesk",
        summary="A conversational handoff router: exactly one owner speaks to the customer at any time.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's documentation pages load scripts from other hosts
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    api_errors.install(app)
    app.add_middleware(BodyLimit)
    app.add_middleware(pages.SafeHeaders)  # added last: it is the outermost
    for router in (
        api.widget,
        api.v1,
        approvals_api.router,
        offers_api.router,
        timeline_api.router,
        runs_api.router,
        events_api.router,
        values_api.router,
        api.health,
        pages.pages,
    ):
        app.include_router(router)
    app.mount("/static", pages.static_files(), name="static")

    @app.websocket("/ws")
    async def ws(websocket: WebSocket) -> None:
        await socket.serve(websocket, app.state.desk)

    return app
