"""The store over a real Valkey: who may write, what is kept once, what a refused write leaves behind (nothing)."""

from __future__ import annotations

import asyncio

import pytest

from sessions.errors import (
    Conflict,
    InvalidId,
    MessageIdReused,
    NotClaimable,
    OwnerBusy,
    StaleOwner,
    UnknownConversation,
)
from sessions.keys import Keys
from sessions.model import Ephemeral, Grant, NewEvent, Owner, Token, ValueWrite
from sessions.store import Store
from tests.support import wait_until

TRIAGE = Owner.ai("triage")


async def clock_moves(store: Store, ms: int) -> None:
    """Wait until Redis' clock is that much further."""
    start = await store.now()

    async def moved() -> bool:
        return await store.now() >= start + ms

    await wait_until(f"{ms} ms of Redis' clock", moved)


async def granted(store: Store, conversation_id: str, text: str = "hi") -> Grant:
    """A new conversation whose turn this store's worker holds."""
    receipt = await store.enqueue(
        conversation_id, "m1", {"id": "m_1", "text": text}, start=TRIAGE, claim=True, meta={"language": "en"}
    )
    assert receipt.grant is not None
    return receipt.grant


async def test_first_message_makes_the_conversation_and_grants_the_turn(store: Store, conversation_id: str) -> None:
    """One call stores the message, makes the owner record and gives the worker everything a turn needs."""
    grant = await granted(store, conversation_id)

    assert grant.conversation.owner == TRIAGE
    assert grant.conversation.meta == {"language": "en"}
    assert [message.text for message in grant.pending] == ["hi"]
    assert [event.type for event in grant.log()] == ["msg.created"]
    assert grant.token.epoch == grant.conversation.epoch


async def test_same_message_id_is_stored_once(store: Store, conversation_id: str) -> None:
    """A repeated message is a duplicate with the first event's id; another text under the same id is refused."""
    first = await store.enqueue(conversation_id, "m1", {"text": "hi"}, start=TRIAGE)

    again = await store.enqueue(conversation_id, "m1", {"text": "hi"}, start=TRIAGE)

    assert (again.duplicate, again.event_id) == (True, first.event_id)
    assert (await store.get(conversation_id)).waiting == 1
    with pytest.raises(MessageIdReused):
        await store.enqueue(conversation_id, "m1", {"text": "something else"}, start=TRIAGE)


async def test_only_one_of_many_claims_wins(store: Store, conversation_id: str) -> None:
    """Twenty workers claim at once: one grant, nineteen refusals that say who is busy."""
    await store.enqueue(conversation_id, "m1", {"text": "hi"}, start=TRIAGE)
    workers = [Store(store.backend) for _ in range(20)]

    results = await asyncio.gather(*(w.claim(conversation_id) for w in workers), return_exceptions=True)

    grants = [result for result in results if isinstance(result, Grant)]
    refusals = [result for result in results if isinstance(result, NotClaimable)]
    assert (len(grants), len(refusals)) == (1, 19)
    assert {refusal.owner for refusal in refusals} == {grants[0].conversation.worker}


async def test_claim_after_the_lease_fences_the_old_worker(store: Store, conversation_id: str) -> None:
    """A second worker gets an expired turn with a larger epoch; every write of the first one is refused."""
    slow = Store(store.backend, lease_ms=1)
    old = await granted(slow, conversation_id)
    await clock_moves(store, 2)  # the lease of one millisecond is over

    new = await store.claim(conversation_id, hint="triage")

    assert new.token.epoch > old.token.epoch
    assert new.conversation.attempts == 2
    for write in (
        slow.commit(conversation_id, old.token, "r1", events=[NewEvent("msg.created", {"text": "late"})]),
        slow.transfer(conversation_id, old.token, "r2", to=Owner.ai("billing"), change={}),
        slow.renew(conversation_id, old.token),
        slow.relay(conversation_id, old.token, Ephemeral("msg.delta", {})),
        slow.release(conversation_id, old.token),
    ):
        with pytest.raises(StaleOwner):
            await write
    assert len(await store.read(conversation_id)) == 1


