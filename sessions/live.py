"""Live: what happens in a conversation, as it happens. The log is the truth, pub/sub only wakes the reader up.

One pub/sub connection per process. A reader that lost its connection, or fell behind, reads the log again.
The process also listens to itself: a connection can be open and deaf (a frozen server, a master that was replaced).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from redis.asyncio.client import PubSub

from sessions import replies
from sessions.cancellation import obedient
from sessions.connect import Backend
from sessions.errors import StoreError, StoreUnavailable
from sessions.failures import FAILURES
from sessions.keys import PREFIX, READY_CHANNEL, REVOKED_CHANNEL, Keys
from sessions.model import Ephemeral, Event
from sessions.store import Store

log = logging.getLogger("frontdesk.live")

ENDED = 64  # newest messages whose late pieces are recognised; only those around one reading of the log can be late
FEED_LIMIT = 1000  # items a slow reader may be behind before it must read the log instead
POSITION_CHECK_S = 15.0  # a lost last message is found within this time (jittered, so that readers do not march)
RECONNECT_S = 0.25  # between two tries to reach Redis
CONNECT_S = 5.0  # a frozen server takes connections and never answers
START_S = 10.0  # how long `start` waits to be heard
BEAT_S = 2.0  # how often the process says something to itself
SILENT_S = 6.0  # without hearing it for so long, the connection counts as lost


class Feed:
    """One reader of one conversation: iterate it for gapless events after `after_seq`, and ephemerals in between."""

    def __init__(self, store: Store, conversation_id: str, after_seq: int) -> None:
        self.conversation_id = conversation_id
        self.seq = after_seq
        self._store = store
        self._queue: asyncio.Queue[Event | Ephemeral | None] = asyncio.Queue(FEED_LIMIT)
        self._dirty = True  # the log must be read before anything else is believed
        self._ended: deque[str] = deque(maxlen=ENDED)  # messages that are whole, or were taken back

    def push(self, item: Event | Ephemeral) -> None:
        """Called by the reader task; never waits."""
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            while not self._queue.empty():
                self._queue.get_nowait()
            self.mark_dirty()

    def mark_dirty(self) -> None:
        """Something may have been missed: read the log at the next step."""
        self._dirty = True
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Event | Ephemeral]:
        while True:
            if self._dirty:
                self._dirty = False
                async for event in self._from_log():
                    self._note(event)
                    yield event
                continue
            item = await self._next()
            if item is None:
                self._dirty = True
            elif isinstance(item, Ephemeral):
                if item.data.get("mid") not in self._ended:
                    yield item
            elif item.seq == self.seq + 1:
                self.seq = item.seq
                self._note(item)
                yield item
            elif item.seq > self.seq:
                self._dirty = True

    def _note(self, event: Event) -> None:
        """A piece that waited in the queue while the log was read must not follow the end of its message.

        Else a late reader would be shown a draft that was taken back when somebody else became the owner.
        """
        if event.type in ("msg.created", "msg.retracted"):
            self._ended.append(str(event.data.get("id")))

    async def _next(self) -> Event | Ephemeral | None:
        wait_s = POSITION_CHECK_S * random.uniform(0.75, 1.25)  # noqa: S311  # jitter, not a secret
        try:
            async with asyncio.timeout(wait_s):
                return await self._queue.get()
        except TimeoutError:
            return None

    async def _from_log(self) -> AsyncIterator[Event]:
        while True:
            try:
                found = await self._store.read(self.conversation_id, self.seq)
            except StoreError:
                await asyncio.sleep(RECONNECT_S)
                continue
            for event in found:
                self.seq = event.seq
                yield event
            return


class Live:
    """The process' one pub/sub reader. `start` before use; `healthy` is False while Redis cannot be heard."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self._backend = backend
        self._store = store
        self._feeds: dict[str, set[Feed]] = {}
        self._confirmed: dict[str, asyncio.Event] = {}
        self._callbacks: dict[str, list[Callable[[str], None]]] = {READY_CHANNEL: [], REVOKED_CHANNEL: []}
        self._beat_channel = f"{PREFIX}:beat:{secrets.token_hex(8)}"
        self._heard = 0.0  # when the last beat came, by the loop's clock
        self._pubsub: PubSub | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.healthy = False

    def on_ready(self, callback: Callable[[str], None]) -> None:
        """Call `callback("<conversation id> <owner id>")` when some gateway says that a conversation has work."""
        self._callbacks[READY_CHANNEL].append(callback)

    def on_revoked(self, callback: Callable[[str], None]) -> None:
        """Call `callback(conversation_id)` when somebody took a conversation from whoever was running its turn."""
        self._callbacks[REVOKED_CHANNEL].append(callback)

    async def start(self) -> None:
        """Connect and listen in the background; returns when Redis confirmed. StoreUnavailable when it does not."""
        ready = self._confirmed[READY_CHANNEL] = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._run(), name="frontdesk-live"),
            asyncio.create_task(self._beat(), name="frontdesk-beat"),
        ]
        try:
            async with asyncio.timeout(START_S):
                await ready.wait()
        except TimeoutError:
            await self.stop()
            raise StoreUnavailable(f"nothing is heard from Redis within {START_S:.0f} s (pub/sub)") from None

    async def stop(self) -> None:
        """Stop listening; feeds get nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.healthy = False

    @asynccontextmanager
    async def follow(self, conversation_id: str, after_seq: int = 0, *, watch: bool = False) -> AsyncIterator[Feed]:
        """A feed of one conversation, already subscribed, so nothing falls between the log and the live events.

        With `watch` it also has what is for observers only (sessions/watching.py). Never for a customer.
        """
        keys = Keys.of(conversation_id)
        feed = Feed(self._store, conversation_id, after_seq)
        async with self._fed(keys.channel, feed), AsyncExitStack() as more:
            if watch:
                await more.enter_async_context(self._fed(keys.watchers, feed))
            yield feed

    @asynccontextmanager
    async def _fed(self, channel: str, feed: Feed) -> AsyncIterator[None]:
        feeds = self._feeds.setdefault(channel, set())
        feeds.add(feed)
        try:
            await self._subscribed(channel)
            yield
        finally:
            feeds.discard(feed)
            if not feeds and self._feeds.get(channel) is feeds:
                await self._forget(channel)

    async def _subscribed(self, channel: str) -> None:
        confirmed = self._confirmed.get(channel)
        if confirmed is None:
            confirmed = self._confirmed[channel] = asyncio.Event()
            await self._tell("SUBSCRIBE", channel)
        with contextlib.suppress(TimeoutError):  # not confirmed: the feed reads the log, and again on each check
            async with asyncio.timeout(5):
                await confirmed.wait()

    async def _forget(self, channel: str) -> None:
        self._feeds.pop(channel, None)
        self._confirmed.pop(channel, None)
        await self._tell("UNSUBSCRIBE", channel)
        if channel in self._feeds:  # somebody came back while we were leaving
            await self._tell("SUBSCRIBE", channel)

    async def _tell(self, command: str, channel: str) -> None:
        """Say something on the reader's connection; without one, the reader says it all when it connects again.

        PubSub.subscribe would connect again by itself when the connection is lost, while the reader reads from it.
        """
        connection = self._pubsub.connection if self._pubsub is not None else None
        if connection is not None and connection.is_connected:
            with contextlib.suppress(*FAILURES):
                await obedient(connection.send_command(command, channel, check_health=False))

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except asyncio.CancelledError:
                raise
            except FAILURES as error:
                if self.healthy:  # told once, not at each try
                    log.warning("lost the live connection to Redis: %s", str(error) or type(error).__name__)
            except Exception:  # the reader must never die silently: the process would be deaf and look healthy
                log.exception("the live reader failed and starts again")
            self.healthy = False
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        pubsub: PubSub | None = None
        try:
            async with asyncio.timeout(CONNECT_S):
                pubsub = await obedient(self._backend.pubsub())
                known = [*self._callbacks, *self._feeds]
                await obedient(pubsub.subscribe(*known, self._beat_channel))  # ours last: then all are confirmed
                self._pubsub = pubsub
                for channel in self._feeds.keys() - set(known):  # somebody came while we were connecting
                    await self._tell("SUBSCRIBE", channel)
            self._heard = asyncio.get_running_loop().time()
            while True:
                async with asyncio.timeout(BEAT_S + CONNECT_S):  # a lost connection is renewed inside before it is told
                    message = await obedient(pubsub.get_message(ignore_subscribe_messages=False, timeout=BEAT_S))
                if message is not None:
                    self._dispatch(message)
                if asyncio.get_running_loop().time() - self._heard > SILENT_S:
                    raise TimeoutError(f"nothing was heard for {SILENT_S:.0f} s")
        finally:
            self._pubsub = None
            if pubsub is not None:
                with contextlib.suppress(*FAILURES):
                    await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped

    async def _beat(self) -> None:
        """Say something to ourselves the way that events come: through the master, and whatever nodes lie between."""
        while True:
            await asyncio.sleep(BEAT_S)
            with contextlib.suppress(*FAILURES):  # then it is not heard either
                async with asyncio.timeout(BEAT_S):
                    await obedient(self._backend.cmd.publish(self._beat_channel, ""))

    def _dispatch(self, message: dict[str, Any]) -> None:
        channel = message["channel"]
        if channel == self._beat_channel:
            self._heard = asyncio.get_running_loop().time()
            if message["type"] == "subscribe":
                self.healthy = True
        elif message["type"] == "subscribe":
            if channel in self._confirmed:
                self._confirmed[channel].set()
            for feed in self._feeds.get(channel, ()):  # what came before nobody has heard; it is in the log
                feed.mark_dirty()
        elif message["type"] == "message" and channel in self._callbacks:
            for callback in self._callbacks[channel]:
                callback(message["data"])
        elif message["type"] == "message":
            items = parse(message["data"])
            for feed in self._feeds.get(channel, ()):
                for item in items:
                    feed.push(item)


def parse(payload: str) -> list[Event | Ephemeral]:
    """What was published: an event (lua/lib.lua `append`), an ephemeral, or several that only observers get."""
    row = json.loads(payload)
    if row[0] == "E":
        return [replies.published_event(row)]
    if row[0] == "W":
        return [Ephemeral(type_, data) for type_, data in row[1:]]
    return [Ephemeral(row[1], row[2])]
