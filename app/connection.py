"""One open socket of a visitor who is known: one conversation, the frames of app/protocol.py.

Four tasks: `_read` (client frames), `_pump` (the conversation's live feed), `_watch` (silence, expiry) and `_write`,
the only one that sends. The first to end closes the socket. A message is acknowledged after the store has it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any, Final, cast

from fastapi import WebSocket
from redis.exceptions import RedisError
from starlette.websockets import WebSocketDisconnect

from app import language
from app.desk import Desk
from app.identity import IdentityError, TokenExpired, Visitor, new_id
from app.limits import TokenBucket
from app.lineage import Resume, decide_resume, lineage
from app.outbox import Outbox, SlowClient
from app.protocol import (
    Ack,
    Auth,
    BadFrame,
    Bye,
    ClientFrame,
    ClientTyping,
    CloseCode,
    Draft,
    Eph,
    Err,
    ErrCode,
    Hello,
    Human,
    Live,
    Ping,
    Pong,
    Send,
    ServerFrame,
    ServerPing,
    ServerPong,
    Stop,
    Sync,
    Welcome,
    encode,
    parse_client_frame,
)
from app.public_view import owner_party, public_ephemeral, public_event, snapshot
from app.refusals import of_error, refused
from handoffs.router import CustomerMessage, message_id
from sessions.errors import ConversationForgotten, FrontdeskError, StoreRefused, StoreUnavailable
from sessions.model import Conversation, Ephemeral, Event, OwnerKind

log = logging.getLogger("frontdesk.socket")

TRY_AGAIN_LATER: Final = 1013  # the store does not answer; the client reconnects
BAD_FRAMES_ALLOWED: Final = 5  # a client with more of them is broken or hostile
UNACKED_EVENTS: Final = 500  # events sent and not acknowledged
SNAPSHOT_EVENTS: Final = 300  # read for the 50 newest visible ones
FLUSH_S: Final = 1.0  # to send what explains a close
TYPING_BURST, TYPING_PER_S = 3, 1 / 3


class Closing(Exception):
    """Close the socket with this code; `flush`: send first what is queued."""

    def __init__(self, code: int, reason: str, *, flush: bool = True) -> None:
        super().__init__(reason)
        self.code = int(code)
        self.reason = reason
        self.flush = flush


async def receive_text(websocket: WebSocket) -> str:
    """The next text frame; WebSocketDisconnect when there is none any more."""
    message = await websocket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005), message.get("reason"))
    text = message.get("text")
    if not isinstance(text, str):
        raise Closing(CloseCode.BAD_FRAME, "frames are text")
    return text


def visitor_of(desk: Desk, token: str) -> Visitor:
    """Who the token names; Closing says what to do when it names nobody."""
    try:
        return desk.identity.verify(token)
    except TokenExpired:
        raise Closing(CloseCode.TOKEN_EXPIRED, "the token has expired") from None
    except IdentityError:
        raise Closing(CloseCode.AUTH, "the token is not valid") from None


async def first_to_end(*works: Coroutine[Any, Any, None]) -> None:
    """Run all; when one ends, cancel the others, and raise what it raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


