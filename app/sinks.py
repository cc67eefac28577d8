"""Brings the events of all conversations to a sink: a webhook, a support desk. At least once, and in order.

The log is the queue and the cursor in Redis says how far it was delivered, so a process that dies loses nothing. One
process of the desk delivers; when it dies another one takes over within `LEAD_MS`. A sink that is slow or down holds up
its own conversation and nobody's turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import Protocol

from sessions.errors import Conflict, ConversationClosed, StoreError, UnknownConversation
from sessions.model import Event, Position, ResumeState
from sessions.store import Store

log = logging.getLogger("frontdesk.sinks")

LEAD_MS = 10_000  # another process takes over within this time
SWEEP_S = 3.0  # how late the news of other processes may be; a sweep costs about 25 ms of CPU
OVERLAP_MS = 5_000  # looked at again: a change may become visible a moment after its time
AT_ONCE = 8  # deliveries under way; each is one conversation's
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0  # before a delivery is tried again, doubled each time
GIVE_UP_S = 72 * 3600  # a receiver that was down over a long weekend gets everything
LAG = 500  # events that mean nothing to the sink after which its cursor is moved all the same


class NotDelivered(Exception):
    """The receiver did not take it. `wait_s`: when it asked to be tried again; None: it said nothing."""

    def __init__(self, why: str, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class Sink(Protocol):
    """Where events go. `name` is the cursor's, so it stays the same for ever."""

    name: str

    def wants(self, event: Event) -> bool:
        """Whether this event is delivered."""
        ...

    async def deliver(self, conversation_id: str, event: Event) -> None:
        """Deliver one event, or raise NotDelivered. It may come again: the receiver tells by the event's id."""
        ...


