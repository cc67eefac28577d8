"""Records of runs over a real Valkey: kept by the commit that they led to, with it or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions.errors import StaleOwner
from sessions.keys import Keys
from sessions.model import NewEvent, Owner, Recorded, Token
from sessions.store import Store
from tests.sessions.test_store import TRIAGE, granted

SAID = [NewEvent("msg.created", {"text": "answer"})]


def record(run: str = "7", **data: Any) -> Recorded:
    return Recorded(run, json.dumps({"run": run, **data}))


async def records(store: Store, conversation_id: str) -> list[Any]:
    (found,) = await store.run_records([conversation_id])
    return found


async def test_a_record_comes_with_its_commit(store: Store, conversation_id: str) -> None:
    """A commit, a transfer and a turn that is given back keep their records in this order."""
    grant = await granted(store, conversation_id)
    await store.commit(conversation_id, grant.token, "r1", events=SAID, record=record(part=0))
    moved = await store.transfer(
        conversation_id, grant.token, "r2", to=Owner.ai("billing"), change={}, go_on=True, record=record(part=1)
    )
    await store.release(conversation_id, moved.token, record=record(part=2))

    assert [row["part"] for row in await records(store, conversation_id)] == [0, 1, 2]


async def test_a_commit_that_is_made_again_is_recorded_once(store: Store, conversation_id: str) -> None:
    """A lost reply does not double the record."""
    grant = await granted(store, conversation_id)
    for _ in range(2):
        await store.commit(conversation_id, grant.token, "r1", events=SAID, record=record(part=0))

    assert len(await records(store, conversation_id)) == 1


async def test_a_stale_owner_records_nothing(store: Store, conversation_id: str) -> None:
    """Whoever lost the conversation leaves no record of what it would have said."""
    grant = await granted(store, conversation_id)
    stale = Token(grant.token.epoch, "f" * 32)

    with pytest.raises(StaleOwner):
        await store.commit(conversation_id, stale, "r1", events=SAID, record=record(part=0))
    with pytest.raises(StaleOwner):
        await store.transfer(conversation_id, stale, "r2", to=Owner.ai("billing"), change={}, record=record(part=0))
    with pytest.raises(StaleOwner):
        await store.release(conversation_id, stale, record=record(part=0))

    assert await records(store, conversation_id) == []


async def test_only_the_newest_records_stay(store: Store, conversation_id: str) -> None:
    """The oldest go beyond `runs_keep`; with 0 nothing is recorded at all."""
    small = Store(store.backend, runs_keep=2, scripts=store._scripts)
    grant = await granted(small, conversation_id)
    for n in range(5):
        await small.commit(conversation_id, grant.token, f"r{n}", events=SAID, record=record(part=n))
    assert [row["part"] for row in await records(small, conversation_id)] == [3, 4]

    none = Store(store.backend, runs_keep=0, scripts=store._scripts)
    await none.commit(conversation_id, grant.token, "r9", events=SAID, record=record(part=9))

    assert [row["part"] for row in await records(small, conversation_id)] == [3, 4]


async def test_the_last_event_of_a_run_names_it(store: Store, conversation_id: str) -> None:
    """Only the commit after which nothing waits ends the run, and only its last event says so."""
    grant = await granted(store, conversation_id)
    await store.enqueue(conversation_id, "m2", {"text": "and this"}, start=TRIAGE)
    two = [NewEvent("tool.called", {}), *SAID]
    await store.commit(conversation_id, grant.token, "r1", answered=1, events=two, record=record())
    await store.commit(conversation_id, grant.token, "r2", answered=1, events=two, record=record())

    events = await store.read(conversation_id)
    assert [(event.type, event.run) for event in events if event.by == "ai:triage"] == [
        ("tool.called", ""),
        ("msg.created", ""),
        ("tool.called", ""),
        ("msg.created", "7"),
    ]


async def test_a_transfer_that_somebody_goes_on_with_ends_no_run(store: Store, conversation_id: str) -> None:
    """To an agent that goes on: not the end. To a queue: the end, on the last event of the transfer."""
    grant = await granted(store, conversation_id)
    done = [NewEvent("handoff.completed", {})]
    moved = await store.transfer(
        conversation_id,
        grant.token,
        "r1",
        to=Owner.ai("billing"),
        change={},
        after=done,
        go_on=True,
        record=record(),
    )
    await store.transfer(
        conversation_id, moved.token, "r2", to=Owner.queue("support"), change={}, after=done, record=record()
    )

    events = (await store.read(conversation_id))[1:]
    assert [(event.type, event.run) for event in events] == [
        ("owner.changed", ""),
        ("handoff.completed", ""),
        ("owner.changed", ""),
        ("handoff.completed", "7"),
    ]


async def test_readers_are_told_the_end_of_a_run_as_it_happens(store: Store, conversation_id: str) -> None:
    """What is published says the same as the log."""
    async with await store.backend.pubsub() as pubsub:
        await pubsub.subscribe(Keys.of(conversation_id).channel)
        grant = await granted(store, conversation_id)
        await store.commit(conversation_id, grant.token, "r1", answered=1, events=SAID, record=record())
        found: list[Any] = []
        while len(found) < 2:
            message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=1)
            found += [json.loads(message["data"])] if message else []

    assert [row[9:] for row in found] == [[], ["7"]]


async def test_conversations_are_listed_by_their_last_change(store: Store, conversation_id: str) -> None:
    """Newest first, with the time of the change."""
    other = f"{conversation_id}x"
    first = await granted(store, conversation_id)
    await granted(store, other)
    await store.commit(conversation_id, first.token, "r1", events=SAID)

    changed = dict(await store.changed())

    assert set(changed) == {conversation_id, other}
    assert changed[conversation_id] >= changed[other] > 1_700_000_000_000
