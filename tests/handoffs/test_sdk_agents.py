"""Agents of the OpenAI Agents SDK in our roster: real SDK agents, a real store, scripted models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    FunctionToolResult,
    GuardrailFunctionOutput,
    ModelSettings,
    RunContextWrapper,
    StopAtTools,
    ToolsToFinalOutputResult,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from agents.testing import ScriptedModel, function_call
from pydantic import BaseModel

from handoffs.context import TurnContext
from handoffs.roster import Roster
from handoffs.sdk_agents import with_route
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import says, script, transfer
from tests.handoffs.test_router import ask, texts

QUEUES = {"support": {"name": "Support team"}}


def enum_of(model: ScriptedModel, call: int = 0) -> list[str]:
    """The targets that `transfer_to_agent` offered to the model."""
    tool = next(tool for tool in model.calls[call].tools if tool.name == "transfer_to_agent")
    assert isinstance(tool, FunctionTool)
    found: list[str] = tool.params_json_schema["properties"]["agent_id"]["enum"]
    return found


async def test_native_handoffs_become_transfer_to_agent_with_a_sticky_owner(
    open_router: Any, conversation_id: str
) -> None:
    """handoffs.md 2.1, 2.6: `handoffs=[...]` are the enum of one tool; the specialist keeps the customer."""
    billing_model = script([says("Which invoice?")], [says("Refunded.")])
    triage_model = script([transfer("billing_agent", reason="a refund")])
    billing = Agent[Any](name="Billing agent", instructions="You do refunds.", model=billing_model)
    orders = Agent[Any](name="Orders", handoff_description="Parcels.", model=script())
    triage = Agent[Any](name="Triage", handoffs=[billing, handoff(orders)], model=triage_model)
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    await ask(router, conversation_id, "a refund please")
    events = await ask(router, conversation_id, "invoice 7", "m2")

    assert enum_of(triage_model) == ["billing_agent", "orders"]
    assert triage_model.calls[0].handoffs == []
    assert texts(events, "ai:billing_agent") == ["Which invoice?", "Refunded."]
    assert len(triage_model.calls) == 1
    assert next(e for e in events if e.type == "owner.changed").data["text"] == "You're now talking to Billing agent."
    assert "From: triage" in str(billing_model.calls[0].input)


async def test_nothing_of_the_agent_that_was_given_changes(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 1: the user's Agent object is as it was, after the desk has run with it."""

    @function_tool
    def look_up() -> str:
        """Look it up."""
        return "found"

    billing = Agent[Any](name="Billing", model=script([says("ok")]))
    triage = Agent[Any](
        name="Triage", instructions="Hi.", tools=[look_up], handoffs=[billing], model=script([transfer("billing")])
    )
    before = {name: getattr(triage, name) for name in vars(triage)}
    lists = (list(triage.tools), list(triage.handoffs))
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    await ask(router, conversation_id, "hello")

    assert {name: getattr(triage, name) for name in vars(triage)} == before
    assert (triage.tools, triage.handoffs) == lists
    assert triage.tools[0] is look_up and triage.tool_use_behavior == "run_llm_again"