class Deliveries:
    """The process' part in the deliveries to one sink. `start` it, `stop` it."""

    def __init__(self, store: Store, sink: Sink, *, sweep_s: float = SWEEP_S, pause_s: float = FIRST_PAUSE_S) -> None:
        self._store = store
        self._sink = sink
        self._sweep_s = sweep_s
        self._pause_s = pause_s
        self._room = asyncio.Semaphore(AT_ONCE)
        self._busy: dict[str, tuple[asyncio.Task[None], int]] = {}  # conversation -> who works, since which change
        self._done: dict[str, int] = {}  # conversation -> the change up to which all is delivered
        self._sweeper: asyncio.Task[None] | None = None
        self._told: set[str] = set()  # conversations of this process that have news
        self._news_came = asyncio.Event()
        self._since = 0
        self._begun = 0

    async def start(self) -> None:
        """Deliver in the background from now on, when this process is the one."""
        self._sweeper = asyncio.create_task(self._sweep_for_ever(), name=f"frontdesk-sink-{self._sink.name}")

    def news_of(self, conversation_id: str) -> None:
        """This conversation has news: do not wait for the next sweep, if this process delivers. Never waits."""
        if self._begun:
            self._told.add(conversation_id)
            self._news_came.set()

    async def stop(self) -> None:
        """Deliver nothing more; what is under way is given up and comes again from the process that takes over."""
        tasks = [task for task, _ in self._busy.values()] + ([self._sweeper] if self._sweeper else [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._begun:
            try:
                await self._store.lead(self._sink.name, 1)  # at once somebody else's
            except StoreError as error:
                log.info("%s: the lead runs out by itself: %s", self._sink.name, error)

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                if await self._store.lead(self._sink.name, LEAD_MS):
                    await self._sweep()
                else:
                    self._stand_back()
            except StoreError as error:
                log.warning("%s: could not look for news: %s", self._sink.name, error)
            except Exception:  # the sweep must never die silently
                log.exception("%s: looking for news failed", self._sink.name)
            await self._rest(self._sweep_s * random.uniform(0.75, 1.25))  # noqa: S311  # jitter, not a secret

    async def _rest(self, seconds: float) -> None:
        """Until the next sweep; what this process itself hears of meanwhile is brought at once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    await self._news_came.wait()
                    self._news_came.clear()
                    for conversation_id in self._told - self._busy.keys():  # the others: at the sweep
                        self._set_out(conversation_id, self._since, settled=False)
                    self._told.clear()

    def _set_out(self, conversation_id: str, at: int, *, settled: bool) -> None:
        """Bring what is new in a conversation that last changed at `at`."""
        task = asyncio.create_task(self._bring(conversation_id, at, settled=settled))
        self._busy[conversation_id] = (task, at)

    def _stand_back(self) -> None:
        """Another process delivers: what this one was at comes from there."""
        for task, _ in self._busy.values():
            task.cancel()
        self._begun, self._since = 0, 0
        self._done.clear()

    async def _sweep(self) -> None:
        now = await self._store.now()
        if not self._begun:
            place = await self._store.place(self._sink.name, now)
            self._begun, self._since = place.begun, place.since
        changed = await self._store.changed_since(self._since - OVERLAP_MS)
        for conversation_id, at in changed.items():
            if conversation_id not in self._busy and self._done.get(conversation_id) != at:
                self._set_out(conversation_id, at, settled=at < now)
        self._done = {key: at for key, at in self._done.items() if key in changed}
        await self._move_on(now)

    async def _move_on(self, now: int) -> None:
        """Remember that everything before is delivered, so that a start looks at little."""
        since = min([now, *(at for _, at in self._busy.values())])
        if since - self._since > OVERLAP_MS:
            await self._store.move_place(self._sink.name, since)
            self._since = since

    async def _bring(self, conversation_id: str, at: int, *, settled: bool) -> None:
        """Deliver what is new in one conversation. `settled`: a later change cannot have the same time."""
        try:
            await self._bring_all(conversation_id)
            if settled:
                self._done[conversation_id] = at
        except (UnknownConversation, ConversationClosed):  # nothing is left of it
            self._done[conversation_id] = at
        except StoreError as error:
            log.warning("%s: %s: %s", self._sink.name, conversation_id, error)
        except Exception:
            log.exception("%s: %s could not be delivered", self._sink.name, conversation_id)
        finally:
            self._busy.pop(conversation_id, None)

    async def _bring_all(self, conversation_id: str) -> None:
        cursor = await self._store.cursor(conversation_id, self._sink.name)
        at, events = await self._news(conversation_id, cursor)
        while events:
            for event in events:
                if event.at >= self._begun and self._sink.wants(event):
                    await self._deliver(conversation_id, event, before=at)
                    cursor = Position(event.epoch, event.seq)
                    await self._advance(conversation_id, cursor)
                at = Position(event.epoch, event.seq)
            resumed = await self._store.resume(conversation_id, at)
            events = resumed.events
        if at.seq - cursor.seq > LAG:  # so that the next look begins here, and the log may be trimmed
            await self._store.advance_cursor(conversation_id, self._sink.name, at)

    async def _news(self, conversation_id: str, cursor: Position) -> tuple[Position, tuple[Event, ...]]:
        """What came after the cursor. A failover may have lost its event: then what is of a later epoch is new."""
        resumed = await self._store.resume(conversation_id, cursor)
        if resumed.state is ResumeState.OK:
            return cursor, resumed.events
        events = tuple(await self._store.read(conversation_id, 0))
        if resumed.state is ResumeState.TRIMMED:
            return Position(0, 0), tuple(event for event in events if event.seq > cursor.seq)
        log.warning("%s: %s: the log is not the one that was delivered", self._sink.name, conversation_id)
        await self._store.drop_cursor(conversation_id, self._sink.name)
        return Position(0, 0), tuple(event for event in events if event.epoch > cursor.epoch)

    async def _advance(self, conversation_id: str, delivered: Position) -> None:
        try:
            await self._store.advance_cursor(conversation_id, self._sink.name, delivered)
        except Conflict:  # a failover has just lost the event; it was delivered, and whatever follows is new
            log.warning("%s: %s: %s is not in the log any more", self._sink.name, conversation_id, delivered)

    async def _deliver(self, conversation_id: str, event: Event, before: Position) -> None:
        """Deliver one event, however often it takes. The log keeps it: the cursor stands at `before`."""
        pause, first = self._pause_s, True
        while True:
            try:
                async with self._room:
                    return await self._sink.deliver(conversation_id, event)
            except NotDelivered as refused:
                wait = max(pause * random.uniform(0.5, 1), refused.wait_s or 0)  # noqa: S311  # jitter, not a secret
                name, why = self._sink.name, refused
            if await self._store.now() - event.at > GIVE_UP_S * 1000:
                log.error("%s: %s %s was given up: %s", name, conversation_id, event.id, why)
                return None
            log.warning("%s: %s %s comes again in %.0f s: %s", name, conversation_id, event.id, wait, why)
            if first and before != Position(0, 0):
                await self._advance(conversation_id, before)
            first, pause = False, min(2 * pause, LONGEST_PAUSE_S)
            await asyncio.sleep(min(wait, LONGEST_PAUSE_S))