async def test_right_epoch_with_another_fence_is_stale(store: Store, conversation_id: str) -> None:
    """The nonce is compared too: an epoch that a rolled back server gives out again is not enough."""
    grant = await granted(store, conversation_id)

    with pytest.raises(StaleOwner):
        await store.commit(conversation_id, Token(grant.token.epoch, "f" * 32), "r1")


async def test_commit_makes_everything_true_at_once(store: Store, conversation_id: str) -> None:
    """Events, history, values, answered messages and the given-back lease come from one call."""
    grant = await granted(store, conversation_id)

    done = await store.commit(
        conversation_id,
        grant.token,
        "turn:1",
        answered=1,
        events=[NewEvent("msg.created", {"text": "hello"}), NewEvent("notice", {"text": "n"}, by="system")],
        agent_id="triage",
        items=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        values=[ValueWrite("order", "A-1", 0)],
        meta={"language": "zh"},
    )

    conversation = await store.get(conversation_id)
    assert (done.seq, conversation.seq, conversation.waiting, conversation.lease_until) == (3, 3, 0, 0)
    assert conversation.meta == {"language": "zh"}
    assert conversation.seen == {"triage": 3}
    assert len(await store.history(conversation_id, "triage")) == 2
    assert (await store.values(conversation_id))["order"].value == "A-1"
    assert [(e.seq, e.type, e.by) for e in await store.read(conversation_id, 1)] == [
        (2, "msg.created", "ai:triage"),
        (3, "notice", "system"),
    ]


async def test_repeated_commit_gets_the_first_answer(store: Store, conversation_id: str) -> None:
    """The same request id after a lost reply: nothing is written twice, although the token is used up by then."""
    grant = await granted(store, conversation_id)
    event = NewEvent("msg.created", {"text": "hello"})
    first = await store.commit(conversation_id, grant.token, "turn:1", answered=1, events=[event])

    again = await store.commit(conversation_id, grant.token, "turn:1", answered=1, events=[event])

    assert (again.duplicate, again.seq, again.event_ids) == (True, first.seq, first.event_ids)
    assert (await store.get(conversation_id)).seq == 2


async def test_message_that_came_meanwhile_keeps_the_turn(store: Store, conversation_id: str) -> None:
    """A commit with messages still waiting keeps the lease and brings them along, so nothing needs a new claim."""
    grant = await granted(store, conversation_id)
    await store.enqueue(conversation_id, "m2", {"text": "and?"}, start=TRIAGE)

    done = await store.commit(conversation_id, grant.token, "turn:1", answered=1)

    assert [message.text for message in done.pending] == ["and?"]
    await store.commit(conversation_id, grant.token, "turn:2", answered=1)
    assert (await store.get(conversation_id)).lease_until == 0


async def test_stale_value_refuses_the_whole_commit(store: Store, conversation_id: str) -> None:
    """A value whose revision moved on refuses everything in the commit, and says which value it is."""
    grant = await granted(store, conversation_id)
    await store.enqueue(conversation_id, "m2", {"text": "more"}, start=TRIAGE)
    await store.commit(conversation_id, grant.token, "turn:1", values=[ValueWrite("n", 1, 0)])

    with pytest.raises(Conflict) as conflict:
        await store.commit(
            conversation_id,
            grant.token,
            "turn:2",
            answered=1,
            events=[NewEvent("msg.created", {"text": "x"})],
            values=[ValueWrite("n", 2, 0)],
        )

    assert (conflict.value.field, conflict.value.current) == ("value n", "1")
    assert (await store.get(conversation_id)).waiting == 2
    assert (await store.get(conversation_id)).seq == 2