async def test_instructions_function_is_asked_before_each_model_call_and_our_rules_follow(
    open_router: Any, conversation_id: str
) -> None:
    """handoffs.md 1: `instructions` may be an async function of (context, agent); it gets the agent that was given."""
    asked: list[str] = []

    async def instructions(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        asked.append(agent.name)
        return f"Turn {len(asked)} of {ctx.context.conversation_id} {{literal}}."

    @function_tool
    def noop() -> str:
        """Nothing."""
        return "done"

    model = script([function_call("noop", {}, call_id="n1")], [says("Hi")])
    router = open_router(Roster.from_agents(Agent(name="One", instructions=instructions, tools=[noop], model=model)))

    await ask(router, conversation_id, "hello")

    assert asked == ["One", "One"]
    assert str(model.calls[1].system_instructions).startswith(f"Turn 2 of {conversation_id} {{literal}}.\n\n# How this")
    assert "You speak to the customer as One." in str(model.calls[1].system_instructions)


async def test_model_settings_of_the_agent_win_over_those_of_the_desk(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 1: temperature, tool_choice ... reach the model as the agent says them."""
    model = script([says("Hi")])
    one = Agent[Any](name="One", model=model, model_settings=ModelSettings(temperature=0.25, max_tokens=77))
    router = open_router(Roster.from_agents(one))

    await ask(router, conversation_id, "hello")

    settings = model.calls[0].model_settings
    assert (settings.temperature, settings.max_tokens) == (0.25, 77)


async def test_on_handoff_runs_when_the_transfer_is_accepted_and_its_failure_refuses_it(
    open_router: Any, conversation_id: str
) -> None:
    """handoffs.md 2.2, 2.5: `on_handoff` of handoff(...) is called once; if it raises, nothing moves and it is said."""
    called: list[str] = []

    def on_billing(ctx: RunContextWrapper[Any]) -> None:
        called.append(ctx.context.conversation_id)

    def on_orders(ctx: RunContextWrapper[Any]) -> None:
        raise RuntimeError("secret-path")

    billing = Agent[Any](name="Billing", model=script([says("Billing here.")]))
    orders = Agent[Any](name="Orders", model=script())
    model = script([transfer("orders")], [transfer("nowhere")], [transfer("billing")])
    triage = Agent[Any](
        name="Triage",
        model=model,
        handoffs=[handoff(billing, on_handoff=on_billing), handoff(orders, on_handoff=on_orders)],
    )
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    events = await ask(router, conversation_id, "hello")

    assert called == [conversation_id]
    assert texts(events, "ai:billing") == ["Billing here."]
    refused = [event.data for event in events if event.type == "handoff.refused"]
    assert [refusal["to"] for refusal in refused] == ["orders", "nowhere"]
    assert "Allowed targets now: billing." in refused[0]["why"] and "secret-path" not in str(events)


@dataclass
class Shop:
    """A context object as an author of agents has it."""

    conversation: str


class Escalation(BaseModel):
    """Why somebody senior is needed."""

    severity: int
    summary: str


async def test_input_type_of_a_handoff_is_asked_for_checked_and_given_to_on_handoff(
    open_router: Any, conversation_id: str
) -> None:
    """handoffs.md 2.2: arguments that do not fit are a refusal that the model corrects; then on_handoff gets them."""
    got: list[Escalation] = []

    async def escalate(ctx: RunContextWrapper[Any], about: Escalation) -> None:
        got.append(about)

    senior = Agent[Any](name="Senior", model=script([says("I take it.")]))
    wrong, right = transfer("senior"), transfer("senior")
    wrong.arguments = wrong.arguments[:-1] + ', "input": {"severity": "high"}}'
    right.arguments = right.arguments[:-1] + ', "input": {"severity": 3, "summary": "angry"}}'
    model = script([wrong], [right])
    triage = Agent[Any](
        name="Triage", model=model, handoffs=[handoff(senior, on_handoff=escalate, input_type=Escalation)]
    )
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    events = await ask(router, conversation_id, "hello")

    assert got == [Escalation(severity=3, summary="angry")]
    assert texts(events, "ai:senior") == ["I take it."]
    (refused,) = [event.data for event in events if event.type == "handoff.refused"]
    assert "`input` does not fit" in refused["why"] and "severity" in refused["why"]
    tool = next(tool for tool in model.calls[0].tools if isinstance(tool, FunctionTool))
    assert tool.params_json_schema["properties"]["input"]["anyOf"][0]["required"] == ["severity", "summary"]


async def test_is_enabled_of_a_handoff_hides_the_target_and_refuses_it(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 2.1: a handoff that is switched off right now is not in the enum, and cannot be made."""
    vip = {"is": False}

    async def only_vip(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> bool:
        return vip["is"]

    concierge = Agent[Any](name="Concierge", model=script([says("Welcome.")]))
    never = Agent[Any](name="Never", model=script())
    billing = Agent[Any](name="Billing", model=script())
    model = script([transfer("concierge")], [says("I can help.")], [transfer("concierge")])
    handoffs: list[Any] = [handoff(concierge, is_enabled=only_vip), handoff(never, is_enabled=False), billing]
    router = open_router(Roster.from_agents(Agent(name="Triage", model=model, handoffs=handoffs), queues=QUEUES))

    events = await ask(router, conversation_id, "hello")
    vip["is"] = True
    later = await ask(router, conversation_id, "I am a VIP now", "m2")

    assert enum_of(model) == ["billing"]
    assert "switched off right now. Allowed targets now: billing." in str(events)
    assert enum_of(model, 2) == ["concierge", "billing"]
    assert texts(later, "ai:concierge") == ["Welcome."]


async def test_own_context_object_reaches_all_code_of_the_agent(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 1: with `context=make`, tools, instructions, guardrails, hooks and on_handoff see the author's own
    context, one object per run."""
    seen: list[tuple[str, object]] = []

    def note(what: str, ctx: RunContextWrapper[Shop]) -> None:
        seen.append((what, ctx.context))

    class Hooks(AgentHooks[Shop]):
        async def on_start(self, context: Any, agent: Any) -> None:
            note("hook", context)

    @function_tool
    def tool(ctx: RunContextWrapper[Shop]) -> str:
        """Does it."""
        note("tool", ctx)
        return "done"

    @input_guardrail
    def guard(ctx: RunContextWrapper[Shop], agent: Any, input: Any) -> GuardrailFunctionOutput:
        note("guardrail", ctx)
        return GuardrailFunctionOutput(None, tripwire_triggered=False)

    def instructions(ctx: RunContextWrapper[Shop], agent: Agent[Shop]) -> str:
        note("instructions", ctx)
        return "Help."

    def on_handoff(ctx: RunContextWrapper[Shop]) -> None:
        note("on_handoff", ctx)

    last = Agent[Shop](name="Last", model=script([says("Hi")]))
    first = Agent[Shop](
        name="First",
        instructions=instructions,
        tools=[tool],
        hooks=Hooks(),
        input_guardrails=[guard],
        handoffs=[handoff(last, on_handoff=on_handoff)],
        model=script([function_call("tool", {}, call_id="t1")], [transfer("last")]),
    )

    def make(turn: TurnContext) -> Shop:
        return Shop(turn.conversation_id)

    router = open_router(Roster.from_agents(first, context=make, queues=QUEUES))

    await ask(router, conversation_id, "hello")

    assert {what for what, _ in seen} == {"hook", "tool", "guardrail", "instructions", "on_handoff"}
    assert {id(context) for _, context in seen} == {id(seen[0][1])}
    assert seen[0][1] == Shop(conversation_id)


class Answer(BaseModel):
    """A typed output."""

    answer: str
    confidence: float


async def test_typed_output_is_told_by_say_and_never_shown_as_json(
    open_router: Any, store: Store, conversation_id: str
) -> None:
    """handoffs.md 1: an agent with an `output_type` gives its object; the customer reads what `say` makes of it."""
    model = script([says('{"answer": "It arrives today.", "confidence": 0.9}')])
    one = with_route(
        Agent[Any](name="One", output_type=Answer, model=model), say=lambda output: f"{output.answer} Sure."
    )
    router = open_router(Roster.from_agents(one))

    events = await ask(router, conversation_id, "when?")

    assert texts(events, "ai:one") == ["It arrives today. Sure."]
    assert model.calls[0].output_schema is not None
    assert "confidence" in str(await store.history(conversation_id, "one"))


@function_tool
def opening_hours() -> str:
    """When are you open?"""
    return "We are open from 9 to 5."


@function_tool
def address() -> str:
    """Where are you?"""
    return "Main Street 1"


def only_hours(ctx: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
    found = [result.output for result in results if result.tool.name == "opening_hours"]
    return ToolsToFinalOutputResult(is_final_output=bool(found), final_output=found and f"Answer: {found[0]}")


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        ("run_llm_again", "Model again."),
        ("stop_on_first_tool", "We are open from 9 to 5."),
        (StopAtTools(stop_at_tool_names=["address"]), "Main Street 1"),
        (only_hours, "Answer: We are open from 9 to 5."),
    ],
)
async def test_tool_use_behavior_of_the_agent_still_decides(
    open_router: Any, conversation_id: str, behaviour: Any, expected: str
) -> None:
    """handoffs.md 1: each kind of `tool_use_behavior` ends the run as in the SDK, and the customer reads its output."""
    calls = [function_call("opening_hours", {}, call_id="c1"), function_call("address", {}, call_id="c2")]
    model = script(calls, [says("Model again.")])
    one = Agent[Any](name="One", tools=[opening_hours, address], tool_use_behavior=behaviour, model=model)
    router = open_router(Roster.from_agents(one))

    events = await ask(router, conversation_id, "when and where?")

    assert texts(events, "ai:one") == [expected]


async def test_refused_transfer_does_not_end_a_stop_on_first_tool_agent(open_router: Any, conversation_id: str) -> None:
    """handoffs.md 2.2: the refusal goes back to the model; it is not the agent's own tool."""
    two = Agent[Any](name="Two", model=script([says("Two here.")]))
    model = script([transfer("nowhere")], [transfer("two")])
    one = Agent[Any](name="One", tools=[address], tool_use_behavior="stop_on_first_tool", handoffs=[two], model=model)
    router = open_router(Roster.from_agents(one, queues=QUEUES))

    events = await ask(router, conversation_id, "hello")

    assert texts(events, "ai:two") == ["Two here."]
    assert texts(events, "ai:one") == []


async def test_input_guardrails_run_for_each_new_owner(open_router: Any, store: Store, conversation_id: str) -> None:
    """handoffs.md 2.9: the specialist's own guardrail checks the message that triage passed on, and stops it."""
    checked: list[str] = []

    @input_guardrail
    def no_codes(ctx: RunContextWrapper[Any], agent: Agent[Any], input: Any) -> GuardrailFunctionOutput:
        checked.append(agent.name)
        return GuardrailFunctionOutput(None, tripwire_triggered="4711" in str(input))

    billing = Agent[Any](name="Billing", input_guardrails=[no_codes], model=script([says("The code is right.")]))
    triage = Agent[Any](name="Triage", handoffs=[billing], model=script([transfer("billing")]))
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    events = await ask(router, conversation_id, "my code is 4711")

    assert checked == ["Billing"]
    assert texts(events, "ai:billing") == []
    assert (await store.get(conversation_id)).owner == Owner.queue("support")


async def test_output_guardrails_stop_an_answer_before_anything_of_it_is_shown_and_spare_transfers(
    open_router: Any, store: Store, conversation_id: str
) -> None:
    """handoffs.md 11: what a guardrail stops is never a draft either; a transfer is no output to check."""

    @output_guardrail
    def no_prices(ctx: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    billing = Agent[Any](name="Billing", output_guardrails=[no_prices], model=script([says("It is 5 EUR.")]))
    triage = Agent[Any](
        name="Triage", output_guardrails=[no_prices], handoffs=[billing], model=script([transfer("billing")])
    )
    router = open_router(Roster.from_agents(triage, queues=QUEUES))

    events = await ask(router, conversation_id, "how much?")

    assert [e.owner_to for e in events if e.type == "owner.changed"] == ["ai:billing", "queue:support"]
    assert "5 EUR" not in str(events)
    assert "msg.retracted" not in [event.type for event in events]


async def test_agent_as_tool_asks_its_own_model_and_stays_unseen(
    open_router: Any, store: Store, conversation_id: str
) -> None:
    """handoffs.md 6: `Agent.as_tool` of an SDK agent: its own model and instructions, nothing of it shown or kept."""
    expert_model = script([says("Secret reasoning: 42.")])
    expert = Agent[Any](name="Expert", instructions="Be an expert.", model=expert_model)
    model = script([function_call("ask_it", {"input": "q?"}, call_id="c1")], [says("It is 42.")])
    one = Agent[Any](name="One", tools=[expert.as_tool("ask_it", "Ask.")], model=model)
    router = open_router(Roster.from_agents(one))

    events = await ask(router, conversation_id, "what is it?")

    assert texts(events, "ai:one") == ["It is 42."]
    assert expert_model.calls[0].system_instructions == "Be an expert."
    assert "Secret reasoning" in str(model.calls[1].input)
    assert not await store.history(conversation_id, "expert")


async def test_tool_that_needs_approval_in_the_sdk_is_decided_by_people(
    open_router: Any, store: Store, conversation_id: str
) -> None:
    """handoffs.md 8: `needs_approval=True` is the `approval:` of an agent file; the call waits, and is made once."""
    done: list[str] = []

    @function_tool(needs_approval=True)
    def refund(order: str) -> str:
        """Pay back."""
        done.append(order)
        return "refunded"

    call = function_call("refund", {"order": "A-1"}, call_id="c1")
    model = script([call], [says("Refunded.")], [says("Soon.")])
    router = open_router(Roster.from_agents(Agent(name="One", tools=[refund], model=model), queues=QUEUES))
    await ask(router, conversation_id, "refund A-1")
    before = list(done)
    (approval,) = await store.approvals(conversation_id)

    await store.decide_approval(conversation_id, approval.approval_id, "granted", by="human:ann")
    await ask(router, conversation_id, "and?", "m2")

    assert (before, done) == ([], ["A-1"])
    assert approval.call["arguments"] == {"order": "A-1"}
    assert (await store.get(conversation_id)).owner == Owner.ai("one")


async def test_rule_of_an_sdk_tool_says_which_calls_wait(open_router: Any, store: Store, conversation_id: str) -> None:
    """handoffs.md 8: `needs_approval` as a function: a small refund is made at once, a large one waits for its word."""
    done: list[int] = []

    async def large(_: Any, arguments: dict[str, Any], call_id: str) -> bool:
        return int(arguments["amount"]) > 100

    @function_tool(needs_approval=large)
    def refund(amount: int) -> str:
        """Pay back."""
        done.append(amount)
        return "refunded"

    small = function_call("refund", {"amount": 5}, call_id="c1")
    big = function_call("refund", {"amount": 500}, call_id="c2")
    model = script([small], [big], [says("Both refunded.")], [says("Soon.")])
    router = open_router(Roster.from_agents(Agent(name="One", tools=[refund], model=model), queues=QUEUES))
    await ask(router, conversation_id, "refund 5 and 500")
    before = list(done)
    (approval,) = await store.approvals(conversation_id)

    await store.decide_approval(conversation_id, approval.approval_id, "granted", by="human:ann")
    await ask(router, conversation_id, "and?", "m2")

    assert (before, done) == ([5], [5, 500])
