"""Who can be transferred to right now: agents that are switched off and queues that are closed are no targets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agents import FunctionTool
from agents.testing import ScriptedModel

from handoffs.errors import UnknownTarget
from handoffs.lint import check
from handoffs.roster import Roster
from handoffs.router import Person
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import agent, roster, router_for, says, script, transfer
from tests.handoffs.folders import DESK, agent_file, write
from tests.handoffs.test_router import ask, texts, types

SUNDAY = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOURS = {"timezone": "Europe/Berlin", "open": {"mon-fri": "09:00-18:00"}}


def offered(model: ScriptedModel, call: int = 0) -> list[str]:
    """The enum of transfer_to_agent in a call; empty without the tool."""
    for tool in model.calls[call].tools:
        if isinstance(tool, FunctionTool) and tool.name == "transfer_to_agent":
            found: list[str] = tool.params_json_schema["properties"]["agent_id"]["enum"]
            return found
    return []


def with_off(**desk: Any) -> Roster:
    return roster(
        agent("triage", transfer_to=("billing", "orders", "human:support"), then=("billing",)),
        agent("billing", disabled=True),
        agent("orders", transfer_to=("triage",)),
        **desk,
    )


async def test_agent_that_is_switched_off_is_no_target(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1 and 2.2: it is not in the enum, asking for it is refused with the reason, plans pass it over."""
    triage = script([transfer("billing")], [says("I'll do it myself.")])
    router = router_for(store, live, with_off(), {"triage": triage}, tmp_path)

    events = await ask(router, conversation_id, "my bill")

    assert offered(triage) == ["orders", "human:support"]
    (refused,) = [event.data["why"] for event in events if event.type == "handoff.refused"]
    assert "billing is switched off." in refused
    assert (await store.get(conversation_id)).owner == Owner.ai("triage")


async def test_conversation_of_an_agent_that_is_switched_off_goes_to_its_successor(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: an owner that is switched off is followed like one that is gone."""
    before = roster(agent("billing"), agent("triage"), agent("orders"))
    first = router_for(store, live, before, {"billing": script([says("Billing here.")])}, tmp_path)
    await ask(first, conversation_id, "hi")
    models = {"orders": script([says("Orders here.")])}
    later = router_for(store, live, with_off(successors={"billing": "orders"}), models, tmp_path)

    events = await ask(later, conversation_id, "and now?", "m2")

    assert texts(events, "ai:orders") == ["Orders here."]


async def test_person_cannot_hand_back_to_an_agent_that_is_switched_off(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1 and 10: the error names the agents that can take it."""
    ann = Person("ann", "Ann")
    router = router_for(store, live, with_off(), {"triage": script([says("Hello.")])}, tmp_path)
    await ask(router, conversation_id, "hi")
    taken = await router.take(conversation_id, person=ann)

    with pytest.raises(UnknownTarget, match="no agent 'billing'; allowed: triage, orders"):
        await router.hand_back(conversation_id, taken.token, ann, "billing")


@pytest.mark.parametrize(
    ("files", "file", "field", "words"),
    [
        (
            {"triage/agent.md": agent_file("intended_use: All.\ntransfer_to: [human:support]\ndisabled: true")},
            "triage/agent.md",
            "disabled",
            "the start agent",
        ),
        (
            {
                "triage/agent.md": agent_file("intended_use: All.\ntransfer_to: [human:support]\non_error: billing"),
                "billing/agent.md": agent_file("intended_use: B.\ntransfer_to: [human:support]\ndisabled: true"),
            },
            "triage/agent.md",
            "on_error",
            "`billing` is switched off",
        ),
        (
            {
                "desk.yaml": DESK + "on_error: billing\n",
                "billing/agent.md": agent_file("intended_use: B.\ntransfer_to: [human:support]\ndisabled: true"),
            },
            "desk.yaml",
            "on_error",
            "`billing` is switched off",
        ),
    ],
)
def test_check_keeps_somebody_there_when_all_else_fails(
    tmp_path: Path, files: dict[str, str | bytes], file: str, field: str, words: str
) -> None:
    """handoffs.md 11: the start agent and the owners after a failure cannot be switched off."""
    (problem,) = check(write(tmp_path, files)).errors

    assert (problem.file, problem.field) == (file, field)
    assert words in problem.message


async def test_queue_that_refuses_outside_its_hours_is_no_target(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1 and 10: with `when_closed: refuse` hours decide about the enum; the model is told why."""
    queues = {"support": {"name": "Support", "hours": HOURS, "when_closed": "refuse"}}
    desk = roster(agent("triage", transfer_to=("orders", "human:support")), agent("orders"), queues=queues)
    triage = script([transfer("human:support")], [says("Nobody is there until Monday.")], [transfer("human:support")])
    router = router_for(store, live, desk, {"triage": triage}, tmp_path)
    router.team = replace(router.team, clock=lambda: SUNDAY)

    events = await ask(router, conversation_id, "a person please")

    assert offered(triage) == ["orders"]
    assert "nobody is at human:support now." in next(e.data["why"] for e in events if e.type == "handoff.refused")
    assert texts(events, "ai:triage") == ["Nobody is there until Monday."]

    router.team = replace(router.team, clock=lambda: SUNDAY.replace(day=30))
    await ask(router, conversation_id, "and on Monday?", "m2")
    assert (await store.get(conversation_id)).owner == Owner.queue("support")


async def test_failure_reaches_people_whatever_the_hours(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: a queue that refuses agents still gets what nobody else can answer, and says when it is back."""
    queues = {"support": {"name": "Support", "hours": HOURS, "when_closed": "refuse", "closed": "Back on Monday."}}
    desk = roster(agent("triage", transfer_to=("human:support",)), queues=queues)
    router = router_for(store, live, desk, {"triage": script(RuntimeError("down"))}, tmp_path)
    router.team = replace(router.team, clock=lambda: SUNDAY)

    events = await ask(router, conversation_id, "hi")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")
    assert "Back on Monday." in next(e.data["text"] for e in events if e.type == "owner.changed")


async def test_loop_guard_rings_an_alarm(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 2.7: the guard has a defined exit, a sentence for the customer and a counter for operators."""
    desk = roster(
        agent("triage", transfer_to=("orders",)),
        agent("orders", transfer_to=("triage",)),
        limits={"transfers_per_turn": 1},
    )
    models = {"triage": script([transfer("orders")]), "orders": script([transfer("triage")])}
    router = router_for(store, live, desk, models, tmp_path)

    events = await ask(router, conversation_id, "hi")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")
    assert "round in circles" in next(e.data["text"] for e in reversed(events) if e.type == "owner.changed")
    assert router.alarms.counts == {"loop_guard": 1, "announced_only": 0, "guardrail": 0}
    assert types(events).count("handoff.completed") == 2