class Connection:
    """One open socket of a visitor who is known."""

    def __init__(self, websocket: WebSocket, desk: Desk, hello: Hello, visitor: Visitor) -> None:
        self._websocket = websocket
        self._desk = desk
        self._hello = hello
        self._visitor = visitor
        self._cid = visitor.conversation_id
        self._language = language.offered(hello.lang, desk.roster.desk.languages)
        self._names = desk.names(self._language)
        self._outbox = Outbox()
        self._typing = TokenBucket(TYPING_BURST, TYPING_PER_S)
        self._heard_at = time.monotonic()
        self._acked = 0
        self._bad_frames = 0

    async def run(self) -> None:
        """Until somebody leaves; Closing says with which code."""
        try:
            await first_to_end(self._read(), self._pump(), self._watch(), self._write())
        except Closing as closing:
            if closing.flush:
                await self._flush()
            raise
        except SlowClient:
            raise Closing(CloseCode.SLOW, "the client does not read", flush=False) from None
        except ConversationForgotten:
            raise Closing(CloseCode.GONE, "this conversation does not exist any more") from None
        except (StoreUnavailable, StoreRefused, RedisError) as error:
            log.warning("conversation %s: a socket is closed: %s", self._cid, error)
            raise Closing(TRY_AGAIN_LATER, "the store does not answer") from None

    async def say_goodbye(self) -> None:
        """Tell the client to come back in a moment."""
        self._outbox.answer(encode(Bye()))

    # -- what goes out -------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            while True:
                await self._websocket.send_text(await self._outbox.take())
        except (RuntimeError, OSError):
            raise WebSocketDisconnect(1006) from None

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_S):
                while len(self._outbox):
                    await self._websocket.send_text(await self._outbox.take())
        except (RuntimeError, OSError, WebSocketDisconnect):  # TimeoutError is an OSError
            return

    def _answer(self, frame: ServerFrame) -> None:
        self._outbox.answer(encode(frame))

    async def _pump(self) -> None:
        """Welcome, then the replay or a snapshot, then what happens."""
        conversation = await self._desk.look(self._cid)
        replid = await self._desk.replication_id()
        current = lineage(conversation.born, replid)
        resume = decide_resume(self._hello.epoch, self._hello.seq, current=current, top=conversation.seq)
        if resume.replay and not await self._has_all(resume):
            resume = Resume(conversation.seq, 0, "trimmed")
        self._acked = max(resume.after, conversation.seq)
        async with self._desk.live.follow(self._cid, resume.after) as feed:
            await self._begin(conversation, resume, current)
            at_replay_end = resume.replay == 0
            async with aclosing(cast(AsyncGenerator[Event | Ephemeral], aiter(feed))) as items:
                async for item in items:
                    if isinstance(item, Ephemeral):
                        self._show(item)
                        continue
                    await self._deliver(item, current, replid)
                    if not at_replay_end and item.seq >= conversation.seq:
                        at_replay_end = True
                        await self._outbox.deliver(encode(Live()))

    async def _begin(self, conversation: Conversation, resume: Resume, current: str) -> None:
        newest: list[Event] = []
        if not resume.recovered or conversation.owner.kind is OwnerKind.HUMAN:
            newest = await self._desk.store.read(self._cid, max(0, conversation.seq - SNAPSHOT_EVENTS))
        await self._outbox.deliver(
            encode(
                Welcome(
                    conn=new_id("k"),
                    conv=self._cid,
                    epoch=current,
                    seq=conversation.seq,
                    recovered=resume.recovered,
                    replay=resume.replay,
                    ping=int(self._desk.times.ping_s),
                    owner=owner_party(conversation, newest, self._names),
                    status=conversation.status,
                    limits=self._desk.limits,
                    model=self._desk.model,
                )
            )
        )
        if resume.reason is not None:
            drafts = await self._drafts()
            frame = snapshot(conversation, newest, drafts, resume.reason, current, self._names)
            await self._outbox.deliver(encode(frame))
        if resume.replay == 0:
            await self._outbox.deliver(encode(Live()))

    async def _has_all(self, resume: Resume) -> bool:
        """Whether the log still begins early enough for this replay."""
        missed = await self._desk.store.read(self._cid, resume.after, resume.replay)
        return bool(missed) and missed[0].seq == resume.after + 1

    async def _drafts(self) -> list[Draft]:
        mid, text = await self._desk.store.draft(self._cid)
        return [Draft(mid=mid, text=text, off=len(text))] if mid else []

    async def _deliver(self, event: Event, current: str, replid: str) -> None:
        if event.seq == 1:  # the log was born while we looked; its epoch is known only now
            current = lineage((await self._desk.look(self._cid)).born, replid)
        await self._outbox.deliver(encode(public_event(event, self._names, lineage=current)))
        if event.seq - self._acked > UNACKED_EVENTS:
            raise SlowClient

    def _show(self, item: Ephemeral) -> None:
        frame = public_ephemeral(item, self._names)
        if frame is not None:
            self._outbox.show(encode(frame))

    async def _watch(self) -> None:
        """Ping; notice a ping that stays without any answer, and a token that has run out."""
        times = self._desk.times
        pinged_at, waiting = time.monotonic(), False
        while True:
            await asyncio.sleep(min(times.ping_s, times.pong_s) / 2)
            now = time.monotonic()
            waiting = waiting and self._heard_at < pinged_at
            if waiting and now - pinged_at > times.pong_s:
                raise Closing(CloseCode.PONG_TIMEOUT, "no answer to ping", flush=False)
            if time.time() > self._visitor.expires_at:
                raise Closing(CloseCode.TOKEN_EXPIRED, "the token has expired")
            if not waiting and now - pinged_at >= times.ping_s:
                pinged_at, waiting = now, True
                self._answer(ServerPing())

    # -- what comes in -------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            text = await receive_text(self._websocket)
            self._heard_at = time.monotonic()
            try:
                frame = parse_client_frame(text)
            except BadFrame as bad:
                self._complain(bad)
                continue
            await self._handle(frame)

    def _complain(self, bad: BadFrame) -> None:
        self._answer(Err(re=bad.re, code=bad.code, message=bad.message, field=bad.field))
        if bad.code is ErrCode.UNKNOWN_TYPE:  # a newer client
            return
        self._bad_frames += 1
        if self._bad_frames > BAD_FRAMES_ALLOWED:
            raise Closing(CloseCode.BAD_FRAME, "too many bad frames")

    async def _handle(self, frame: ClientFrame) -> None:
        match frame:
            case Send():
                await self._send(frame)
            case Ping():
                self._answer(ServerPong(n=frame.n))
            case Pong():
                self._note_ack(frame.ack)
            case Sync():
                await self._sync(frame)
            case ClientTyping():
                await self._typed(frame)
            case Auth():
                self._authenticate(frame)
            case Human() | Stop():
                self._answer(Err(re=frame.id, code=ErrCode.UNSUPPORTED, message=f"{frame.t} is not offered here yet"))
            case Hello():
                self._answer(Err(code=ErrCode.BAD_FRAME, message="hello comes once", field="t"))

    def _note_ack(self, seq: int | None) -> None:
        if seq is not None:
            self._acked = max(self._acked, seq)

    async def _send(self, frame: Send) -> None:
        self._note_ack(frame.ack)
        limit = self._desk.limits.text_chars
        if len(frame.text) > limit:
            text = f"a message may have {limit} characters"
            return self._answer(refused(frame.id, ErrCode.TEXT_TOO_LONG, text, field="text"))
        wait_ms = self._desk.sends.take(self._visitor.visitor_id)
        if wait_ms:
            return self._answer(refused(frame.id, ErrCode.RATE_LIMITED, "too many messages", after_ms=wait_ms))
        try:
            self._answer(await self._enqueue(frame))
        except FrontdeskError as error:
            log.warning("conversation %s: message %s was not taken: %s", self._cid, frame.cid, error)
            self._answer(of_error(frame.id, error))

    async def _enqueue(self, frame: Send) -> Ack:
        own_id = message_id(self._cid, frame.cid)  # a cid may have characters that an id of the store may not
        message = CustomerMessage(own_id, frame.text, self._language, frame.cid, self._visitor.visitor_id)
        receipt = await self._desk.router.receive(self._cid, message)
        return Ack(re=frame.id, cid=frame.cid, mid=receipt.message_id, seq=receipt.seq, dup=receipt.duplicate)

    async def _sync(self, frame: Sync) -> None:
        for draft in await self._drafts():
            if draft.mid == frame.mid:
                self._answer(Eph(e="msg.delta", mid=draft.mid, off=0, d=draft.text))

    async def _typed(self, frame: ClientTyping) -> None:
        if self._typing.take() == 0:
            shown = Ephemeral("typing", {"by": {"kind": "customer"}, "on": frame.on})
            await self._desk.store.publish(self._cid, shown)

    def _authenticate(self, frame: Auth) -> None:
        fresh = visitor_of(self._desk, frame.token)
        if (fresh.visitor_id, fresh.conversation_id) != (self._visitor.visitor_id, self._cid):
            raise Closing(CloseCode.AUTH, "the token is for another conversation")
        self._visitor = fresh
