"""What users of other systems report about tools, approvals, guardrails and models, as tests of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    Model,
    ModelSettings,
    RunContextWrapper,
    function_tool,
    handoff,
    input_guardrail,
)
from agents.testing import ScriptedModel, function_call
from pydantic import BaseModel

from handoffs.approvals import decide
from handoffs.context import TurnContext
from handoffs.errors import HandoffError
from handoffs.roster import Roster
from sessions.errors import ApprovalVoid, StoreUnavailable
from sessions.model import Approval, Owner
from tests.contract.reports import ANN, PEOPLE, Stage, answers, moves, of_type, seen, told, unpaired
from tests.handoffs.desks import agent, roster, says, script, transfer
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until

QUEUES = {"support": {"name": "Support team"}}


class Till:
    """A refund that needs approval; it counts, and keeps the context of each call."""

    def __init__(self) -> None:
        self.refunded: list[str] = []
        self.contexts: list[TurnContext] = []

    def tool(self) -> FunctionTool:
        @function_tool(needs_approval=True)
        def refund(ctx: RunContextWrapper[TurnContext], order: str) -> str:
            """Pay back."""
            self.refunded.append(order)
            self.contexts.append(ctx.context)
            return f"refunded {order}"

        return refund


def refund(order: str = "A-1", call_id: str = "r1") -> Any:
    return function_call("refund", {"order": order}, call_id=call_id)


def till_roster(till: Till, model: Model, *, handoffs: Sequence[Any] = ()) -> Roster:
    """One SDK agent `Billing` whose refunds need approval."""
    billing = Agent[Any](name="Billing", tools=[till.tool()], handoffs=list(handoffs), model=model)
    return Roster.from_agents(billing, queues=QUEUES)


async def waiting(stage: Stage) -> Approval:
    """The one approval that is asked for."""
    found = [one for one in await stage.store.approvals(stage.cid) if one.state == "asked" and not one.void]
    assert len(found) == 1, found
    return found[0]


async def grant(stage: Stage, approval: Approval, verdict: Any = "granted") -> None:
    """Answer, and wait until the agent has gone on."""
    before = len(answers(await stage.log()))
    await stage.router.start()
    try:
        await decide(stage.store, stage.cid, approval.approval_id, verdict, by="human:ann")

        async def on() -> bool:
            return len(answers(await stage.log())) > before

        await wait_until("the agent goes on", on)
        await stage.rest()
    finally:
        await stage.router.stop(1)


# --- approvals ------------------------------------------------------------------------------------------------------


async def test_an_approval_is_honoured_when_the_run_goes_on_with_a_new_context(stage: Stage) -> None:
    """openai/openai-agents-python#4244 "Tool approval is not honored on resume when Runner.run is given a context"."""
    till = Till()
    stage.open({}, till_roster(till, script([refund()], [says("Done.")])))
    await stage.say("refund A-1")
    epoch = (await stage.store.get(stage.cid)).epoch

    await grant(stage, await waiting(stage))

    assert till.refunded == ["A-1"]
    assert till.contexts[0].epoch >= epoch and till.contexts[0].ledger is not None


async def test_an_approval_survives_a_deploy_with_handoff_objects(stage: Stage) -> None:
    """openai/openai-agents-python#2421 "_build_agent_map assumes Handoff has .agent": a new process."""
    till = Till()
    two = Agent[Any](name="Two", model=script())
    stage.open({}, till_roster(till, script([refund()]), handoffs=[handoff(two)]))
    await stage.say("refund A-1")
    await stage.router.stop(1)

    again = Agent[Any](name="Two", model=script())
    stage.open({}, till_roster(till, script([says("Done.")]), handoffs=[handoff(again)]))
    await grant(stage, await waiting(stage))

    assert till.refunded == ["A-1"]
    assert answers(await stage.log()) == ["Done."]


