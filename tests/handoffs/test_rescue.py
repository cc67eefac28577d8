"""What the sweep does with conversations that their owner has left."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoffs.router import DEADLY, Person
from sessions.errors import StaleOwner
from sessions.keys import Keys, due_key
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import router_for, shop
from tests.support import wait_until


async def test_turn_that_kills_its_process_goes_to_people_and_the_customer_is_told(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """After five attempts that left nothing behind, the sweep moves the conversation to its queue, with a text."""
    await store.enqueue(conversation_id, "m1", {"id": "m_1", "text": "hi"}, start=Owner.ai("triage"))
    for _ in range(DEADLY):
        await store.claim(conversation_id)
        await store.backend.cmd.hset(Keys.of(conversation_id).own, "lease", 1)
    await store.attend(conversation_id, max_attempts=DEADLY + 1)  # its lease is over in the schedule, too
    router = router_for(store, live, shop(), {}, tmp_path)

    await router.start()
    try:
        await wait_until("people own it", lambda: _owner_is(store, conversation_id, Owner.queue("support")))
    finally:
        await router.stop()

    (moved,) = [event for event in await store.read(conversation_id) if event.type == "owner.changed"]
    assert moved.owner_from == "ai:triage"
    assert "Support team" in moved.data["text"]
    assert (await store.get(conversation_id)).waiting == 1


async def test_person_who_is_gone_gives_the_conversation_to_a_queue_and_one_who_stays_does_not(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A person's presence is renewed by the desk; when it ends, a queue owns and the customer is told."""
    here, gone = conversation_id + "a", conversation_id + "b"
    router = router_for(store, live, shop(), {}, tmp_path)
    tokens = {}
    for one in (here, gone):
        await store.enqueue(one, "m1", {"id": "m_1", "text": "hi"}, start=Owner.ai("triage"))
        tokens[one] = (await router.take(one, person=Person("ann", "Ann"))).token
        await store.backend.cmd.hset(Keys.of(one).own, "lease", 1)  # three minutes later
        await store.backend.cmd.zadd(due_key(Keys.of(one).shard), {one: 1})

    await router.stay(here, tokens[here])
    await router.start()
    try:
        await wait_until("a queue owns it", lambda: _owner_is(store, gone, Owner.queue("support")))
    finally:
        await router.stop()

    assert (await store.get(here)).owner == Owner.human("ann")
    with pytest.raises(StaleOwner):
        await router.stay(gone, tokens[gone])
    (moved,) = [e for e in await store.read(gone) if e.type == "owner.changed" and e.owner_to == "queue:support"]
    assert "had to leave" in moved.data["text"]


async def _owner_is(store: Store, conversation_id: str, owner: Owner) -> bool:
    return (await store.get(conversation_id)).owner == owner
