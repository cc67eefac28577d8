"""Watching over a real Valkey: a claim says whether somebody looks, and what is shown goes to watchers only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from sessions.errors import ConversationForgotten, UnknownConversation
from sessions.keys import MAX_LEASE_MS, Keys
from sessions.live import Feed, Live
from sessions.model import Ephemeral, Event, NewEvent
from sessions.store import Store
from tests.sessions.test_store import TRIAGE, granted
from tests.support import wait_until


async def test_a_claim_says_that_somebody_watches(store: Store, conversation_id: str) -> None:
    """handoffs.md 6: the next turn knows, without a call of its own; an earlier one did not."""
    before = await granted(store, conversation_id)
    await store.commit(conversation_id, before.token, "r1", answered=1)

    await store.watch(conversation_id, watch_ms=60_000)
    receipt = await store.enqueue(conversation_id, "m2", {"text": "again"}, start=TRIAGE, claim=True)

    assert receipt.grant is not None
    assert before.conversation.watched_until == 0
    assert 0 < receipt.grant.conversation.watched_until - await store.now() <= 60_000


async def test_a_look_ends_by_itself(store: Store, conversation_id: str) -> None:
    """However long somebody says they look, it is not for ever, and it keeps no conversation alive."""
    await granted(store, conversation_id)
    await store.watch(conversation_id, watch_ms=100 * MAX_LEASE_MS)
    assert (await store.get(conversation_id)).watched_until <= await store.now() + MAX_LEASE_MS

    await store.close(conversation_id, retention_s=60)
    await store.watch(conversation_id)

    assert 0 < int(await store.backend.cmd.ttl(Keys.of(conversation_id).own)) <= 60


async def test_nobody_watches_what_is_not_there(store: Store, conversation_id: str) -> None:
    """Watching makes no conversation, and brings no forgotten one back."""
    with pytest.raises(UnknownConversation):
        await store.watch(conversation_id)
    await granted(store, conversation_id)
    await store.forget(conversation_id)
    with pytest.raises(ConversationForgotten):
        await store.watch(conversation_id)


async def test_only_watchers_get_what_is_shown_to_them(store: Store, live: Live, conversation_id: str) -> None:
    """handoffs.md 4: a feed of a customer never has it; a watcher's has it in the order in which it was shown."""
    grant = await granted(store, conversation_id)
    shown = [Ephemeral("agent_start", {"path": ["a"]}), Ephemeral("agent_end", {"path": ["a"]})]
    async with (
        live.follow(conversation_id) as plain,
        live.follow(conversation_id, watch=True) as watching,
        _reading(plain) as customer,
        _reading(watching) as watcher,
    ):
        await store.show_watchers(conversation_id, shown)
        await store.commit(conversation_id, grant.token, "r1", events=[NewEvent("notice", {"text": "the end"})])
        await wait_until("the watcher has all", lambda: len(watcher) == 4)
        await wait_until("the customer has the end", lambda: _seqs(customer) == [1, 2])

    assert [item for item in customer if isinstance(item, Ephemeral)] == []
    assert [item for item in watcher if isinstance(item, Ephemeral)] == shown


def _seqs(items: list[Event | Ephemeral]) -> list[int]:
    return [item.seq for item in items if isinstance(item, Event)]


@asynccontextmanager
async def _reading(feed: Feed) -> AsyncIterator[list[Event | Ephemeral]]:
    """All that a feed gives while the block runs."""
    found: list[Event | Ephemeral] = []

    async def read() -> None:
        async for item in feed:
            found.append(item)

    task = asyncio.create_task(read())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
