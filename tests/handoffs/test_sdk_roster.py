"""A roster of SDK agents: plans, histories and colleagues of theirs, their ids, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from agents import (
    Agent,
    Handoff,
    HandoffInputData,
    RunContextWrapper,
    function_tool,
    handoff,
)
from agents.extensions.handoff_filters import remove_all_tools
from agents.testing import function_call

from handoffs.context import TurnContext
from handoffs.errors import RosterInvalid
from handoffs.roster import Roster
from handoffs.sdk_agents import deterministic_transfer, id_of, with_route
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import says, script, transfer
from tests.handoffs.test_router import ask, texts
from tests.handoffs.test_sdk_agents import Escalation, enum_of

QUEUES = {"support": {"name": "Support team"}}


async def test_deterministic_transfer_of_an_sdk_agent_is_an_ordered_plan(
    open_router: Any, store: Store, conversation_id: str
) -> None:
    """handoffs.md 3: deterministic_transfer(agent, to=[...]) runs each target in its turn, and leaves the record."""
    survey = Agent[Any](name="Survey", model=script([says("How was it?")]))
    care = Agent[Any](name="Care", model=script([says("Water it.")]))
    plain = Agent[Any](name="Orders", model=script([says("It arrives today.")]))
    orders = deterministic_transfer(plain, to=[care, "Survey"])
    router = open_router(Roster.from_agents(orders, survey, queues=QUEUES))

    events = await ask(router, conversation_id, "where is my plant?")

    assert [e.data["text"] for e in events if e.type == "msg.created"][1:] == [
        "It arrives today.",
        "Water it.",
        "How was it?",
    ]
    assert [e.data["decided_by"] for e in events if e.type == "owner.changed"] == ["rule", "rule"]
    record = await store.history(conversation_id, "orders")
    assert [item.get("type") for item in record][-2:] == ["function_call", "function_call_output"]
    assert record[-2]["arguments"] == '{"agent_id": "care"}'
    assert not hasattr(plain, "_frontdesk_route")


async def test_deterministic_transfer_may_depend_on_a_value(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 3: a `when:` condition on values picks the step, also for an SDK agent."""

    @function_tool
    def note_vip(ctx: RunContextWrapper[TurnContext]) -> str:
        """Note it."""
        ctx.context.values.set("vip", True)
        return "noted"

    concierge = Agent[Any](name="Concierge", model=script([says("At your service.")]))
    survey = Agent[Any](name="Survey", model=script())
    model = script([function_call("note_vip", {}, call_id="v1")], [says("Done.")])
    plain = with_route(Agent[Any](name="Orders", tools=[note_vip], model=model), values={"write": ["vip"]})
    orders = deterministic_transfer(
        plain, to=[{"to": survey, "when": "vip == false"}, {"to": concierge, "when": "vip == true"}]
    )
    router = open_router(Roster.from_agents(orders, values={"vip": {"type": "boolean"}}, queues=QUEUES))

    events = await ask(router, conversation_id, "I am a VIP")

    assert [event.owner_to for event in events if event.type == "owner.changed"] == ["ai:concierge"]


