"""Deterministic transfers: `then:` with conditions, what the next agent sees of them, and when they do not happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents.testing import function_call

from handoffs.approvals import decide
from handoffs.loader import load_roster
from handoffs.roster import Roster
from handoffs.router import Router
from sessions.live import Live
from sessions.model import Event, Owner, ValueWrite
from sessions.store import Store
from tests.handoffs.approving import Counted, asked, calls, desk_router, said
from tests.handoffs.desks import agent, roster, router_for, says, script, transfer
from tests.handoffs.folders import DESK, agent_file, write
from tests.handoffs.test_guardrails import desk as guarded
from tests.handoffs.test_router import ask, types

VALUES = {"risk": {"allowed": ("high", "low")}}


def shop(*then: Any, **orders: Any) -> Roster:
    return roster(
        agent("orders", then=then, transfer_to=("billing",), **orders),
        agent("billing"),
        agent("survey", history={"mode": "full"}),
        queues={"support": {"name": "Support"}, "fraud": {"name": "Fraud"}},
        values=VALUES,
    )


async def set_risk(router: Router, conversation_id: str, risk: str) -> None:
    await router.store.set_values(conversation_id, "set-risk", [ValueWrite("risk", risk)], by="system")


def movers(events: list[Event]) -> list[Any]:
    return [event.data["to"] for event in events if event.type == "owner.changed"]


@pytest.mark.parametrize(("risk", "owner"), [("high", Owner.queue("fraud")), ("low", Owner.ai("survey"))])
async def test_condition_on_a_value_picks_the_next_owner(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, risk: str, owner: Owner
) -> None:
    """handoffs.md 3: with several targets a `when:` condition on values picks one."""
    desk = shop({"to": "human:fraud", "when": "risk is high"}, {"to": "survey", "when": "risk is not high"})
    models = {"orders": script([says("hi")], [says("It arrives today.")]), "survey": script([says("How was it?")])}
    first = router_for(store, live, roster(agent("orders"), values=VALUES), {"orders": models["orders"]}, tmp_path)
    await ask(first, conversation_id, "hello")
    await set_risk(first, conversation_id, risk)
    router = router_for(store, live, desk, models, tmp_path)

    await ask(router, conversation_id, "where is it?", "m2")

    assert (await store.get(conversation_id)).owner == owner


async def test_condition_is_asked_when_the_agent_has_answered(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: a value that the agent's own tool set in this turn counts."""
    desk_yaml = DESK + "values:\n  risk: {allowed: [high, low]}\n"
    tools = (
        "from agents import RunContextWrapper, function_tool\n\n@function_tool\n"
        "def rate(ctx: RunContextWrapper) -> str:\n"
        '    "Rate."\n    ctx.context.values.set("risk", "high")\n    return "rated"\n'
    )
    settings = "intended_use: All.\ntransfer_to: [human:support]\ntools: [rate]\nvalues: {write: [risk]}\n"
    settings += "then: [{to: billing, when: risk is high}]"
    folder = write(
        tmp_path / "agents", {"desk.yaml": desk_yaml, "triage/agent.md": agent_file(settings), "triage/tools.py": tools}
    )
    models = {
        "triage": script([function_call("rate", {}, call_id="c1")], [says("Rated.")]),
        "billing": script([says("Billing here.")]),
    }
    router = router_for(store, live, load_roster(folder), models, tmp_path)

    events = await ask(router, conversation_id, "rate me")

    assert movers(events) == ["billing"]