async def test_an_approval_inside_an_agent_that_is_a_tool_survives_a_restart(stage: Stage) -> None:
    """openai/openai-agents-python#5141 "Nested Agent.as_tool() approval never applied", and #2487."""
    till = Till()

    def build(inner: Sequence[Any], outer: Sequence[Any]) -> Roster:
        clerk = Agent[Any](name="Clerk", tools=[till.tool()], model=script(*inner))
        desk = Agent[Any](name="Desk", tools=[clerk.as_tool("ask_clerk", "Ask the clerk.")], model=script(*outer))
        return Roster.from_agents(desk, queues=QUEUES)

    stage.open({}, build([[refund()]], [[function_call("ask_clerk", {"input": "refund A-1"}, call_id="q1")]]))
    await stage.say("refund A-1")
    approval = await waiting(stage)
    await stage.router.stop(1)
    before = list(till.refunded)

    stage.open({}, build([[says("inner: done")]], [[says("It is refunded.")]]))
    await grant(stage, approval)

    assert (before, till.refunded) == ([], ["A-1"])
    assert answers(await stage.log()) == ["It is refunded."]


async def test_a_gated_call_beside_a_transfer_is_decided_before_the_owner_changes(stage: Stage) -> None:
    """openai/openai-agents-js PR#1768 (an approval-gated tool is skipped when the same response hands off)."""
    till = Till()
    two = Agent[Any](name="Two", model=script([says("Two here.")]))
    stage.open({}, till_roster(till, script([refund(), transfer("two")]), handoffs=[two]))

    events = await stage.say("refund A-1, then somebody else")
    assert (moves(events), till.refunded) == ([], [])
    await grant(stage, await waiting(stage))

    assert till.refunded == ["A-1"]
    assert (moves(await stage.log()), answers(await stage.log())) == (["ai:two"], ["Two here."])


async def test_an_approval_from_before_a_takeover_is_refused(stage: Stage) -> None:
    """pydantic/pydantic-ai#3274 (approvals must be bound to the exact call and state): stale ones release nothing."""
    till = Till()
    router = stage.open({}, till_roster(till, script([refund()], [says("Hello again.")])))
    await stage.say("refund A-1")
    approval = await waiting(stage)
    taken = await router.take(stage.cid, person=ANN)
    await router.hand_back(stage.cid, taken.token, ANN)

    with pytest.raises((ApprovalVoid, HandoffError)):
        await decide(stage.store, stage.cid, approval.approval_id, "granted", by="human:bob")

    assert till.refunded == []


async def test_an_approved_call_is_made_by_the_agent_that_asked(stage: Stage) -> None:
    """microsoft/agent-framework#8247 "HandoffAgentExecutor resumes an approved tool call against the wrong ..."."""
    till = Till()
    billing = Agent[Any](name="Billing", tools=[till.tool()], model=script([refund()], [says("Billing: done.")]))
    triage_model = script([transfer("billing")])
    triage = Agent[Any](name="Triage", handoffs=[billing], model=triage_model)
    stage.open({}, Roster.from_agents(triage, queues=QUEUES))
    await stage.say("refund A-1")

    await grant(stage, await waiting(stage))

    assert till.contexts[0].agent_id == "billing"
    events = await stage.log()
    assert [event.by for event in of_type(events, "msg.created")] == ["customer", "ai:billing"]
    assert len(triage_model.calls) == 1 and await stage.owner() == Owner.ai("billing")


async def test_one_call_is_one_request_and_no_error_after_it_was_made(stage: Stage) -> None:
    """microsoft/agent-framework#8577 "Handoff workflow raises two approval requests for one tool call, and resuming
    reports an error after the tool has executed"."""
    till = Till()
    stage.open({}, till_roster(till, script([refund()], [says("Done.")])))
    events = await stage.say("refund A-1")
    assert len(of_type(events, "approval.asked")) == 1

    await grant(stage, await waiting(stage))

    events = await stage.log()
    assert len(of_type(events, "approval.used")) == 1 and of_type(events, "turn.failed") == []
    assert unpaired(await stage.history("billing")) == []


