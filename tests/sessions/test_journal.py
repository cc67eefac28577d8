"""The tool journal over a real Valkey: what ran once does not run again, whoever runs the turn again."""

from __future__ import annotations

import pytest

from sessions.errors import CallUnfinished, Conflict, StaleOwner
from sessions.keys import Keys
from sessions.model import Grant, NewEvent, Owner
from sessions.store import Store
from tests.sessions.test_store import granted


async def claimed_again(store: Store, conversation_id: str) -> Grant:
    """The worker died; another one has the turn."""
    await store.backend.cmd.hset(Keys.of(conversation_id).own, "lease", 1)
    return await store.claim(conversation_id)


async def test_result_of_a_dead_worker_comes_with_the_next_grant(store: Store, conversation_id: str) -> None:
    """A finished call is in the grant and is not run again."""
    old = await granted(store, conversation_id)
    assert (await store.begin_call(conversation_id, old.token, "k1")).run
    await store.finish_call(conversation_id, old.token, "k1", {"refunded": 20})

    new = await claimed_again(store, conversation_id)
    begun = await store.begin_call(conversation_id, new.token, "k1")

    assert dict(new.journal) == {"k1": {"refunded": 20}}
    assert (begun.run, begun.result) == (False, {"refunded": 20})


async def test_call_that_may_have_happened_is_not_run_unasked(store: Store, conversation_id: str) -> None:
    """A worker died in the middle of a call: the next one is told, and runs it only when it says that it may."""
    old = await granted(store, conversation_id)
    await store.begin_call(conversation_id, old.token, "k1")
    new = await claimed_again(store, conversation_id)

    with pytest.raises(CallUnfinished, match="never finished"):
        await store.begin_call(conversation_id, new.token, "k1")

    assert new.unfinished == ("k1",)
    assert (await store.begin_call(conversation_id, new.token, "k1", again=True)).run


async def test_stale_worker_starts_and_finishes_nothing(store: Store, conversation_id: str) -> None:
    """After another worker claimed, the first one may neither begin a call nor leave a result."""
    old = await granted(store, conversation_id)
    await store.begin_call(conversation_id, old.token, "k1")
    await claimed_again(store, conversation_id)

    with pytest.raises(StaleOwner):
        await store.begin_call(conversation_id, old.token, "k2")
    with pytest.raises(StaleOwner):
        await store.finish_call(conversation_id, old.token, "k1", "late")


async def test_first_result_stands(store: Store, conversation_id: str) -> None:
    """Finishing twice keeps and returns the first result; finishing what was not begun is refused."""
    grant = await granted(store, conversation_id)
    await store.begin_call(conversation_id, grant.token, "k1")
    await store.finish_call(conversation_id, grant.token, "k1", 1)

    assert await store.finish_call(conversation_id, grant.token, "k1", 2) == 1
    with pytest.raises(Conflict, match="journal has moved on"):
        await store.finish_call(conversation_id, grant.token, "k9", 1)


async def test_commit_makes_the_calls_history(store: Store, conversation_id: str) -> None:
    """After the commit the journal is empty: the items that it wrote know the calls."""
    grant = await granted(store, conversation_id)
    await store.begin_call(conversation_id, grant.token, "k1")

    await store.commit(conversation_id, grant.token, "r1", answered=1)

    assert await store.journal(conversation_id) == ({}, ())


async def test_hand_back_without_an_answer_keeps_what_the_agent_did(store: Store, conversation_id: str) -> None:
    """A person looks and hands back unanswered: the agent that goes on must not make the refund a second time."""
    grant = await granted(store, conversation_id)
    await store.begin_call(conversation_id, grant.token, "k1")
    await store.finish_call(conversation_id, grant.token, "k1", "refunded")
    taken = await store.takeover(conversation_id, "ann", change={})
    await store.commit(conversation_id, taken.token, "r1", events=[NewEvent("notice", {"text": "one moment"})])
    await store.transfer(conversation_id, taken.token, "t1", to=Owner.ai("triage"), change={})

    again = await store.claim(conversation_id)

    assert dict(again.journal) == {"k1": "refunded"}