async def test_label_decides_like_a_value(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 3 and 8: a label such as a refused approval can be branched on."""
    desk = shop({"to": "survey", "when": "approval.issue_refund is refused"})
    models = {"orders": script([says("Sorry.")]), "survey": script([says("How was it?")])}
    router = router_for(store, live, desk, models, tmp_path)
    await store.enqueue(
        conversation_id,
        "m0",
        {"id": "m0", "text": "my refund?"},
        start=Owner.ai("orders"),
        meta={"language": "en", "labels": {"approval.issue_refund": "refused"}},
    )

    events = await ask(router, conversation_id, "well?")

    assert movers(events) == ["survey"]


async def test_record_of_a_rule_can_be_hidden_from_the_next_agent(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: the two-message record is in the old owner's history, and with `hidden` nowhere else."""
    seen: list[str] = []
    for place, hidden in enumerate((False, True)):
        survey = script([says("How was it?")])
        desk = shop({"to": "survey", "hidden": hidden})
        router = router_for(store, live, desk, {"orders": script([says("Today.")]), "survey": survey}, tmp_path)
        await ask(router, f"{conversation_id}{place}", "where is it?")
        seen.append(str(survey.calls[0].input))
        record = (await store.history(f"{conversation_id}{place}", "orders"))[-2:]
        assert [item["type"] for item in record] == ["function_call", "function_call_output"]

    shown, without = seen
    assert "From: orders" in shown and "[orders] called transfer_to_agent" in shown
    assert "From:" not in without and "Reason:" not in without and "transfer_to_agent" not in without
    assert "[orders] said: Today." in without


async def test_nothing_follows_an_error_a_spent_budget_or_an_own_transfer(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: not after an error or the agent's own transfer."""
    desk = shop("survey", limits={"model_calls": 2})
    outcomes: dict[str, tuple[list[Any], Owner]] = {
        "error": ([RuntimeError("down")], Owner.queue("support")),
        "budget": ([[transfer("nobody")], [transfer("nobody")]], Owner.queue("support")),
        "own": ([[transfer("billing")]], Owner.ai("billing")),
    }
    for name, (steps, owner) in outcomes.items():
        models = {"orders": script(*steps), "billing": script([says("Billing here.")])}
        router = router_for(store, live, desk, models, tmp_path)
        events = await ask(router, f"{conversation_id}{name}", "hello")
        assert (await store.get(f"{conversation_id}{name}")).owner == owner, name
        assert "survey" not in movers(events), name


async def test_nothing_follows_while_a_call_waits_for_approval(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: not after an interrupt; the plan goes on when the agent has ended its answer."""
    counted = Counted(tmp_path)
    desk = roster(agent("billing", tools=("refund",), approval=("refund",), then=("survey",)), agent("survey"))
    models = {
        "billing": script([says("One moment."), calls("refund", order="A-1")], [says("Refunded.")]),
        "survey": script([says("How was it?")]),
    }
    router = desk_router(store, live, desk, counted, models, tmp_path)
    await router.start()
    await ask(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)
    resting = movers(await store.read(conversation_id))

    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    events = await said(store, conversation_id, "How was it?")
    await router.stop()

    assert (resting, movers(events)) == ([], ["survey"])


@pytest.mark.parametrize(("stays", "owner"), [("stay", "ai:triage"), ("on_error", "queue:support")])
async def test_nothing_follows_what_a_guardrail_stopped(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, stays: str, owner: str
) -> None:
    """handoffs.md 3: an answer that nobody may read ends no step of a plan, whoever owns then."""
    settings = f"guardrails: [no_prices]\nthen: [billing]\non_guardrail: {stays}"
    router = router_for(
        store, live, guarded(tmp_path, "", triage=settings), {"triage": script([says("It is 5 EUR.")])}, tmp_path
    )

    events = await ask(router, conversation_id, "how much?")

    assert "guardrail.tripped" in types(events) and "billing" not in movers(events)
    assert (await store.get(conversation_id)).owner.ref == owner


async def test_nothing_follows_the_exit_of_a_loop(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3 and 2.7: the loop guard sends to people, and nobody speaks after that."""
    desk = roster(
        agent("orders", transfer_to=("billing",)),
        agent("billing", transfer_to=("orders",), then=("survey",)),
        agent("survey"),
        limits={"transfers_per_turn": 1},
    )
    models = {"orders": script([transfer("billing")]), "billing": script([says("Back."), transfer("orders")])}
    router = router_for(store, live, desk, models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    assert movers(events) == ["billing", "human:support"]
    assert router.alarms.counts["loop_guard"] == 1


async def test_plan_that_goes_round_is_ended_with_an_alarm_and_a_record(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.7: `then` from a to b and back ends after one round; the customer has answers, operators know."""
    desk = roster(agent("a", then=("b",)), agent("b", then=("a",)))
    models = {"a": script([says("A1")], [says("A2")]), "b": script([says("B1")])}
    router = router_for(store, live, desk, models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    assert movers(events) == ["b", "a"]
    (record,) = [event.data for event in events if event.type == "handoff.refused"]
    assert record == {
        "from": "a",
        "to": "b",
        "why": "a and b keep transferring to each other",
        "decided_by": "loop_guard",
    }
    assert router.alarms.counts["loop_guard"] == 1
    assert (await store.get(conversation_id)).waiting == 0


async def test_plan_ends_where_a_planned_agent_transfers_itself(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: an agent's own transfer ends the plan that it is part of."""
    desk = roster(
        agent("orders", then=("care", "survey")),
        agent("care", transfer_to=("billing",)),
        agent("survey"),
        agent("billing"),
    )
    models = {
        "orders": script([says("Today.")]),
        "care": script([transfer("billing")]),
        "billing": script([says("Billing here.")]),
    }
    router = router_for(store, live, desk, models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    assert movers(events) == ["care", "billing"]
    assert types(events)[-1] == "msg.created"
