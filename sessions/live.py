"""Live: what happens in a conversation, as it happens. The log is the truth, pub/sub only wakes the reader up.

One pub/sub connection per process. A reader that lost its connection, or fell behind, reads the log again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import RedisError

from sessions import replies
from sessions.connect import Backend
from sessions.errors import StoreError
from sessions.keys import READY_CHANNEL, REVOKED_CHANNEL, Keys
from sessions.model import Ephemeral, Event
from sessions.store import Store

log = logging.getLogger("frontdesk.live")

FEED_LIMIT = 1000  # items a slow reader may be behind before it must read the log instead
POSITION_CHECK_S = 15.0  # a lost last message is found within this time (jittered, so that readers do not march)
RECONNECT_S = 0.25  # between two tries to reach Redis


class Feed:
    """One reader of one conversation: iterate it for gapless events after `after_seq`, and ephemerals in between."""

    def __init__(self, store: Store, conversation_id: str, after_seq: int) -> None:
        self.conversation_id = conversation_id
        self.seq = after_seq
        self._store = store
        self._queue: asyncio.Queue[Event | Ephemeral | None] = asyncio.Queue(FEED_LIMIT)
        self._dirty = True  # the log must be read before anything else is believed

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
                    yield event
                continue
            item = await self._next()
            if item is None:
                self._dirty = True
            elif isinstance(item, Ephemeral):
                yield item
            elif item.seq == self.seq + 1:
                self.seq = item.seq
                yield item
            elif item.seq > self.seq:
                self._dirty = True

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
        self._client = backend.blk
        self._store = store
        self._feeds: dict[str, set[Feed]] = {}
        self._confirmed: dict[str, asyncio.Event] = {}
        self._callbacks: dict[str, list[Callable[[str], None]]] = {READY_CHANNEL: [], REVOKED_CHANNEL: []}
        self._pubsub: Any = None
        self._task: asyncio.Task[None] | None = None
        self.healthy = False

    def on_ready(self, callback: Callable[[str], None]) -> None:
        """Call `callback(conversation_id)` when some gateway says that a conversation has work."""
        self._callbacks[READY_CHANNEL].append(callback)

    def on_revoked(self, callback: Callable[[str], None]) -> None:
        """Call `callback(conversation_id)` when somebody took a conversation from whoever was running its turn."""
        self._callbacks[REVOKED_CHANNEL].append(callback)

    async def start(self) -> None:
        """Connect and listen in the background; returns when Redis confirmed."""
        ready = self._confirmed[READY_CHANNEL] = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="frontdesk-live")
        async with asyncio.timeout(10):
            await ready.wait()

    async def stop(self) -> None:
        """Stop listening; feeds get nothing more."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.healthy = False

    @asynccontextmanager
    async def follow(self, conversation_id: str, after_seq: int = 0) -> AsyncIterator[Feed]:
        """A feed of one conversation, already subscribed, so nothing falls between the log and the live events."""
        channel = Keys.of(conversation_id).channel
        feed = Feed(self._store, conversation_id, after_seq)
        feeds = self._feeds.setdefault(channel, set())
        feeds.add(feed)
        try:
            await self._subscribed(channel)
            yield feed
        finally:
            feeds.discard(feed)
            if not feeds and self._feeds.get(channel) is feeds:
                await self._forget(channel)

    async def _subscribed(self, channel: str) -> None:
        confirmed = self._confirmed.get(channel)
        if confirmed is None:
            confirmed = self._confirmed[channel] = asyncio.Event()
            with contextlib.suppress(RedisError, OSError):  # the reader subscribes to everything when it reconnects
                if self._pubsub is not None:
                    await self._pubsub.subscribe(channel)
        with contextlib.suppress(TimeoutError):  # not confirmed: the feed reads the log, and again on each check
            async with asyncio.timeout(5):
                await confirmed.wait()

    async def _forget(self, channel: str) -> None:
        self._feeds.pop(channel, None)
        self._confirmed.pop(channel, None)
        with contextlib.suppress(RedisError, OSError):
            if self._pubsub is not None:
                await self._pubsub.unsubscribe(channel)
        if channel in self._feeds and self._pubsub is not None:  # somebody came back while we were leaving
            with contextlib.suppress(RedisError, OSError):
                await self._pubsub.subscribe(channel)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except asyncio.CancelledError:
                raise
            except (RedisError, OSError) as error:
                log.warning("lost the live connection to Redis: %s", error)
            except Exception:  # the reader must never die silently: the process would be deaf and look healthy
                log.exception("the live reader failed and starts again")
            self.healthy = False
            await asyncio.sleep(RECONNECT_S)

    async def _listen(self) -> None:
        pubsub = self._client.pubsub()
        try:
            await pubsub.subscribe(*self._callbacks, *self._feeds)
            self._pubsub = pubsub
            self.healthy = True
            for feeds in self._feeds.values():  # whatever came while nobody listened is in the log
                for feed in feeds:
                    feed.mark_dirty()
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=False, timeout=None)
                if message is not None:
                    self._dispatch(message)
        finally:
            self._pubsub = None
            with contextlib.suppress(RedisError, OSError):
                await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped

    def _dispatch(self, message: dict[str, Any]) -> None:
        channel = message["channel"]
        if message["type"] == "subscribe":
            if channel in self._confirmed:
                self._confirmed[channel].set()
        elif message["type"] == "message" and channel in self._callbacks:
            for callback in self._callbacks[channel]:
                callback(message["data"])
        elif message["type"] == "message":
            item = parse(message["data"])
            for feed in self._feeds.get(channel, ()):
                feed.push(item)


def parse(payload: str) -> Event | Ephemeral:
    """What was published: an event (lua/lib.lua `append`) or an ephemeral."""
    row = json.loads(payload)
    if row[0] == "E":
        return replies.published_event(row)
    return Ephemeral(row[1], row[2])