async def test_transfer_moves_everything_in_one_step(store: Store, conversation_id: str) -> None:
    """Old owner's items, seed, events and the new owner with a new token: after it only the new owner may write."""
    grant = await granted(store, conversation_id)

    moved = await store.transfer(
        conversation_id,
        grant.token,
        "turn:1",
        to=Owner.ai("billing"),
        change={"reason": "r"},
        agent_id="triage",
        items=[{"role": "user", "content": "hi"}],
        seed=[{"role": "user", "content": "note"}],
        before=[NewEvent("handoff.requested", {})],
        after=[NewEvent("handoff.completed", {})],
        go_on=True,
    )

    assert moved.token.epoch > grant.token.epoch
    assert [message.text for message in moved.pending] == ["hi"]
    assert [e.type for e in await store.read(conversation_id, 1)] == [
        "handoff.requested",
        "owner.changed",
        "handoff.completed",
    ]
    assert [item["content"] for item in await store.history(conversation_id, "billing")] == ["note"]
    with pytest.raises(StaleOwner):
        await store.commit(conversation_id, grant.token, "turn:2")
    await store.commit(conversation_id, moved.token, "turn:3", answered=1)


async def test_returning_owner_gets_its_own_history_back(store: Store, conversation_id: str) -> None:
    """A transfer gives back what the new owner had before, without the seed that this transfer adds."""
    grant = await granted(store, conversation_id)
    there = await store.transfer(
        conversation_id,
        grant.token,
        "t1",
        to=Owner.ai("billing"),
        change={},
        agent_id="triage",
        items=[{"role": "user", "content": "mine"}],
        go_on=True,
    )

    back = await store.transfer(
        conversation_id,
        there.token,
        "t2",
        to=TRIAGE,
        change={},
        agent_id="billing",
        seed=[{"role": "user", "content": "note"}],
        go_on=True,
    )

    assert [item["content"] for item in back.history] == ["mine"]
    assert [item["content"] for item in await store.history(conversation_id, "triage")] == ["mine", "note"]


async def test_transfer_refuses_when_the_log_moved_on(store: Store, conversation_id: str) -> None:
    """`expected_seq` protects a seed that was computed from a read: a message in between refuses the transfer."""
    grant = await granted(store, conversation_id)
    await store.enqueue(conversation_id, "m2", {"text": "wait"}, start=TRIAGE)

    with pytest.raises(Conflict, match="log has moved on"):
        await store.transfer(
            conversation_id, grant.token, "t1", to=Owner.ai("billing"), change={}, expected_seq=grant.conversation.seq
        )


async def test_person_takes_over_at_once_and_another_person_does_not(store: Store, conversation_id: str) -> None:
    """Takeover needs nobody's consent but another live person's; the answer says who that is."""
    grant = await granted(store, conversation_id)

    taken = await store.takeover(conversation_id, "ann", change={})

    assert taken.previous == TRIAGE
    with pytest.raises(StaleOwner):
        await store.commit(conversation_id, grant.token, "turn:1", answered=1)
    with pytest.raises(OwnerBusy) as busy:
        await store.takeover(conversation_id, "bob", change={})
    assert busy.value.owner == "human:ann"
    forced = await store.takeover(conversation_id, "bob", change={}, force=True)
    assert forced.token.epoch > taken.token.epoch


async def test_takeover_with_a_passed_epoch_is_refused(store: Store, conversation_id: str) -> None:
    """A person who looked at an older state is told, instead of taking what somebody else just changed."""
    grant = await granted(store, conversation_id)
    await store.transfer(conversation_id, grant.token, "t1", to=Owner.queue("support"), change={})

    with pytest.raises(Conflict, match="epoch has moved on"):
        await store.takeover(conversation_id, "ann", change={}, expected_epoch=grant.token.epoch)


async def test_messages_to_people_wait_and_no_worker_gets_them(store: Store, conversation_id: str) -> None:
    """While a queue or a person owns, messages are kept, and a claim says that no agent owns."""
    grant = await granted(store, conversation_id)
    await store.transfer(conversation_id, grant.token, "t1", to=Owner.queue("support"), change={})
    receipt = await store.enqueue(conversation_id, "m2", {"text": "hello?"}, start=TRIAGE, claim=True)

    assert receipt.grant is None
    assert receipt.owner == Owner.queue("support")
    assert (await store.get(conversation_id)).waiting == 2
    with pytest.raises(NotClaimable, match="not_ai queue:support"):
        await store.claim(conversation_id)


