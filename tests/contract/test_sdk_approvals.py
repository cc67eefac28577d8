"""What openai-agents does with calls that need approval and with saved runs, where our code relies on it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    RunState,
    ToolApprovalItem,
    UserError,
    function_tool,
)
from agents.testing import ScriptedModel

from tests.contract.sdk import calls, model, one, relied_on_by, run, says

OURS = ("handoffs/approvals.py", "handoffs/run.py", "handoffs/waiting.py")


@dataclass
class Secret:
    """A context that must not be stored."""

    token: str


class Bank:
    """A refund that needs approval, a lookup that does not; both count."""

    def __init__(self) -> None:
        self.refunded: list[str] = []
        self.looked = 0

        @function_tool(needs_approval=True)
        def refund(order: str) -> str:
            """Pay back."""
            self.refunded.append(order)
            return f"refunded {order}"

        @function_tool
        def look() -> str:
            """Look it up."""
            self.looked += 1
            return "found"

        self.tools = [refund, look]

    def agent(self, scripted: ScriptedModel) -> Agent[Any]:
        return one(scripted, *self.tools)


def saved(result: RunResult) -> str:
    """The interrupted run as text, the way it is stored: without its context."""
    return json.dumps(result.to_state().to_json(context_serializer=lambda _: {}))


async def restored(agent: Agent[Any], text: str, context: Any = None) -> RunState[Any, Agent[Any]]:
    return await RunState.from_json(agent, json.loads(text), context_override=RunContextWrapper(context))


async def go_on(agent: Agent[Any], state: RunState[Any, Agent[Any]]) -> RunResult:
    return await Runner.run(agent, state, run_config=RunConfig(tracing_disabled=True))


def outputs(given: Any) -> list[str]:
    return [str(item["output"]) for item in given if item.get("type") == "function_call_output"]


@relied_on_by(*OURS)
async def test_a_call_that_needs_approval_interrupts_and_is_not_made() -> None:
    """The run comes back with name, arguments, call id and agent of the call; calls beside it have run."""
    bank = Bank()
    agent = bank.agent(model([calls("refund", "r1", order="A-1"), calls("look", "l1")]))

    result = await run(agent)

    (item,) = result.interruptions
    assert (bank.refunded, bank.looked) == ([], 1)
    assert (item.name, json.loads(item.arguments or ""), item.agent.name) == ("refund", {"order": "A-1"}, "one")
    raw: Any = item.raw_item
    assert raw.call_id == "r1"
    assert result.final_output is None


@relied_on_by(*OURS)
async def test_an_approved_call_is_made_once_after_the_state_went_through_json() -> None:
    """Another process reads the state: exactly that call runs, what ran before does not run again."""
    bank = Bank()
    result = await run(bank.agent(model([calls("refund", "r1", order="A-1"), calls("look", "l1")])))
    text = saved(result)

    later = model([says("done")])
    agent = bank.agent(later)
    state = await restored(agent, text)
    (item,) = state.get_interruptions()
    state.approve(item)
    after = await go_on(agent, state)

    assert (bank.refunded, bank.looked) == (["A-1"], 1)
    assert after.final_output == "done"
    assert sorted(outputs(later.calls[0].input)) == ["found", "refunded A-1"]


@relied_on_by(*OURS)
async def test_a_rejected_call_is_told_to_the_model_in_our_words() -> None:
    """`rejection_message` is the tool's result; the run goes on."""
    bank = Bank()
    result = await run(bank.agent(model([calls("refund", "r1", order="A-1")])))

    later = model([says("sorry")])
    agent = bank.agent(later)
    state = await restored(agent, saved(result))
    state.reject(state.get_interruptions()[0], rejection_message="Not done: Ann said no.")
    await go_on(agent, state)

    assert bank.refunded == []
    assert outputs(later.calls[0].input) == ["Not done: Ann said no."]


@relied_on_by(*OURS)
async def test_of_two_calls_each_is_answered_for_itself_and_ids_stay() -> None:
    """Answering one leaves the other waiting under the same call id; then the other may be answered."""
    bank = Bank()
    result = await run(bank.agent(model([calls("refund", "r1", order="A-1"), calls("refund", "r2", order="A-2")])))

    agent = bank.agent(model())
    state = await restored(agent, saved(result))
    first = next(item for item in state.get_interruptions() if _id(item) == "r1")
    state.approve(first)
    half = await go_on(agent, state)

    assert bank.refunded == ["A-1"]
    assert [_id(item) for item in half.interruptions] == ["r2"]

    end = bank.agent(model([says("done")]))
    state = await restored(end, saved(half))
    state.approve(state.get_interruptions()[0])
    await go_on(end, state)
    assert bank.refunded == ["A-1", "A-2"]


