"""A turn that rests until somebody decides: asked, given back and kept in one commit, over a real Valkey."""

from __future__ import annotations

import pytest

from sessions.approvals import arguments_hash
from sessions.errors import Conflict, NotClaimable
from sessions.keys import Keys
from sessions.model import Committed, Owner, Question, Token, What
from sessions.store import Store
from tests.sessions.test_store import granted

REFUND = arguments_hash("refund", {"order": "A-1"})
HOUR_MS = 3_600_000


def question(approval_id: str = "a1") -> Question:
    return Question(approval_id, REFUND, {"tool": "refund"}, HOUR_MS)


async def rest(store: Store, conversation_id: str, token: Token, request: str = "r1") -> Committed:
    return await store.commit(conversation_id, token, request, asks=[question()], rest=True, needs="state")


async def test_turn_asks_and_rests_in_one_commit(store: Store, conversation_id: str) -> None:
    """The question, what the next worker needs and the end of the turn are true together; the message stays."""
    grant = await granted(store, conversation_id)

    done = await rest(store, conversation_id, grant.token)
    again = await rest(store, conversation_id, grant.token)

    now = await store.get(conversation_id)
    (approval,), needs = await store.resting(conversation_id, ["a1"])
    assert (approval.state, approval.void, needs) == ("asked", False, "state")
    assert (now.asks, now.waiting, now.worker) == (("a1",), 1, "")
    assert again.duplicate and again.seq == done.seq
    assert [event.type for event in await store.read(conversation_id)].count("approval.asked") == 1


async def test_waiting_messages_are_nobodys_work_until_the_decision(store: Store, conversation_id: str) -> None:
    """No worker is woken for them and none may claim them; the decision gives them back."""
    grant = await granted(store, conversation_id)
    await rest(store, conversation_id, grant.token)

    assert (await store.attend(conversation_id)).what is What.NOTHING
    with pytest.raises(NotClaimable, match="idle"):
        await store.claim(conversation_id)

    await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    heir = await store.claim(conversation_id)
    assert heir.conversation.woken == ("a1",)
    assert len(heir.pending) == 1


async def test_message_during_the_rest_wakes_a_worker_who_may_rest_again(store: Store, conversation_id: str) -> None:
    """Somebody looks at each new message; then all of them wait on, for as long as the question is open."""
    grant = await granted(store, conversation_id)
    await rest(store, conversation_id, grant.token)

    await store.enqueue(conversation_id, "m2", {"id": "m_2", "text": "still there?"}, start=Owner.ai("triage"))
    woken = await store.claim(conversation_id)
    await store.commit(conversation_id, woken.token, "r2", rest=True)

    assert len(woken.pending) == 2
    assert (await store.attend(conversation_id)).what is What.NOTHING


async def test_nothing_rests_for_what_is_decided_already(store: Store, conversation_id: str) -> None:
    """The decision came while a worker looked at a new message: the turn goes on at once."""
    grant = await granted(store, conversation_id)
    await rest(store, conversation_id, grant.token)
    await store.enqueue(conversation_id, "m2", {"id": "m_2", "text": "hello?"}, start=Owner.ai("triage"))
    woken = await store.claim(conversation_id)
    await store.decide_approval(conversation_id, "a1", "refused", by="human:ann")

    await store.commit(conversation_id, woken.token, "r2", rest=True)

    assert (await store.claim(conversation_id)).conversation.woken == ("a1",)


async def test_an_id_asks_once(store: Store, conversation_id: str) -> None:
    """A second question under the same id is refused whole; nothing of that commit is written."""
    grant = await granted(store, conversation_id)
    await rest(store, conversation_id, grant.token)
    await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    heir = await store.claim(conversation_id)

    with pytest.raises(Conflict, match="approval a1"):
        await rest(store, conversation_id, heir.token, "r2")


async def test_what_a_rest_needs_is_forgotten_when_it_is_over_or_closed(store: Store, conversation_id: str) -> None:
    """The saved run is deleted by the commit that says so, and with the conversation."""
    grant = await granted(store, conversation_id)
    await rest(store, conversation_id, grant.token)
    keys = Keys.of(conversation_id)
    await store.close(conversation_id, retention_s=60)
    assert 0 < await store.backend.cmd.ttl(keys.rest) <= 60

    other = conversation_id + "x"
    grant = await granted(store, other)
    await rest(store, other, grant.token)
    await store.decide_approval(other, "a1", "granted", by="human:ann")
    heir = await store.claim(other)
    await store.commit(other, heir.token, "r2", answered=1, needs="")
    assert await store.resting(other, []) == ([], "")


async def test_every_waiting_approval_is_listed_by_deadline(store: Store, conversation_id: str) -> None:
    """Over all conversations: undecided ones only, and none whose agent does not own any more."""
    deadlines = {"a": HOUR_MS, "b": HOUR_MS // 2, "decided": HOUR_MS, "void": HOUR_MS, "late": HOUR_MS * 700}
    for name, valid_ms in deadlines.items():
        grant = await granted(store, name)
        asks = [Question(f"{name}_1", REFUND, {}, valid_ms)]
        await store.commit(name, grant.token, "r1", answered=1, asks=asks, rest=True)
    await store.decide_approval("decided", "decided_1", "granted", by="human:ann")
    await store.takeover("void", "ann", change={})

    found = await store.waiting_approvals()

    assert [(where, one.approval_id) for where, one in found] == [("b", "b_1"), ("a", "a_1"), ("late", "late_1")]
