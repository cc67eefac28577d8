"""A run that ends in its model, because a transfer is all that was asked for: the same records as the Runner's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, GuardrailFunctionOutput, InputGuardrail
from agents.testing import function_call

from handoffs import run
from handoffs.lone_transfer import plain
from handoffs.router import CustomerMessage, Router
from handoffs.tools import end_on_request
from sessions.live import Live
from sessions.model import Item, Owner
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, shop, transfer
from tests.support import wait_until


async def answered(router: Router, conversation_id: str, text: str) -> None:
    await router.receive(conversation_id, CustomerMessage("m1", text))
    await wait_until("the turn ends", lambda: router.running == 0)


def nameless(items: Sequence[Item]) -> list[Item]:
    """Without what differs from run to run."""
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in items]


@pytest.mark.parametrize("also", [(), (says("One moment."),)], ids=["alone", "with text"])
async def test_the_history_is_what_the_runner_would_have_written(
    store: Store, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also: tuple[Any, ...]
) -> None:
    """triage's own history, its text and the events are equal, whoever ends the run."""
    histories, logs = [], []
    for conversation_id, short in (("short", True), ("long", False)):
        if not short:
            monkeypatch.setattr(run, "plain", lambda _: False)
        models = {
            "triage": script([*also, transfer("billing", reason="money", goal="refund")]),
            "billing": script([says("Here I am.")]),
        }
        await answered(router_for(store, live, shop(), models, tmp_path), conversation_id, "twice")
        histories.append(nameless(await store.history(conversation_id, "triage")))
        logs.append([(event.type, event.by, event.data.get("text")) for event in await store.read(conversation_id)])

    assert [item.get("type") for item in histories[0]][-2:] == ["function_call", "function_call_output"]
    assert histories[0] == histories[1]
    assert logs[0] == logs[1]


async def test_calls_before_the_transfer_stay_in_the_history(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A lookup in an earlier step of the run is remembered with its result, once."""
    models = {
        "triage": script([function_call("lookup", {}, call_id="c1")], [transfer("billing")]),
        "billing": script([says("Here I am.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)
    give_tool(router, "triage", "lookup")

    await answered(router, conversation_id, "twice")

    kinds = [item.get("type", item.get("role")) for item in await store.history(conversation_id, "triage")]
    assert kinds == ["user", *("function_call", "function_call_output") * 2]


async def test_a_refused_transfer_goes_back_to_the_model(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """What may not happen is told to the model, which corrects itself in the same run."""
    models = {
        "triage": script([transfer("nobody")], [transfer("billing")]),
        "billing": script([says("Here I am.")]),
    }
    await answered(router_for(store, live, shop(), models, tmp_path), conversation_id, "twice")

    events = [event.type for event in await store.read(conversation_id)]
    assert events.count("handoff.refused") == 1
    assert (await store.get(conversation_id)).owner == Owner.ai("billing")


async def test_a_second_call_in_the_same_response_is_made(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A lookup beside the transfer is not lost, whatever order the two come in."""
    models = {
        "triage": script([transfer("billing"), function_call("lookup", {}, call_id="c1")]),
        "billing": script([says("Here I am.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)
    made = give_tool(router, "triage", "lookup")

    await answered(router, conversation_id, "twice")

    assert made == ["lookup"]
    assert (await store.get(conversation_id)).owner == Owner.ai("billing")


async def test_unreadable_arguments_go_back_to_the_model(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A call whose arguments are no JSON is refused with words, and the run goes on."""
    broken = function_call("transfer_to_agent", "{", call_id="c1")
    models = {"triage": script([broken], [transfer("billing")]), "billing": script([says("Here I am.")])}
    await answered(router_for(store, live, shop(), models, tmp_path), conversation_id, "twice")

    assert (await store.get(conversation_id)).owner == Owner.ai("billing")


async def test_the_loop_guard_ends_a_run_as_well(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A transfer that the guard turns round goes to its exit, with the reason."""
    models = {"triage": script([transfer("billing")]), "billing": script([transfer("orders")])}
    router = router_for(store, live, shop(limits={"transfers_per_turn": 1}), models, tmp_path)

    await answered(router, conversation_id, "one")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")


def test_whoever_wants_to_see_the_run_is_not_passed_over() -> None:
    """Guardrails run beside the model, and hooks after it: with either the run takes its whole way."""

    def trip(*_: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    bare: Agent[Any] = Agent("a", tool_use_behavior=end_on_request)
    guarded: Agent[Any] = Agent("a", tool_use_behavior=end_on_request, input_guardrails=[InputGuardrail(trip)])

    assert plain(bare)
    assert not plain(guarded)
    assert not plain(Agent("a"))


def give_tool(router: Router, agent_id: str, name: str) -> list[str]:
    """Add a tool without arguments to an agent; the list gets its name at each call."""
    made: list[str] = []

    async def invoke(_: Any, __: str) -> str:
        made.append(name)
        return "done"

    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    tool = FunctionTool(name=name, description=name, params_json_schema=schema, on_invoke_tool=invoke)
    tools = {**router.team.tools, agent_id: (*router.team.tools[agent_id], tool)}
    router.team = replace(router.team, tools=tools)
    return made
