"""`GET /v1/conversations/{id}/events`: what happens, as server-sent events, for those who observe.

What is in the log has an id and can be read again from there; what is only shown while it happens has none.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Message, Send

from app.api import TheDesk, need_key
from app.api_errors import Refused, responses
from app.desk import Desk
from app.desk_view import event_view
from app.public_view import iso
from handoffs.record import MARK
from sessions.errors import StoreError
from sessions.model import Ephemeral, Event

log = logging.getLogger("frontdesk.events")

HEARTBEAT_S: Final = 15.0  # a proxy must see something now and then; three of them fit into one look (WATCH_MS)
LAST_ID: Final = re.compile(r"([0-9]{1,16})(\.0)?")
MESSAGES: Final = {"customer": "customer_message", "human": "person_message", "ai": "agent_message"}
SHOWN: Final = {"msg.delta": "response_delta"}  # names of what is not kept; all others are called as they are

router = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))


@router.get(
    "/conversations/{conversation_id}/events",
    responses={
        **responses(404, 422),
        200: {"content": {"text/event-stream": {}}, "description": "events as they happen"},
    },
    response_class=StreamingResponse,
)
async def events(
    conversation_id: str,
    request: Request,
    desk: TheDesk,
    after: Annotated[int, Query(ge=0, description="only what comes behind this seq")] = 0,
    watch: Annotated[bool, Query(description="also how agents work: turn_start, agent_start, agent_end")] = True,
) -> StreamingResponse:
    """Server-sent events after `after`, or after the `Last-Event-ID` of a client that comes back."""
    conversation = await desk.store.get(conversation_id)
    if conversation.status == "forgotten":
        watch = False
    start, half = place(request.headers.get("last-event-id", ""), after)
    return Observed(
        _stream(desk, conversation_id, start, half, watch=watch),
        slow_s=desk.times.slow_s,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def place(last_id: str, after: int) -> tuple[int, int]:
    """The seq to start behind, and the seq of which only the second half (`turn_end`) is still to come; 0: none.

    Raises Refused for a Last-Event-ID that this stream never gave.
    """
    if not last_id:
        return after, 0
    found = LAST_ID.fullmatch(last_id)
    if found is None:
        raise Refused(422, "invalid_request", f"Last-Event-ID: expected an id of this stream, got {last_id[:40]!r}")
    seq = int(found[1])
    return (seq - 1, seq) if found[2] else (seq, 0)


class Observed(StreamingResponse):
    """A stream whose reader is cut off when it takes nothing for `slow_s` seconds: it comes back from its last id."""

    def __init__(self, content: AsyncIterator[str], *, slow_s: float, **more: Any) -> None:
        super().__init__(content, **more)
        self._content = content
        self._slow_s = slow_s

    async def stream_response(self, send: Send) -> None:
        async def in_time(message: Message) -> None:
            async with asyncio.timeout(self._slow_s):
                await send(message)

        try:
            await super().stream_response(in_time)
        except TimeoutError:
            log.info("an observer who took nothing for %g s was cut off", self._slow_s)
        finally:
            await self._content.aclose()  # type: ignore[attr-defined]  # an async generator, which has it


async def _stream(desk: Desk, conversation_id: str, after: int, half: int, *, watch: bool) -> AsyncIterator[str]:
    if watch:
        await desk.store.watch(conversation_id)
    async with desk.live.follow(conversation_id, after, watch=watch) as feed:
        yield ": follow\n\n"
        items = aiter(feed)
        coming = asyncio.ensure_future(anext(items))
        leaving = asyncio.ensure_future(desk.leaving.wait())
        looking = asyncio.ensure_future(_go_on_looking(desk, conversation_id)) if watch else None
        try:
            while not leaving.done():
                done, _ = await asyncio.wait(
                    [coming, leaving], timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    yield ": still here\n\n"
                if coming in done:
                    for text in server_sent(coming.result(), conversation_id, half):
                        yield text
                    coming = asyncio.ensure_future(anext(items))
        finally:
            ending = [task for task in (coming, leaving, looking) if task is not None]
            for task in ending:
                task.cancel()  # the feed's generator ends with it
            await asyncio.gather(*ending, return_exceptions=True)


async def _go_on_looking(desk: Desk, conversation_id: str) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        try:
            await desk.store.watch(conversation_id)
        except StoreError as error:
            log.info("%s: %s", conversation_id, error)


def server_sent(item: Event | Ephemeral, conversation_id: str, half: int = 0) -> Iterator[str]:
    """The messages for one item. An event that ends a run is two: the event itself, then `turn_end`.

    The last message of an event has its seq as id, the first of two has `<seq>.0`.
    """
    if isinstance(item, Ephemeral):
        yield _message(SHOWN.get(item.type, item.type), json.dumps(item.data, ensure_ascii=False))
        return
    if item.seq != half:
        data = event_view(item).model_dump_json(exclude_none=True)
        yield _message(name_of(item), data, f"{item.seq}.0" if item.run else f"{item.seq}")
    if item.run:
        ended = {"run": f"{conversation_id}{MARK}{item.run}", "at": iso(item.at), "epoch": item.epoch}
        yield _message("turn_end", json.dumps(ended), f"{item.seq}")


def name_of(event: Event) -> str:
    """What observers call an event of the log: `agent_message`, `handoff_completed`, `owner_changed` ..."""
    if event.type == "msg.created":
        return MESSAGES.get(event.by.partition(":")[0], "message")
    return event.type.replace(".", "_")


def _message(name: str, data: str, id_: str = "") -> str:
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {name}\ndata: {data}\n\n"
