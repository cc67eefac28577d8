"""Offers over a real Valkey: the owner stays until a person accepts in time, and every late answer is told why."""

from __future__ import annotations

import asyncio

import pytest

from sessions.errors import InvalidId, NotOffered, OfferGone, OfferPending, StaleOwner
from sessions.keys import Keys
from sessions.model import NewEvent, Owner, Taken, Token, What
from sessions.store import Store, new_fence
from tests.sessions.test_store import granted

SUPPORT = Owner.queue("support")
MINUTE_MS = 60_000


async def offered(store: Store, conversation_id: str, to: Owner = SUPPORT) -> Token:
    """A conversation whose owner, triage, has offered it as `o1`."""
    grant = await granted(store, conversation_id)
    await store.offer(conversation_id, grant.token, "o1", to=to, valid_ms=MINUTE_MS, brief={"goal": "refund"})
    return grant.token


async def run_out(store: Store, conversation_id: str) -> None:
    """The offer's time is over, as if a minute had passed."""
    await store.backend.cmd.hset(Keys.of(conversation_id).own, "offer_by", 1)


async def test_owner_goes_on_while_its_offer_waits(store: Store, conversation_id: str) -> None:
    """An offer changes no owner and no token; it says to whom, until when, and carries the brief."""
    token = await offered(store, conversation_id)

    await store.commit(conversation_id, token, "r1", answered=1, events=[NewEvent("msg.created", {"text": "wait"})])

    pending = await store.pending_offer(conversation_id)
    assert pending is not None
    assert (pending.offered_by, pending.to, pending.brief) == (Owner.ai("triage"), SUPPORT, {"goal": "refund"})
    assert pending.deadline > await store.now()
    assert (await store.get(conversation_id)).owner == Owner.ai("triage")


async def test_person_who_accepts_owns_and_the_agent_is_stale(store: Store, conversation_id: str) -> None:
    """Accepting changes the owner in one step; the log has who owned before and after."""
    token = await offered(store, conversation_id)

    taken = await store.accept(conversation_id, "o1", "ann", change={"text": "Ann is here"})

    assert taken.previous == Owner.ai("triage")
    assert await store.pending_offer(conversation_id) is None
    with pytest.raises(StaleOwner):
        await store.commit(conversation_id, token, "r1")
    last = (await store.read(conversation_id))[-1]
    assert (last.type, last.owner_from, last.owner_to) == ("owner.changed", "ai:triage", "human:ann")


async def test_one_of_twenty_people_gets_the_offer(store: Store, conversation_id: str) -> None:
    """Everybody accepts at once: one owner, and nineteen who learn who it is."""
    await offered(store, conversation_id)

    results = await asyncio.gather(
        *(store.accept(conversation_id, "o1", f"p{n}", change={}) for n in range(20)), return_exceptions=True
    )

    gone = [result for result in results if isinstance(result, OfferGone)]
    owner = (await store.get(conversation_id)).owner
    assert len([result for result in results if isinstance(result, Taken)]) == 1
    assert {(refusal.state, refusal.by) for refusal in gone} == {("accepted", owner.ref)}
    assert len(gone) == 19


async def test_repeated_accept_gets_the_same_token(store: Store, conversation_id: str) -> None:
    """The same fence after a lost reply is the same person: the first answer, and nothing happens twice."""
    await offered(store, conversation_id)
    fence = new_fence()
    first = await store.accept(conversation_id, "o1", "ann", change={}, fence=fence)

    assert await store.accept(conversation_id, "o1", "ann", change={}, fence=fence) == first
    assert (await store.get(conversation_id)).seq == first.seq


async def test_second_offer_waits_for_the_first(store: Store, conversation_id: str) -> None:
    """At most one offer is pending; the refusal names it. After a decline there is room again."""
    token = await offered(store, conversation_id)

    with pytest.raises(OfferPending) as pending:
        await store.offer(conversation_id, token, "o2", to=SUPPORT, valid_ms=MINUTE_MS)
    await store.decline(conversation_id, "o1", "human:ann", reason="not mine")

    assert pending.value.offer_id == "o1"
    assert await store.offer(conversation_id, token, "o2", to=SUPPORT, valid_ms=MINUTE_MS)


async def test_offer_to_one_person_is_not_another_ones(store: Store, conversation_id: str) -> None:
    """A direct pass can only be accepted by the person that it is for."""
    await offered(store, conversation_id, Owner.human("ann"))

    with pytest.raises(NotOffered, match="is for human:ann"):
        await store.accept(conversation_id, "o1", "bob", change={})
    await store.accept(conversation_id, "o1", "ann", change={})


async def test_offer_that_ran_out_changes_nothing_but_the_log(store: Store, conversation_id: str) -> None:
    """Too late is too late, before and after the sweep has noticed; the owner and its token stay."""
    token = await offered(store, conversation_id)
    await run_out(store, conversation_id)

    with pytest.raises(OfferGone, match="is expired"):
        await store.accept(conversation_id, "o1", "ann", change={})
    found = await store.attend(conversation_id)
    with pytest.raises(OfferGone, match="is expired"):
        await store.accept(conversation_id, "o1", "ann", change={})

    assert (found.what, found.why) == (What.OFFER_EXPIRED, "o1")
    await store.commit(conversation_id, token, "r1", answered=1)
    assert [event.type for event in await store.read(conversation_id, 1)] == ["offer.made", "offer.expired"]


async def test_takeover_voids_the_offer(store: Store, conversation_id: str) -> None:
    """Whoever takes the conversation otherwise ends the offer: accepting it later moves nothing."""
    await offered(store, conversation_id)
    taken = await store.takeover(conversation_id, "bob", change={})

    with pytest.raises(OfferGone) as gone:
        await store.accept(conversation_id, "o1", "ann", change={})

    assert (gone.value.state, gone.value.by) == ("void", "human:bob")
    await store.renew(conversation_id, taken.token)


async def test_owner_takes_its_offer_back(store: Store, conversation_id: str) -> None:
    """Only the holder of the token cancels; afterwards nobody can accept."""
    token = await offered(store, conversation_id)

    with pytest.raises(StaleOwner):
        await store.cancel(conversation_id, Token(token.epoch, "f" * 32), "o1")
    await store.cancel(conversation_id, token, "o1")

    with pytest.raises(OfferGone, match="is cancelled"):
        await store.accept(conversation_id, "o1", "ann", change={})


async def test_offers_that_make_no_sense_are_refused_at_once(store: Store, conversation_id: str) -> None:
    """An agent cannot be asked, a time must be a time, and an id must fit into a key."""
    grant = await granted(store, conversation_id)

    with pytest.raises(ValueError, match="ai:billing cannot be asked"):
        await store.offer(conversation_id, grant.token, "o1", to=Owner.ai("billing"), valid_ms=1)
    with pytest.raises(ValueError, match="valid_ms: 0"):
        await store.offer(conversation_id, grant.token, "o1", to=SUPPORT, valid_ms=0)
    with pytest.raises(InvalidId, match="offer_id"):
        await store.offer(conversation_id, grant.token, "o 1", to=SUPPORT, valid_ms=1)
