"""Live feeds over a real Valkey: gapless, replayed, and not deaf after a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import RedisCluster

from sessions.live import Feed, Live
from sessions.model import Ephemeral, Event, Owner
from sessions.store import Store
from tests.support import wait_until

TRIAGE = Owner.ai("triage")


@asynccontextmanager
async def collecting(live: Live, conversation_id: str, after_seq: int = 0) -> AsyncIterator[list[Event | Ephemeral]]:
    """Everything that a feed gives, while the block runs."""
    seen: list[Event | Ephemeral] = []
    ready = asyncio.Event()

    async def collect() -> None:
        async with live.follow(conversation_id, after_seq) as feed:
            ready.set()
            async for item in feed:
                seen.append(item)

    task = asyncio.create_task(collect())
    await ready.wait()
    yield seen
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def seqs(seen: list[Event | Ephemeral]) -> list[int]:
    return [item.seq for item in seen if isinstance(item, Event)]


async def say(store: Store, conversation_id: str, number: int) -> None:
    await store.enqueue(conversation_id, f"m{number}", {"text": str(number)}, start=TRIAGE)


async def test_feed_replays_what_was_missed_and_goes_on_live(store: Store, live: Live, conversation_id: str) -> None:
    """A reader that knows seq 2 gets 3 from the log and 4 as it happens."""
    for number in (1, 2, 3):
        await say(store, conversation_id, number)

    async with collecting(live, conversation_id, after_seq=2) as seen:
        await wait_until("the missed event comes", lambda: seqs(seen) == [3])
        await say(store, conversation_id, 4)
        await wait_until("the new event comes", lambda: seqs(seen) == [3, 4])


async def test_ephemerals_arrive_in_between(store: Store, live: Live, conversation_id: str) -> None:
    """What is only shown comes through the same feed, and is not in the log."""
    await say(store, conversation_id, 1)
    async with collecting(live, conversation_id, after_seq=1) as seen:
        await store.publish(conversation_id, Ephemeral("typing", {"on": True}))
        await wait_until("the ephemeral comes", lambda: seen == [Ephemeral("typing", {"on": True})])

    assert len(await store.read(conversation_id)) == 1


async def test_killed_reader_connection_loses_nothing(store: Store, live: Live, conversation_id: str) -> None:
    """While pub/sub connections are killed again and again, 300 events arrive once each and in order."""
    async with collecting(live, conversation_id) as seen:
        for number in range(1, 301):
            await say(store, conversation_id, number)
            if number % 60 == 0:
                await kill_subscribers(store)
        await wait_until("all events are there", lambda: seqs(seen) == list(range(1, 301)))
    await wait_until("the reader is healthy again", lambda: live.healthy)


async def kill_subscribers(store: Store) -> None:
    """Cut every pub/sub connection; in a cluster they may be on any primary."""
    where: dict[str, Any] = {"target_nodes": RedisCluster.PRIMARIES} if store.backend.kind == "cluster" else {}
    await store.backend.cmd.client_kill_filter(_type="pubsub", **where)


async def test_slow_reader_gets_everything_from_the_log(store: Store, live: Live, conversation_id: str) -> None:
    """A reader that overflows its queue drops what was queued and reads the log: no gap, no double."""
    async with live.follow(conversation_id) as feed:
        for number in range(1, 1_201):
            await say(store, conversation_id, number)
        got = await take(feed, 1_200)

    assert got == list(range(1, 1_201))


async def take(feed: Feed, count: int) -> list[int]:
    out: list[int] = []
    async for item in feed:
        if isinstance(item, Event):
            out.append(item.seq)
        if len(out) == count:
            break
    return out


async def test_left_feeds_leave_no_subscription(store: Store, live: Live, conversation_id: str) -> None:
    """The last reader of a conversation takes its subscription along."""
    async with collecting(live, conversation_id):
        await wait_until("subscribed", lambda: len(live._feeds) == 1)

    assert live._feeds == {}
    assert set(live._confirmed) == {"fd:ready"}
