"""What people do: recorded and told like every other handoff; offers and passing on to other people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handoffs.errors import MessageRejected, UnknownTarget
from handoffs.hooks import HandoffInfo
from handoffs.router import Person, Router
from sessions.errors import NotOffered, OfferGone, StaleOwner
from sessions.keys import Keys, due_key
from sessions.live import Live
from sessions.model import Event, Owner, Token
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, shop
from tests.handoffs.test_router import ANN, ask, types
from tests.support import wait_until

STEPS = ["handoff.requested", "handoff.accepted", "owner.changed", "handoff.completed"]
BEN = Person("ben", "Ben")
MINUTE_MS = 60_000


def models() -> dict[str, Any]:
    return {"triage": script([says("Hello.")])}


def records(events: list[Event]) -> list[Event]:
    """The steps of handoffs, and changes of owner."""
    return [event for event in events if event.type.startswith("handoff.") or event.type == "owner.changed"]


def passes(events: list[Event]) -> list[tuple[str, str]]:
    """From and to of the handoffs that were completed."""
    return [(event.data["from"], event.data["to"]) for event in events if event.type == "handoff.completed"]


async def test_a_takeover_has_the_records_of_a_handoff(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: who takes a conversation leaves a requested, an accepted and a completed, with who and why."""
    router = router_for(store, live, shop(), models(), tmp_path)
    await ask(router, conversation_id, "hello")

    await router.take(conversation_id, person=ANN)

    found = records(await store.read(conversation_id))
    assert [event.type for event in found] == STEPS
    assert {event.by for event in found} == {"human:ann"}
    done = found[-1].data
    assert (done["from"], done["to"], done["decided_by"]) == ("triage", "ann", "person")
    assert done["reason"] == "taken over by a person"


async def test_who_takes_their_own_conversation_again_is_handed_nothing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: a second window of the same person is no second handoff."""
    router = router_for(store, live, shop(), models(), tmp_path)
    await ask(router, conversation_id, "hello")
    await router.take(conversation_id, person=ANN)

    await router.take(conversation_id, person=ANN)

    assert passes(await store.read(conversation_id)) == [("triage", "ann")]


async def test_taking_from_a_person_and_from_a_queue_names_them(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: `from` is who owned at that instant: a person's login, or the queue as agent files name it."""
    router = router_for(store, live, shop(), models(), tmp_path)
    await store.enqueue(conversation_id, "m1", {"id": "m_1", "text": "hi"}, start=Owner.queue("support"))

    await router.take(conversation_id, person=ANN)
    await router.take(conversation_id, person=BEN, force=True)

    assert passes(await store.read(conversation_id)) == [("human:support", "ann"), ("ann", "ben")]