async def test_due_is_what_waits_without_a_live_lease(store: Store, conversation_id: str) -> None:
    """A leased conversation is not due; a released one is; an answered one is not."""
    grant = await granted(store, conversation_id)
    assert conversation_id not in await store.due()

    await store.release(conversation_id, grant.token)
    assert conversation_id in await store.due()

    again = await store.claim(conversation_id)
    await store.commit(conversation_id, again.token, "turn:1", answered=1)
    assert conversation_id not in await store.due()


async def test_draft_of_a_dead_worker_is_taken_back_at_the_next_claim(store: Store, conversation_id: str) -> None:
    """What a worker streamed and never committed disappears, in front of everybody, when another one begins."""
    slow = Store(store.backend, lease_ms=1)
    old = await granted(slow, conversation_id)
    await slow.relay(conversation_id, old.token, Ephemeral("msg.delta", {}), message_id="m_draft", piece="Hel")
    await clock_moves(store, 2)  # the lease of one millisecond is over
    assert await store.draft(conversation_id) == ("m_draft", "Hel")

    await store.claim(conversation_id)

    assert await store.draft(conversation_id) == ("", "")
    last = (await store.read(conversation_id))[-1]
    assert (last.type, last.data) == ("msg.retracted", {"id": "m_draft"})


async def test_script_cache_lost_is_no_problem(store: Store, conversation_id: str) -> None:
    """A restarted server has no scripts; calls load them again."""
    await store.backend.cmd.script_flush()

    assert (await granted(store, conversation_id)).pending


@pytest.mark.parametrize("bad", ["", "a b", "a|b", "x" * 200, "{slot}", "a\nb", "../x", "日本"])
async def test_odd_ids_are_refused_before_redis(store: Store, bad: str) -> None:
    """An id that could break a key name is refused with the field's name."""
    with pytest.raises(InvalidId, match="conversation_id"):
        await store.enqueue(bad, "m1", {"text": "hi"}, start=TRIAGE)


async def test_unknown_conversation_is_said_so(store: Store) -> None:
    """Reading, claiming and taking what does not exist give one clear error."""
    for call in (store.get("c_none"), store.claim("c_none"), store.takeover("c_none", "ann", change={})):
        with pytest.raises(UnknownConversation, match="there is no conversation 'c_none'"):
            await call


async def test_all_keys_of_a_conversation_share_a_slot(store: Store, conversation_id: str) -> None:
    """Every key that a busy conversation makes carries the same hash tag, as Redis Cluster needs it."""
    grant = await granted(store, conversation_id)
    await store.relay(conversation_id, grant.token, Ephemeral("msg.delta", {}), message_id="m_d", piece="x")
    keys = [key async for key in store.backend.cmd.scan_iter(match=f"fd:*{conversation_id}*")]

    tags = {key[key.index("{") : key.index("}") + 1] for key in keys}
    assert len(keys) >= 5
    assert tags == {f"{{s{Keys.of(conversation_id).shard:04d}}}"}


async def test_recent_lists_newest_first(store: Store, conversation_id: str) -> None:
    """The list for the desk has the conversation that changed last in front."""
    await store.enqueue(conversation_id + "a", "m1", {"text": "hi"}, start=TRIAGE)
    await store.enqueue(conversation_id + "b", "m1", {"text": "hi"}, start=TRIAGE)
    await clock_moves(store, 2)  # the index counts milliseconds
    await store.enqueue(conversation_id + "a", "m2", {"text": "more"}, start=TRIAGE)

    newest = [found.conversation_id for found in await store.recent(2)]

    assert newest == [conversation_id + "a", conversation_id + "b"]