async def test_an_approved_call_is_not_made_again_by_later_messages(stage: Stage) -> None:
    """microsoft/agent-framework#4075 (an approved tool executes again on every following message)."""
    till = Till()
    stage.open({}, till_roster(till, script([refund()], [says("Done.")], [says("You're welcome.")], [says("Bye.")])))
    await stage.say("refund A-1")
    await grant(stage, await waiting(stage))

    await stage.say("thanks")
    await stage.say("bye")

    assert till.refunded == ["A-1"]


async def test_a_second_answer_is_told_the_first_and_changes_nothing(stage: Stage) -> None:
    """cloudwego/eino PR#1240, #1246 (resuming twice, or with an old id, is silent or runs the tool again)."""
    till = Till()
    stage.open({}, till_roster(till, script([refund()], [says("Sorry, no.")])))
    await stage.say("refund A-1")
    approval = await waiting(stage)
    await grant(stage, approval, "refused")

    with pytest.raises(HandoffError, match="refused"):
        await decide(stage.store, stage.cid, approval.approval_id, "granted", by="human:bob")

    assert till.refunded == []


async def test_nothing_internal_is_said_to_the_customer_while_a_call_waits(stage: Stage) -> None:
    """agno-agi/agno#9069 (route mode breaks after a pause and shows an internal sentence to the customer)."""
    till = Till()
    stage.open({}, till_roster(till, script([says("I'll refund A-1."), refund()], [says("Done.")])))
    events = await stage.say("refund A-1")
    meanwhile = told(events)
    await grant(stage, await waiting(stage))

    assert meanwhile[0] == "I'll refund A-1." and len(meanwhile) == 2
    assert not any(word in meanwhile[1] for word in ("refund(", "tool", "approval_id", "interrupt"))
    assert answers(await stage.log()) == ["I'll refund A-1.", "Done."]


async def test_a_commit_that_fails_after_an_approved_call_does_not_repeat_it(stage: Stage) -> None:
    """openai/openai-agents-python#4615 "RunState retry after an approved tool's Session write fails ..."."""
    till = Till()
    stage.open({}, till_roster(till, script([refund()], [says("Done.")], [says("Done.")])))
    await stage.say("refund A-1")
    approval = await waiting(stage)
    commit, broken = stage.store.commit, iter([True])

    async def sick(*args: Any, **kwargs: Any) -> Any:
        if next(broken, False):
            raise StoreUnavailable("down for a moment")
        return await commit(*args, **kwargs)

    stage.store.commit = sick  # type: ignore[method-assign]
    short, stage.store.lease_ms = stage.store.lease_ms, 300
    await grant(stage, approval)
    stage.store.lease_ms = short

    assert till.refunded == ["A-1"]
    assert unpaired(await stage.history("billing")) == []


# --- tools ----------------------------------------------------------------------------------------------------------


async def test_a_specialist_keeps_its_own_tools_beside_the_transfer(stage: Stage) -> None:
    """microsoft/agent-framework#1850 "Handoff Workflow Replaces Agent Tools Instead of Merging Them"."""

    @function_tool
    def invoice() -> str:
        """Look up an invoice."""
        return "7"

    billing = script([says("ok")])
    stage.open({"triage": script([transfer("billing")]), "billing": billing}, tools={"billing": [invoice]})

    await stage.say("an invoice")

    assert {tool.name for tool in billing.calls[0].tools} == {"invoice", "transfer_to_agent"}


async def test_the_first_agent_may_answer_by_itself(stage: Stage) -> None:
    """agno-agi/agno#10058 "TeamMode.route forces delegation to a member even when the leader should answer"."""
    triage = script([says("We do invoices and parcels.")])
    stage.open({"triage": triage})

    events = await stage.say("what can you do?")

    assert answers(events) == ["We do invoices and parcels."]
    assert triage.calls[0].model_settings.tool_choice in (None, "auto")


