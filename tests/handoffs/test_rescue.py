"""What the sweep does with conversations that their owner has left."""

from __future__ import annotations

from pathlib import Path

from handoffs.router import DEADLY
from sessions.keys import Keys
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


async def _owner_is(store: Store, conversation_id: str, owner: Owner) -> bool:
    return (await store.get(conversation_id)).owner == owner
