"""What people do is recorded and told like every other handoff: requested, accepted, owner.changed, completed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handoffs.hooks import HandoffInfo
from handoffs.router import Person
from sessions.keys import Keys, due_key
from sessions.live import Live
from sessions.model import Event, Owner
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, shop
from tests.handoffs.test_router import ANN, ask, types
from tests.support import wait_until

STEPS = ["handoff.requested", "handoff.accepted", "owner.changed", "handoff.completed"]
BEN = Person("ben", "Ben")


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