async def test_no_agent_shares_a_context_on_the_models_side(stage: Stage) -> None:
    """openai/openai-agents-python#206 "404 Error During Agent Handoff" (one server-side conversation)."""
    models = {"triage": script([transfer("billing")]), "billing": script([says("1")], [says("2")])}
    stage.open(models)

    await stage.say("an invoice")
    await stage.say("and?")

    used = [call for model in models.values() for call in model.calls]
    assert {(call.conversation_id, call.previous_response_id) for call in used} == {(None, None)}


async def test_a_tool_sees_the_conversation_it_was_called_in(stage: Stage) -> None:
    """awslabs/agent-squad, SupervisorAgent (one customer's request runs with another's ids, as we saw it)."""
    seen_ids: list[tuple[str, str]] = []

    @function_tool
    async def note(ctx: RunContextWrapper[TurnContext], who: str) -> str:
        """Note."""
        await asyncio.sleep(0.01)
        seen_ids.append((who, ctx.context.conversation_id))
        return "ok"

    class ByName(ScriptedModel):
        """Calls its tool with the customer's own words, then says ok."""

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            given = args[1]
            done = any(item.get("type") == "function_call_output" for item in given)
            step = [says("ok")] if done else [function_call("note", {"who": given[-1]["content"]}, call_id="c1")]
            return script(step).stream_response(*args, **kwargs)

    stage.open({"triage": ByName([])}, tools={"triage": [note]})

    await asyncio.gather(*(stage.say(f"{stage.cid}-{who}", cid=f"{stage.cid}-{who}") for who in ("alice", "bob")))

    assert sorted(seen_ids) == [(f"{stage.cid}-{who}", f"{stage.cid}-{who}") for who in ("alice", "bob")]


# --- guardrails -----------------------------------------------------------------------------------------------------


async def test_a_guardrail_of_a_specialist_checks_what_triage_passed_on(stage: Stage) -> None:
    """openai/openai-agents-python PR#699 (input guardrails run for the first agent only)."""

    @input_guardrail
    def no_codes(ctx: RunContextWrapper[Any], agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered="4711" in str(given))

    billing = Agent[Any](name="Billing", input_guardrails=[no_codes], model=script([says("The code is right.")]))
    triage = Agent[Any](name="Triage", handoffs=[billing], model=script([transfer("billing")]))
    stage.open({}, Roster.from_agents(triage, queues=QUEUES))

    events = await stage.say("my code is 4711")

    assert answers(events) == [] and await stage.owner() == PEOPLE
    assert of_type(events, "guardrail.tripped")[0].data["agent"] == "billing"