def _id(item: Any) -> str:
    raw = item.raw_item
    return str(raw["call_id"] if isinstance(raw, dict) else raw.call_id)


@relied_on_by(*OURS)
async def test_a_context_given_on_resume_is_the_one_that_tools_get() -> None:
    """A new TurnContext, with the epoch of now, goes into the run that goes on."""
    seen: list[Any] = []

    @function_tool(needs_approval=True)
    def act(ctx: RunContextWrapper[Any]) -> str:
        """Act."""
        seen.append(ctx.context)
        return "done"

    result = await run(one(model([calls("act", "a1")]), act), context="old")
    agent = one(model([says("ok")]), act)
    state = await restored(agent, saved(result), "new")
    state.approve(state.get_interruptions()[0])

    await go_on(agent, state)

    assert seen == ["new"]


@relied_on_by(*OURS)
async def test_the_context_is_not_in_a_saved_state_when_we_say_so() -> None:
    """`context_serializer` keeps clients, tokens and values of a dataclass context out of what is stored."""
    bank = Bank()
    result = await run(bank.agent(model([calls("refund", "r1", order="A-1")])), context=Secret("very-secret"))

    assert "very-secret" not in saved(result)


@relied_on_by(*OURS)
async def test_an_approval_inside_an_agent_as_tool_comes_to_the_outer_run() -> None:
    """handoffs.md 8: the interruption names the inner agent, survives JSON, and releases the inner call once."""
    bank = Bank()

    def outer(inner_steps: list[Any], steps: list[Any]) -> Agent[Any]:
        inner = Agent[Any](name="inner", model=model(*inner_steps), tools=list(bank.tools))
        return one(model(*steps), inner.as_tool("ask", "Ask."))

    result = await run(outer([[calls("refund", "r1", order="A-1")]], [[calls("ask", "q1", input="refund it")]]))
    (item,) = result.interruptions
    assert (item.name, item.agent.name, bank.refunded) == ("refund", "inner", [])

    agent = outer([[says("inner done")]], [[says("done")]])
    state = await restored(agent, saved(result))
    state.approve(state.get_interruptions()[0])
    after = await go_on(agent, state)

    assert bank.refunded == ["A-1"]
    assert after.final_output == "done"


@relied_on_by(*OURS)
async def test_needs_approval_may_be_a_function_of_the_arguments() -> None:
    """(context, arguments as a dict, call id) -> bool: small amounts go through."""
    asked: list[tuple[Any, dict[str, Any], str]] = []
    paid: list[int] = []

    async def large(ctx: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        asked.append((ctx.context, arguments, call_id))
        return int(arguments["amount"]) > 50

    @function_tool(needs_approval=large)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    result = await run(
        one(model([calls("pay", "p1", amount=5)], [calls("pay", "p2", amount=500)]), pay), context="ours"
    )

    assert paid == [5] and [_id(item) for item in result.interruptions] == ["p2"]
    assert set(map(str, asked)) >= {str(("ours", {"amount": 5}, "p1")), str(("ours", {"amount": 500}, "p2"))}


@relied_on_by(*OURS)
async def test_a_state_of_another_agent_is_refused() -> None:
    """A saved run of an agent that was renamed or removed raises; it is never given to somebody else silently."""
    bank = Bank()
    result = await run(bank.agent(model([calls("refund", "r1", order="A-1")])))
    other = Agent[Any](name="other", model=model(), tools=list(bank.tools))

    with pytest.raises(UserError, match="agent not found"):
        await restored(other, saved(result))
    assert bank.refunded == []


@relied_on_by(*OURS)
async def test_new_items_of_a_run_that_went_on_hold_those_from_before() -> None:
    """What the customer was told already has to be told apart from what is new."""
    bank = Bank()
    result = await run(bank.agent(model([says("One moment."), calls("refund", "r1", order="A-1")])))
    agent = bank.agent(model([says("done")]))
    state = await restored(agent, saved(result))
    state.approve(state.get_interruptions()[0])

    after = await go_on(agent, state)

    made = [item for item in after.new_items if not isinstance(item, ToolApprovalItem)]  # that one is no input item
    kinds = [item.to_input_item().get("type") for item in made]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
