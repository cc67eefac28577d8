"""Time over a real Valkey: presence, attempts and a clock that was set back; no test waits, the fields are edited."""

from __future__ import annotations

import pytest

from sessions.errors import NotClaimable, StaleOwner
from sessions.keys import MAX_LEASE_MS, Keys, due_key
from sessions.model import Conversation, NewEvent, Owner, What
from sessions.store import PRESENCE_MS, Store
from tests.sessions.test_store import granted


async def over(store: Store, conversation_id: str) -> None:
    """The lease or the presence ended a moment ago, and the schedule knows."""
    keys = Keys.of(conversation_id)
    await store.backend.cmd.hset(keys.own, "lease", 1)
    await store.backend.cmd.zadd(due_key(keys.shard), {conversation_id: 1})


async def test_person_who_is_gone_leaves_the_conversation_to_the_queue(store: Store, conversation_id: str) -> None:
    """When presence ends, the human queue owns, with the text that the rescue gave; the person's token is stale."""
    await granted(store, conversation_id)
    taken = await store.takeover(conversation_id, "ann", change={})
    assert conversation_id not in await store.due()
    await over(store, conversation_id)

    found = await store.attend(conversation_id)

    assert (found.what, found.why) == (What.MOVED, "human_lost")
    assert (await store.get(conversation_id)).owner == Owner.queue("support")
    assert (await store.read(conversation_id))[-1].owner_from == "human:ann"
    assert conversation_id not in await store.due()
    with pytest.raises(StaleOwner):
        await store.renew(conversation_id, taken.token)


async def test_person_stays_while_their_desk_renews_or_they_write(store: Store, conversation_id: str) -> None:
    """Renewing and writing both extend presence by the time that the takeover named."""
    await granted(store, conversation_id)
    taken = await store.takeover(conversation_id, "ann", change={})

    for act in (
        store.renew(conversation_id, taken.token),
        store.commit(conversation_id, taken.token, "r1", answered=1, events=[NewEvent("msg.created", {"text": "x"})]),
    ):
        await over(store, conversation_id)
        await act
        left = (await store.get(conversation_id)).lease_until - await store.now()
        assert PRESENCE_MS - 5_000 < left <= PRESENCE_MS
        assert (await store.attend(conversation_id)).what is What.LIVE
        assert conversation_id not in await store.due()


async def test_person_without_presence_is_left_alone_and_not_looked_at_again(
    store: Store, conversation_id: str
) -> None:
    """A desk that does not watch presence keeps its people, and the sweep does not spin on them."""
    await granted(store, conversation_id)
    taken = await store.takeover(conversation_id, "ann", change={})
    await over(store, conversation_id)

    found = await store.attend(conversation_id, rescue=lambda _conversation, _why: None)

    assert found.what is What.NOTHING
    assert conversation_id not in await store.due()
    await store.commit(conversation_id, taken.token, "r1", answered=1)


async def test_rescue_decides_by_conversation_and_reason(store: Store, conversation_id: str) -> None:
    """What is asked is the conversation at that moment and why; nothing is asked in vain later."""
    await granted(store, conversation_id)
    asked: list[tuple[str, str]] = []

    def rescue(conversation: Conversation, why: str) -> None:
        asked.append((conversation.owner.ref, why))

    await store.attend(conversation_id, rescue=rescue)

    assert asked == [("ai:triage", "human_lost"), ("ai:triage", "poison")]


async def test_turn_whose_worker_died_is_ready(store: Store, conversation_id: str) -> None:
    """A lease that is over with messages waiting: READY, and the claim fences the dead worker."""
    await granted(store, conversation_id)
    await over(store, conversation_id)

    assert (await store.attend(conversation_id)).what is What.READY
    assert (await store.claim(conversation_id)).conversation.attempts == 2


async def test_turn_that_kills_its_workers_goes_to_people(store: Store, conversation_id: str) -> None:
    """After three attempts nobody tries again; the message still waits, for a person."""
    await granted(store, conversation_id)
    for _ in range(2):
        await over(store, conversation_id)
        await store.claim(conversation_id)
    await over(store, conversation_id)

    found = await store.attend(conversation_id)

    conversation = await store.get(conversation_id)
    assert (found.what, found.why) == (What.MOVED, "poison")
    assert (conversation.owner, conversation.waiting, conversation.attempts) == (Owner.queue("support"), 1, 0)


async def test_lease_from_before_the_clock_was_set_back_is_over(store: Store, conversation_id: str) -> None:
    """A lease that ends later than any lease can is not believed, and the schedule's entry is found all the same."""
    await granted(store, conversation_id)
    keys = Keys.of(conversation_id)
    ahead = await store.now() + 2 * MAX_LEASE_MS
    await store.backend.cmd.hset(keys.own, "lease", ahead)
    await store.backend.cmd.zadd(due_key(keys.shard), {conversation_id: ahead})

    due = await Store(store.backend, scripts=store._scripts).due()

    assert conversation_id in due
    assert (await store.attend(conversation_id)).what is What.READY
    assert (await store.claim(conversation_id)).token


async def test_attend_on_nothing_clears_the_schedule(store: Store, conversation_id: str) -> None:
    """An entry whose conversation is gone disappears at the first look."""
    await store.backend.cmd.zadd(due_key(Keys.of(conversation_id).shard), {conversation_id: 1})
    assert conversation_id in await store.due()

    assert (await store.attend(conversation_id)).what is What.NOTHING

    assert conversation_id not in await store.due()


async def test_live_turn_is_left_alone(store: Store, conversation_id: str) -> None:
    """While the worker renews, attend says when to look again and changes nothing."""
    grant = await granted(store, conversation_id)

    found = await store.attend(conversation_id)

    assert found.what is What.LIVE
    assert 0 < found.retry_ms <= store.lease_ms
    await store.commit(conversation_id, grant.token, "r1", answered=1)
    with pytest.raises(NotClaimable):
        await store.claim(conversation_id)
