"""Transfers to the letter: valid histories, one atomic commit, and what an agent knows when it is back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handoffs.router import CustomerMessage, Router
from sessions.errors import StaleOwner
from sessions.live import Live
from sessions.model import Item, Owner
from sessions.store import Store
from tests.handoffs.desks import agent, roster, router_for, says, script, shop, transfer
from tests.handoffs.gated_model import GatedModel
from tests.handoffs.test_router import ask, texts, types
from tests.support import wait_until


def unanswered(items: tuple[Item, ...]) -> set[str]:
    """Calls without a result, and results without a call."""
    calls = {item["call_id"] for item in items if item.get("type") == "function_call"}
    results = {item["call_id"] for item in items if item.get("type") == "function_call_output"}
    return calls ^ results


async def freeze(router: Router, conversation_id: str) -> None:
    """The process renews nothing any more, as if it were gone."""

    async def asleep() -> None:
        """A dead process says nothing."""

    router._turns[conversation_id].verify = asleep  # type: ignore[method-assign]


async def test_each_call_of_a_response_has_its_result(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.3: three requests in one response: the first wins, each later one is refused in its own result."""
    models = {
        "triage": script([transfer("billing"), transfer("orders"), transfer("billing")]),
        "billing": script([says("Billing here.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    refused = [event.data["why"] for event in events if event.type == "handoff.refused"]
    assert len(refused) == 2 and all("already transferring to billing" in why for why in refused)
    history = await store.history(conversation_id, "triage")
    assert unanswered(history) == set()
    assert [item["name"] for item in history if item.get("type") == "function_call"] == ["transfer_to_agent"]


async def test_crash_after_the_transfer_goes_on_as_the_new_owner(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4: the transfer was committed, then the process died: triage is not asked again, billing answers
    the one message, with the note that was stored for it.
    """
    held = GatedModel("Too late.", hold_after=0)
    dead_store = Store(store.backend, lease_ms=300)
    triage = script([transfer("billing", reason="a bill", facts=["order A-1"])])
    dead = router_for(dead_store, live, shop(), {"triage": triage, "billing": held}, tmp_path)
    await dead.receive(conversation_id, CustomerMessage("m1", "my bill"))
    await held.holding.wait()
    await freeze(dead, conversation_id)
    billing = script([says("Billing here.")])
    alive = router_for(Store(store.backend), live, shop(), {"billing": billing}, tmp_path)
    await alive.start()

    async def answered() -> bool:
        return "Billing here." in texts(await store.read(conversation_id), "ai:billing")

    await wait_until("the living worker answers as billing", answered)
    held.gate.set()
    await wait_until("the frozen turn ends", lambda: dead.running == 0)
    await alive.stop()

    events = await store.read(conversation_id)
    assert types(events).count("handoff.completed") == 1
    assert texts(events, "ai:billing") == ["Billing here."]
    seen: Any = billing.calls[0].input
    assert "order A-1" in seen[0]["content"] and seen[-1]["content"] == "my bill"


async def test_crash_before_the_transfer_leaves_the_old_owner(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4: a transfer that a stale worker decided on changes nothing: no owner, no event, no history."""
    router = router_for(store, live, shop(), {"triage": script([says("Hello.")])}, tmp_path)
    await ask(router, conversation_id, "hi")
    await store.enqueue(conversation_id, "m2", {"id": "m2", "text": "my bill"}, start=Owner.ai("triage"))
    stale = await store.claim(conversation_id)
    await store.release(conversation_id, stale.token)
    before = await store.get(conversation_id)

    with pytest.raises(StaleOwner):
        await store.transfer(
            conversation_id,
            stale.token,
            "late",
            to=Owner.ai("billing"),
            change={"text": "no"},
            agent_id="triage",
            items=[{"role": "user", "content": "x"}],
            seed=[{"role": "user", "content": "y"}],
        )

    now = await store.get(conversation_id)
    assert (now.owner, now.seq, now.waiting) == (Owner.ai("triage"), before.seq, 1)
    assert await store.history(conversation_id, "billing") == ()
    assert len(await store.history(conversation_id, "triage")) == 2


async def test_refused_transfer_has_no_completed_record(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: four kinds of records; what did not happen has no `accepted` and no `completed`."""
    triage = script([transfer("legal")], [says("I'll help you myself.")])
    router = router_for(store, live, shop(), {"triage": triage}, tmp_path)

    events = await ask(router, conversation_id, "hello")

    assert [kind for kind in types(events) if kind.startswith("handoff.")] == ["handoff.refused"]


async def test_records_of_a_transfer_say_the_same(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: requested, accepted and completed name from, to, reason, brief and who decided."""
    models = {"triage": script([transfer("billing", reason="a bill", goal="pay")]), "billing": script([says("Hi")])}
    router = router_for(store, live, shop(), models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    wanted = {"from": "triage", "to": "billing", "reason": "a bill", "brief": {"goal": "pay"}, "decided_by": "model"}
    records = {event.type: event.data for event in events if event.type.startswith("handoff.")}
    assert list(records) == ["handoff.requested", "handoff.accepted", "handoff.completed"]
    assert all(wanted.items() <= data.items() for data in records.values())


async def test_returns_to_brings_the_customer_back(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.6: the owner stays until it hands on or back; then the next message goes to who has it now."""
    triage = script([transfer("billing")], [says("Anything else?")], [says("Bye.")])
    models = {"triage": triage, "billing": script([says("Paid.")], [transfer("triage", reason="done")])}
    router = router_for(store, live, shop(), models, tmp_path)
    await ask(router, conversation_id, "my bill")
    await ask(router, conversation_id, "that was all", "m2")

    events = await ask(router, conversation_id, "bye", "m3")

    assert texts(events, "ai:triage") == ["Anything else?", "Bye."]


async def test_agent_that_is_back_has_its_own_history_and_what_happened_meanwhile(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: its own earlier items as they were, then a note with only what it has not seen."""
    triage = script([says("Hello.")], [transfer("billing")], [says("Welcome back.")])
    models = {"triage": triage, "billing": script([says("Paid.")], [transfer("triage", reason="done")])}
    router = router_for(store, live, shop(), models, tmp_path)
    for place, text in enumerate(("hi", "my bill", "and now?")):
        await ask(router, conversation_id, text, f"m{place}")

    seen: Any = triage.calls[-1].input
    own, note, asked = seen[:-2], seen[-2]["content"], seen[-1]["content"]
    assert [item.get("role") or item["type"] for item in own] == [
        "user",
        "assistant",
        "user",
        "function_call",
        "function_call_output",
    ]
    assert "[billing] said: Paid." in note and "Reason: done" in note
    assert "Hello." not in note and "customer: hi" not in note
    assert asked == "and now?"


async def test_nothing_private_crosses_in_either_direction(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: each history holds the agent's own items and its notes, and nothing of the other's calls."""
    desk = roster(agent("triage", transfer_to=("billing",)), agent("billing", transfer_to=("triage",)))
    triage = script([transfer("nobody")], [transfer("billing")], [says("Back.")])
    billing = script([transfer("nowhere")], [says("Paid.")], [transfer("triage")])
    router = router_for(store, live, desk, {"triage": triage, "billing": billing}, tmp_path)
    await ask(router, conversation_id, "my bill")
    await ask(router, conversation_id, "back", "m2")

    of_triage = json.dumps(await store.history(conversation_id, "triage"))
    of_billing = json.dumps(await store.history(conversation_id, "billing"))
    assert "nowhere" not in of_triage and "nobody" not in of_billing
    assert all("nobody" not in str(call.input) for call in billing.calls)
    assert all("nowhere" not in str(call.input) for call in triage.calls)


async def test_guard_counts_over_the_whole_conversation(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.7: also one transfer per message comes to an end, with people."""
    desk = shop(limits={"transfers_per_conversation": 2})
    models = {
        "triage": script([transfer("billing")], [transfer("billing")]),
        "billing": script([says("Billing.")], [transfer("triage")]),
    }
    router = router_for(store, live, desk, models, tmp_path)
    await ask(router, conversation_id, "one")

    events = await ask(router, conversation_id, "two", "m2")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")
    assert "2 transfers in one conversation" in str([e.data for e in events if e.type == "owner.changed"][-1])