async def test_history_of_an_sdk_agent_may_be_a_function(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 5: with_route(agent, history=function) is what an input_filter was for."""
    got: list[Any] = []

    def only_last(lines: Any, brief: Any) -> list[str]:
        got.append((lines, brief))
        return [f"the customer said {len(lines)} things; wanted: {brief.goal}"]

    billing_model = script([says("ok")])
    billing = with_route(Agent[Any](name="Billing", model=billing_model), history=only_last)
    triage = Agent[Any](
        name="Triage", handoffs=[billing], model=script([says("Hello")], [transfer("billing", goal="a refund")])
    )
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    await ask(router, conversation_id, "hi")
    await ask(router, conversation_id, "an invoice", "m2")

    assert len(got) == 1
    assert "things; wanted: a refund" in str(billing_model.calls[0].input)


async def test_sdk_agents_may_ask_and_host_each_other(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 6, 7: `ask` and `host` name agents by object, and they answer as agents of files do."""
    expert_model = script([says("It is 42.")])
    expert = Agent[Any](name="Expert", instructions="Be an expert.", model=expert_model)
    model = script([function_call("ask_expert", {"request": "what is it?"}, call_id="q1")], [says("42.")])
    one = with_route(Agent[Any](name="One", model=model), ask=[expert])
    router = open_router(Roster.from_agents(one, queues=QUEUES))

    events = await ask(router, conversation_id, "what is it?")

    assert texts(events, "ai:one") == ["42."]
    assert "It is 42." in str(model.calls[1].input)
    assert "Be an expert." in str(expert_model.calls[0].system_instructions)


async def test_failed_sdk_agent_is_not_followed_by_its_deterministic_transfer(
    open_router: Any, store: Store, conversation_id: str
) -> None:
    """handoffs.md 3: not after an error; the customer goes to people instead."""
    survey = Agent[Any](name="Survey", model=script())
    orders = deterministic_transfer(Agent[Any](name="Orders", model=script(RuntimeError("down"))), to=survey)
    router = open_router(Roster.from_agents(orders, queues=QUEUES))

    await ask(router, conversation_id, "hello")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")


async def test_chinese_agent_names_do_not_collide(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 2.1: `账单` and `售后` are two targets, each is reached, and the customer reads their names."""
    bills = Agent[Any](name="账单", instructions="你负责账单。", model=script([transfer(id_of("售后"))]))
    after = Agent[Any](name="售后", handoff_description="退货与维修", model=script([says("您好，我来处理退货。")]))
    bills.handoffs.append(after)
    model = script([transfer(id_of("账单"))])
    triage = Agent[Any](name="前台", handoffs=[bills, after], model=model)
    router = open_router(Roster.from_agents(triage, languages=("zh", "en"), queues=QUEUES))

    events = await ask(router, conversation_id, "我要退货，发票也不对")

    assert len(set(enum_of(model))) == 2
    assert all(name.isascii() for name in enum_of(model))
    told = [event.data["text"] for event in events if event.type == "owner.changed"]
    assert told == ["现在由账单为您服务。", "现在由售后为您服务。"]
    assert texts(events, f"ai:{id_of('售后')}") == ["您好，我来处理退货。"]


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("Billing", "billing"),
        ("Billing agent (EU)", "billing_agent_eu"),
        ("Café", "cafe"),
        ("24/7 help", "agent_24_7_help"),
        ("Human", "agent_human"),
        ("ＶＩＰ", "vip"),
        ("账单", "agent_4bf3c13e"),
        ("Billing 账单", "billing_"),
        ("a" * 60, "a" * 32 + "_"),
    ],
)
def test_ids_come_from_names(name: str, id_: str) -> None:
    """handoffs.md 2.1: ids are ASCII, start with a letter, are short, and are the same in every process."""
    found = id_of(name)
    assert found.startswith(id_) and found.isascii() and len(found) <= 41


def problems(*agents: Agent[Any], **desk: Any) -> str:
    with pytest.raises(RosterInvalid) as invalid:
        Roster.from_agents(*agents, **desk)
    return str(invalid.value)


def test_agents_that_cannot_be_told_apart_are_refused() -> None:
    """handoffs.md 2.1: equal ids, equal names, and ids that are none, each with the way out."""
    one, two = Agent[Any](name="Café"), Agent[Any](name="cafe")
    assert "its id would be `cafe`, like that of 'Café'" in problems(one, two)
    assert Roster.from_agents(one, two, ids={"cafe": "bistro"}).display_name("bistro") == "cafe"
    assert "another agent has the same name" in problems(one, Agent(name="Café"))
    assert "'Not good' is no id" in problems(one, ids={"Café": "Not good"})
    routed = with_route(one, returns_to="café")
    assert "with and without its route" in problems(routed, one)


def test_what_cannot_be_kept_of_a_handoff_is_refused_with_a_reason() -> None:
    """handoffs.md 5: an input_filter of one's own is not dropped silently; the shipped one means what we do anyway."""

    def mine(data: HandoffInputData) -> HandoffInputData:
        return data

    def back(ctx: RunContextWrapper[Any], arguments: str) -> Any:
        return None

    two = Agent[Any](name="Two")
    said = problems(Agent(name="One", handoffs=[handoff(two, input_filter=mine)]))
    assert "agent 'One': handoffs.0: input_filter is not used here" in said and "with_route(agent, history=" in said
    by_hand = Handoff[Any, Any](
        tool_name="t", tool_description="", input_json_schema={}, on_invoke_handoff=back, agent_name="Two"
    )
    assert "was not made by handoff(agent, ...)" in problems(Agent(name="One", handoffs=[by_hand]))
    kept = Roster.from_agents(Agent(name="One", handoffs=[handoff(two, input_filter=remove_all_tools)]))
    assert kept["one"].transfer_to == ("two",)


def test_wrong_routes_are_refused_with_field_and_allowed_values() -> None:
    """handoffs.md 2.2: the same words as for agent files."""
    one = Agent[Any](name="One")
    assert "agent 'One': tranfer_to: unknown field; did you mean `transfer_to`?" in problems(
        with_route(one, tranfer_to=["two"])
    )
    assert "there is no target `human:suport`; did you mean `human:support`?" in problems(
        with_route(one, transfer_to=["human:suport"]), queues=QUEUES
    )
    assert "agent 'One': tools: give them to the agent" in problems(with_route(one, tools=["x"]))
    assert "agent 'One': guardrails: give them to the agent" in problems(with_route(one, guardrails=["x"]))
    assert "agent 'One': delegate: nothing holds an agent of the SDK to looking things up" in problems(
        with_route(one, delegate={"to": ["two"]}), Agent(name="Two")
    )
    assert "the desk: queue: unknown field; did you mean `queues`?" in problems(one, queue={})
    assert "say what the customer reads of it" in problems(Agent(name="One", output_type=Escalation))


def test_version_is_the_same_for_the_same_agents_and_another_for_others() -> None:
    """store.md: two processes that build the same agents agree on the roster version."""

    def build(text: str) -> Roster:
        return Roster.from_agents(Agent(name="One", instructions=text), queues=QUEUES)

    assert build("a").version == build("a").version != build("b").version
