"""The WebSocket door `/ws`: handshake, hello, and then one Connection until somebody leaves."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from app import origins
from app.connection import Closing, Connection, receive_text, visitor_of
from app.desk import Desk
from app.identity import Visitor
from app.protocol import SUBPROTOCOL, VERSION, BadFrame, CloseCode, Hello, parse_client_frame

log = logging.getLogger("frontdesk.socket")

INTERNAL_ERROR: Final = 1011


async def serve(websocket: WebSocket, desk: Desk) -> None:
    """One socket from handshake to close. A page that is not allowed here is refused before (HTTP 403)."""
    headers = websocket.headers
    if not origins.allowed(
        headers.get("origin"), headers.get("host"), websocket.url.scheme, desk.settings.allowed_origins
    ):
        await websocket.close(CloseCode.FORBIDDEN)
        return
    offered = websocket.scope.get("subprotocols") or []
    await websocket.accept(subprotocol=SUBPROTOCOL if SUBPROTOCOL in offered else None)
    try:
        hello, visitor = await _greeting(websocket, desk)
        await _connected(websocket, desk, hello, visitor)
    except Closing as closing:
        await _close(websocket, closing)
    except WebSocketDisconnect:
        return
    except Exception:  # a bug of ours: the visitor's page reconnects, we read the log
        log.exception("a socket failed")
        await _close(websocket, Closing(INTERNAL_ERROR, "internal error"))


async def _connected(websocket: WebSocket, desk: Desk, hello: Hello, visitor: Visitor) -> None:
    if not desk.places.enter(visitor.visitor_id):
        raise Closing(CloseCode.LIMIT, "too many open windows")
    connection = Connection(websocket, desk, hello, visitor)
    desk.sockets.add(connection)
    try:
        await connection.run()
    finally:
        desk.sockets.discard(connection)
        desk.places.leave(visitor.visitor_id)


async def _close(websocket: WebSocket, closing: Closing) -> None:
    log.debug("a socket is closed: %s %s", closing.code, closing.reason)
    try:
        await websocket.close(closing.code, closing.reason)
    except (RuntimeError, OSError, WebSocketDisconnect):
        return  # it is gone already


async def _greeting(websocket: WebSocket, desk: Desk) -> tuple[Hello, Visitor]:
    """The first frame, and who it proves to be."""
    try:
        async with asyncio.timeout(desk.times.hello_s):
            frame = parse_client_frame(await receive_text(websocket))
    except TimeoutError:
        raise Closing(CloseCode.GENERIC, "no hello in time") from None
    except BadFrame as bad:
        raise Closing(CloseCode.BAD_FRAME, _short(bad.message)) from None
    if not isinstance(frame, Hello):
        raise Closing(CloseCode.BAD_FRAME, "the first frame is hello")
    if frame.v != VERSION:
        raise Closing(CloseCode.VERSION, f"this server speaks version {VERSION}")
    visitor = visitor_of(desk, frame.token)
    if frame.conv not in (None, visitor.conversation_id):
        raise Closing(CloseCode.AUTH, "the token is for another conversation")
    return frame, visitor


def _short(reason: str) -> str:
    """A close reason has at most 123 bytes."""
    return reason.encode("ascii", "replace")[:120].decode()