async def test_a_guardrail_that_must_be_first_is_over_before_the_model_is_asked(stage: Stage) -> None:
    """openai/openai-agents-python PR#394 "Avoid to run the Agent first step before Input guardrails finished"."""
    called: list[str] = []

    @function_tool
    def pay() -> str:
        """Pay."""
        called.append("pay")
        return "paid"

    @input_guardrail(run_in_parallel=False)
    async def slow(ctx: RunContextWrapper[Any], agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        await asyncio.sleep(0.02)
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    model = script([function_call("pay", {}, call_id="p1")], [says("Paid.")])
    one = Agent[Any](name="One", tools=[pay], input_guardrails=[slow], model=model)
    stage.open({}, Roster.from_agents(one, queues=QUEUES))

    events = await stage.say("pay")

    assert (called, answers(events), len(model.calls)) == ([], [], 0)
    assert await stage.owner() == PEOPLE


async def test_a_guardrail_that_trips_late_takes_back_what_was_shown(stage: Stage) -> None:
    """openai/openai-agents-python PR#394, with a guardrail that runs beside the model: what was shown is retracted."""
    model = GatedModel("This must not be read by anybody. " * 4, size=4, hold_after=40)

    @input_guardrail
    async def late(ctx: RunContextWrapper[Any], agent: Agent[Any], given: Any) -> GuardrailFunctionOutput:
        await model.holding.wait()

        async def shown() -> bool:
            return bool((await stage.store.draft(stage.cid))[1])

        await wait_until("a part of the answer is shown", shown)
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    one = Agent[Any](name="One", input_guardrails=[late], model=model)
    stage.open({}, Roster.from_agents(one, queues=QUEUES))

    events = await stage.say("hello")

    assert len(of_type(events, "msg.retracted")) == 1
    assert "must not be read" not in str(events) and await stage.owner() == PEOPLE
    assert await stage.store.draft(stage.cid) == ("", "")


# --- what models do -------------------------------------------------------------------------------------------------


async def test_a_transfer_that_was_only_announced_is_noticed(stage: Stage) -> None:
    """openai/openai-agents-python#2352 "Advice: Handoff occasionally not working", #541: said, and not called."""
    stage.open({"triage": script([says("I'll transfer you to billing now.")])})

    events = await stage.say("an invoice")

    assert moves(events) == [] and await stage.owner() == Owner.ai("triage")
    assert len(of_type(events, "handoff.announced_only")) == 1


async def test_a_transfer_that_was_only_announced_may_be_asked_for_again(stage: Stage) -> None:
    """openai/openai-agents-python#2352: with `announced: ask_again` the model gets one more chance to call the tool."""
    desk = roster(
        agent("triage", transfer_to=("billing",), announced="ask_again"), agent("billing", returns_to="triage")
    )
    triage = script([says("Let me transfer you to billing.")], [transfer("billing")])
    stage.open({"triage": triage, "billing": script([says("Billing here.")])}, desk)

    events = await stage.say("an invoice")

    assert moves(events) == ["ai:billing"] and answers(events)[-1] == "Billing here."
    assert len(triage.calls) == 2


async def test_a_callback_that_fails_is_not_told_as_bad_arguments(stage: Stage) -> None:
    """openai/openai-agents-js#1731 "Handoff callback errors are misreported as invalid model JSON"."""

    class Reason(BaseModel):
        reason: str

    def broken(ctx: RunContextWrapper[Any], given: Reason) -> None:
        raise RuntimeError("database unavailable")

    two = Agent[Any](name="Two", model=script())
    call: Any = transfer("two")
    call.arguments = call.arguments[:-1] + ', "input": {"reason": "billing"}}'
    one = Agent[Any](
        name="One",
        handoffs=[handoff(two, on_handoff=broken, input_type=Reason)],
        model=script([call], [says("I'll help you myself.")]),
    )
    stage.open({}, Roster.from_agents(one, queues=QUEUES))

    events = await stage.say("billing")

    why = of_type(events, "handoff.refused")[0].data["why"]
    assert "something that has to happen before it failed" in why and "does not fit" not in why
    assert "database unavailable" not in str(events) and answers(events) == ["I'll help you myself."]


async def test_ids_of_one_models_messages_are_not_sent_to_another(stage: Stage) -> None:
    """openai/openai-agents-python#972 "Handoff to agent that uses websearch tool call fails" (an id of another API)."""
    billing = script([says("ok")])
    stage.open({"triage": script([says("Hello")], [transfer("billing")]), "billing": billing})

    await stage.say("hi")
    await stage.say("an invoice")

    assert [sorted(item) for item in seen(billing)] == [["content", "role"], ["content", "role"]]


async def test_settings_of_one_agent_do_not_reach_the_next(stage: Stage) -> None:
    """openai/openai-agents-python#479 (a tool is forced by `tool_choice`): for that agent, not for the next one."""
    last_model = script([says("ok")])
    last = Agent[Any](name="Last", model=last_model)
    first = Agent[Any](
        name="First",
        handoffs=[last],
        model=script([transfer("last")]),
        model_settings=ModelSettings(tool_choice="required", temperature=0.9),
    )
    stage.open({}, Roster.from_agents(first))

    await stage.say("hello")

    settings = last_model.calls[0].model_settings
    assert (settings.tool_choice, settings.temperature) == (None, None)