async def test_a_hand_back_has_the_records_of_a_handoff(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: a person who gives the conversation back leaves every step, and what the agent was shown."""
    router = router_for(store, live, shop(), models(), tmp_path)
    await ask(router, conversation_id, "hello")
    taken = await router.take(conversation_id, person=ANN)

    await router.hand_back(conversation_id, taken.token, ANN, "billing", "paid twice")

    found = records(await store.read(conversation_id, taken.seq))
    assert [event.type for event in found] == STEPS
    assert {event.by for event in found} == {"human:ann"}
    assert found[-1].data["reason"] == "paid twice"
    assert "paid twice" in found[-1].data["seed"][0]


async def test_a_rescue_has_the_records_of_a_handoff_and_is_told(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: the sweep that moves a conversation from a person who is gone leaves every step; hooks hear."""
    told: list[HandoffInfo] = []
    router = router_for(store, live, shop(), models(), tmp_path)
    await store.enqueue(conversation_id, "m1", {"id": "m_1", "text": "hi"}, start=Owner.ai("triage"))
    taken = await router.take(conversation_id, person=ANN)
    router.hooks.on_handoff(told.append)
    await store.backend.cmd.hset(Keys.of(conversation_id).own, "lease", 1)  # three minutes later
    await store.backend.cmd.zadd(due_key(Keys.of(conversation_id).shard), {conversation_id: 1})

    await router.start()
    try:
        await wait_until("the last step is told", lambda: told and told[-1].step == "completed")
    finally:
        await router.stop()

    events = await store.read(conversation_id, taken.seq)
    assert types(events) == STEPS
    assert {event.by for event in events} == {"system"}
    assert [(info.step, info.from_, info.to, info.decided_by) for info in told] == [
        (step, "ann", "human:support", "system") for step in ("requested", "accepted", "completed")
    ]
    assert told[-1].epoch == (await store.get(conversation_id)).tenure


async def test_a_takeover_is_told_to_hooks_step_by_step(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: hooks hear a takeover in the order of the log, with the owner that was."""
    told: list[HandoffInfo] = []
    router = router_for(store, live, shop(), models(), tmp_path)
    await ask(router, conversation_id, "hello")
    router.hooks.on_handoff(told.append)

    taken = await router.take(conversation_id, person=ANN)
    await wait_until("the last step is told", lambda: told and told[-1].step == "completed")

    assert [info.step for info in told] == ["requested", "accepted", "completed"]
    assert {(info.from_, info.to, info.epoch) for info in told} == {("triage", "ann", taken.token.epoch)}


async def with_ann(router: Router, conversation_id: str) -> Token:
    """A conversation that Ann has taken; her token."""
    await ask(router, conversation_id, "hello")
    return (await router.take(conversation_id, person=ANN)).token


async def test_an_offer_changes_nothing_until_it_is_accepted_and_then_everything(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: the owner stays until somebody accepts; then they own, the note is the reason, hooks hear it."""
    told: list[HandoffInfo] = []
    router = router_for(store, live, shop(), models(), tmp_path)
    token = await with_ann(router, conversation_id)
    offer = await router.offer(conversation_id, token, ANN, "o1", Owner.human("ben"), MINUTE_MS, "speaks French")
    await router.say(conversation_id, token, ANN, "One moment.", "s1")
    assert (await store.get(conversation_id)).owner == Owner.human("ann")
    router.hooks.on_handoff(told.append)

    taken = await router.accept(conversation_id, offer.offer_id, BEN)
    await wait_until("the last step is told", lambda: told and told[-1].step == "completed")

    assert (await store.get(conversation_id)).owner == Owner.human("ben")
    found = records(await store.read(conversation_id))[-4:]
    assert [event.type for event in found] == STEPS
    assert {event.data["reason"] for event in found} == {"speaks French"}
    assert (found[2].data["from_name"], found[2].data["to_name"]) == ("Ann", "Ben")
    assert [(info.from_, info.to, info.epoch) for info in told] == [("ann", "ben", taken.token.epoch)] * 3
    await router.say(conversation_id, taken.token, BEN, "Bonjour.", "s2")
    with pytest.raises(StaleOwner):
        await router.say(conversation_id, token, ANN, "Me too.", "s3")


async def test_an_offer_that_nobody_accepts_in_time_runs_out_and_the_owner_stays(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: the sweep ends an offer at its deadline; whoever comes later is told so, the owner writes on."""
    router = router_for(store, live, shop(), models(), tmp_path)
    token = await with_ann(router, conversation_id)
    await router.offer(conversation_id, token, ANN, "o1", Owner.queue("support"), 1)

    async def over() -> bool:
        return "offer.expired" in types(await store.read(conversation_id))

    await router.start()
    try:
        await wait_until("the offer has run out", over)
    finally:
        await router.stop()

    with pytest.raises(OfferGone, match="expired"):
        await router.accept(conversation_id, "o1", BEN)
    await router.say(conversation_id, token, ANN, "Still me.", "s1")
    assert await store.pending_offer(conversation_id) is None


async def test_only_who_was_asked_declines_and_only_the_owner_cancels(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: an offer to Ben is Ben's to decline and Ann's to take back; either ends it, and Ann owns."""
    router = router_for(store, live, shop(), models(), tmp_path)
    token = await with_ann(router, conversation_id)
    await router.offer(conversation_id, token, ANN, "o1", Owner.human("ben"), MINUTE_MS)
    eve = Person("eve", "Eve")

    with pytest.raises(NotOffered):
        await router.decline(conversation_id, "o1", eve)
    with pytest.raises(NotOffered):
        await router.accept(conversation_id, "o1", eve)
    with pytest.raises(StaleOwner):
        await router.cancel(conversation_id, token, eve, "o1")
    await router.decline(conversation_id, "o1", BEN, "at lunch")
    await router.offer(conversation_id, token, ANN, "o2", Owner.human("ben"), MINUTE_MS)
    await router.cancel(conversation_id, token, ANN, "o2")

    ends = [event for event in await store.read(conversation_id) if event.type.startswith("offer.")]
    assert [event.type for event in ends] == ["offer.made", "offer.declined", "offer.made", "offer.cancelled"]
    assert ends[1].data["reason"] == "at lunch"
    assert (await store.get(conversation_id)).owner == Owner.human("ann")


@pytest.mark.parametrize(
    ("to", "name", "shown"),
    [(Owner.human("ben"), "Ben", "Ben"), (Owner.queue("support"), "", "Support team")],
    ids=["person", "queue"],
)
async def test_a_person_passes_on_directly_and_the_customer_is_told(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, to: Owner, name: str, shown: str
) -> None:
    """handoffs.md 10: a direct pass changes the owner at once, with every record, the note, and one sentence."""
    router = router_for(store, live, shop(), models(), tmp_path)
    token = await with_ann(router, conversation_id)

    await router.pass_on(conversation_id, token, ANN, to, "wants a refund", name)

    assert (await store.get(conversation_id)).owner == to
    found = records(await store.read(conversation_id))[-4:]
    assert [event.type for event in found] == STEPS
    assert {(event.data["from"], event.data["reason"]) for event in found} == {("ann", "wants a refund")}
    assert shown in found[2].data["text"]
    with pytest.raises(StaleOwner):
        await router.say(conversation_id, token, ANN, "Me again.", "s1")
    taken = await router.take(conversation_id, person=BEN)
    await router.say(conversation_id, taken.token, BEN, "Ben here.", "s2")


async def test_a_direct_pass_to_an_agent_is_a_hand_back(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: an agent is a target like any other, and is shown the note."""
    router = router_for(store, live, shop(), models(), tmp_path)
    token = await with_ann(router, conversation_id)

    await router.pass_on(conversation_id, token, ANN, Owner.ai("billing"), "paid twice")

    assert (await store.get(conversation_id)).owner == Owner.ai("billing")
    assert "paid twice" in str(await store.history(conversation_id, "billing"))


async def test_a_target_that_is_nobody_is_refused_and_nothing_moves(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.2: an unknown queue, oneself and a person without a name are refused by field; the owner stays."""
    router = router_for(store, live, shop(), models(), tmp_path)
    token = await with_ann(router, conversation_id)

    with pytest.raises(UnknownTarget, match="no queue 'moon'; allowed: support"):
        await router.pass_on(conversation_id, token, ANN, Owner.queue("moon"))
    with pytest.raises(MessageRejected, match="to: ann"):
        await router.offer(conversation_id, token, ANN, "o1", Owner.human("ann"), MINUTE_MS)
    with pytest.raises(MessageRejected, match=r"to\.name"):
        await router.pass_on(conversation_id, token, ANN, Owner.human("ben"))

    assert (await store.get(conversation_id)).owner == Owner.human("ann")
    assert await store.pending_offer(conversation_id) is None
