"""What users of other systems report when several calls, messages or processes come at once, as tests of ours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Model, RunContextWrapper, function_tool
from agents.testing import ModelStep, ScriptedModel, function_call

from handoffs.context import TurnContext
from handoffs.router import CustomerMessage, Person
from sessions.errors import NotClaimable, StaleOwner
from sessions.model import Owner
from sessions.store import Store
from tests.contract.reports import ANN, PEOPLE, Stage, answers, moves, of_type, seen
from tests.handoffs.desks import says, script, transfer
from tests.support import wait_until

ROOT = Path(__file__).parents[2]


def bad_call(arguments: str) -> Any:
    call: Any = transfer("billing")
    call.arguments = arguments
    return call


# --- several at once ------------------------------------------------------------------------------------------------


async def test_of_two_transfers_in_one_answer_the_first_wins(stage: Stage) -> None:
    """openai/openai-agents-python#499 "Multiple handoffs requested error", #771 "Only 1 handoff getting called"."""
    billing = script([says("Billing here.")])
    stage.open({"triage": script([transfer("billing"), transfer("orders")]), "billing": billing, "orders": script()})

    events = await stage.say("an invoice and a parcel")

    assert moves(events) == ["ai:billing"]
    assert answers(events) == ["Billing here."]


async def test_the_loser_of_two_transfers_is_recorded_and_not_forgotten_silently(stage: Stage) -> None:
    """microsoft/semantic-kernel#12756 (parallel handoffs: the last one wins silently)."""
    stage.open({"triage": script([transfer("billing"), transfer("orders")]), "billing": script([says("ok")])})

    events = await stage.say("an invoice and a parcel")

    (refused,) = of_type(events, "handoff.refused")
    assert refused.data["to"] == "orders" and "already transferring to billing" in refused.data["why"]
    assert [event.data["to"] for event in of_type(events, "handoff.completed")] == ["billing"]


async def test_rejected_handoffs_are_not_left_in_the_history(stage: Stage) -> None:
    """openai/openai-agents-js#1122 (rejected handoffs in the history make the model avoid those agents later)."""
    triage = script([transfer("billing"), transfer("orders")], [transfer("orders")])
    models: dict[str, Model] = {
        "triage": triage,
        "billing": script([says("Done.")], [transfer("triage")]),
        "orders": script([says("Orders here.")]),
    }
    stage.open(models)

    await stage.say("an invoice and a parcel")
    events = await stage.say("and now the parcel")

    assert "orders" not in str([item for item in seen(triage, 1) if item.get("type")])
    assert answers(events)[-1] == "Orders here."


@pytest.mark.parametrize("first", ["tool", "transfer"])
async def test_a_transfer_beside_a_slow_tool_completes(stage: Stage, first: str) -> None:
    """livekit/agents#7320 "a handoff is silently dropped when it shares a tool-call batch with another tool", #5150."""
    saved: list[str] = []

    @function_tool
    async def save_note(note: str) -> str:
        """Save a note."""
        await asyncio.sleep(0.05)
        saved.append(note)
        return "saved"

    batch = [function_call("save_note", {"note": "n"}, call_id="c1"), transfer("billing")]
    step = batch if first == "tool" else batch[::-1]
    stage.open({"triage": script(step), "billing": script([says("Billing here.")])}, tools={"triage": [save_note]})

    events = await stage.say("note this, and an invoice")

    assert saved == ["n"]
    assert (moves(events), answers(events)) == (["ai:billing"], ["Billing here."])


async def test_text_beside_a_transfer_is_told_and_the_transfer_happens(stage: Stage) -> None:
    """chatwoot/chatwoot PR#13178 "fix: captain assistant handoff" (a friendly word, and the handoff never happens)."""
    stage.open({"triage": script([says("One moment, I connect you."), transfer("human:support")])})

    events = await stage.say("a person please")

    assert answers(events) == ["One moment, I connect you."]
    assert await stage.owner() == PEOPLE


async def test_a_specialist_runs_after_a_transfer_that_came_with_text(stage: Stage) -> None:
    """cloudwego/eino#881 (the transfer is emitted and the sub-agent never runs)."""
    stage.open({"triage": script([says("Sure."), transfer("billing")]), "billing": script([says("Billing here.")])})

    events = await stage.say("an invoice")

    assert answers(events) == ["Sure.", "Billing here."]


async def test_malformed_arguments_of_a_transfer_are_an_error_the_model_can_correct(stage: Stage) -> None:
    """openai/openai-agents-python#280 "ModelBehaviorError: Invalid JSON when parsing": here it costs one call."""
    triage = script([bad_call('{"agent": "billing"}')], [bad_call("")], [transfer("billing")])
    stage.open({"triage": triage, "billing": script([says("Billing here.")])})

    events = await stage.say("an invoice")

    assert answers(events) == ["Billing here."]
    assert len(of_type(events, "handoff.refused")) == 2


# --- two at once ----------------------------------------------------------------------------------------------------


async def test_double_texting_loses_nothing_and_answers_once(stage: Stage) -> None:
    """google/adk-python#1049 "Error with session service when Double Texting on CloudRun"."""
    hold = asyncio.Event()
    reached = asyncio.Event()

    async def slowly(_: Any) -> Any:
        reached.set()
        await hold.wait()
        return [says("one")]

    triage = script(ModelStep.respond(slowly), [says("two")])
    router = stage.open({"triage": triage})

    await router.receive(stage.cid, CustomerMessage("a", "first"))
    await reached.wait()
    await router.receive(stage.cid, CustomerMessage("b", "second"))
    hold.set()
    await stage.rest()

    asked = [item["content"] for item in await stage.history("triage") if item.get("role") == "user"]
    assert asked == ["first", "second"]
    assert answers(await stage.log()) == ["one", "two"]
    assert await stage.waiting() == 0


async def test_a_message_that_comes_during_a_transfer_is_answered_once_by_the_new_owner(stage: Stage) -> None:
    """langchain-ai/langgraph-swarm-py#23 "InvalidUpdateError(At key 'active_agent)": one owner, one answer."""
    hold, reached = asyncio.Event(), asyncio.Event()

    async def slowly(_: Any) -> Any:
        reached.set()
        await hold.wait()
        return [transfer("billing")]

    triage, billing = script(ModelStep.respond(slowly)), script([says("Both answered.")])
    router = stage.open({"triage": triage, "billing": billing})

    await router.receive(stage.cid, CustomerMessage("a", "an invoice"))
    await reached.wait()
    await router.receive(stage.cid, CustomerMessage("b", "number 7"))
    hold.set()
    await stage.rest()

    events = await stage.log()
    assert answers(events) == ["Both answered."]
    read = [item["content"] for item in seen(billing) if item["content"] in ("an invoice", "number 7")]
    assert read == ["an invoice", "number 7"]
    assert len(triage.calls) == 1 and await stage.waiting() == 0


async def test_two_processes_never_hold_one_conversation(stage: Stage) -> None:
    """RasaHQ/rasa#9213 "RedisLockStore don't tread safe": of many who claim at once, one gets it."""
    stores = [Store(stage.store.backend) for _ in range(8)]
    for number in range(10):
        cid = f"{stage.cid}{number}"
        await stage.store.enqueue(cid, "m", {"id": "m_1", "text": "hi"}, start=Owner.ai("triage"))
        claims = await asyncio.gather(*(one.claim(cid) for one in stores), return_exceptions=True)
        assert sum(not isinstance(claim, BaseException) for claim in claims) == 1
        assert all(isinstance(claim, NotClaimable) for claim in claims if isinstance(claim, BaseException))


async def test_a_worker_that_wakes_up_late_is_refused(stage: Stage) -> None:
    """can1357/oh-my-pi#9593 (workers from before a handoff are woken later; a generation number is asked for)."""
    await stage.store.enqueue(stage.cid, "m", {"id": "m_1", "text": "hi"}, start=Owner.ai("triage"))
    late = await stage.store.claim(stage.cid)
    router = stage.open({})
    await router.take(stage.cid, person=ANN)

    with pytest.raises(StaleOwner):
        await stage.store.commit(stage.cid, late.token, "turn:1", answered=1, events=[])

    assert await stage.waiting() == 1


async def test_a_return_counts_only_while_the_owner_still_owns(stage: Stage) -> None:
    """bayesimpact/bayes-platform PR#805 (clears the active agent only if it still holds it)."""
    router = stage.open({"triage": script([says("Hello")])})
    await stage.say("hi")
    taken = await router.take(stage.cid, person=ANN)
    await router.take(stage.cid, person=Person("bob", "Bob"), force=True)

    with pytest.raises(StaleOwner):
        await router.hand_back(stage.cid, taken.token, ANN, to="billing")

    assert await stage.owner() == Owner.human("bob")


async def test_customers_of_one_process_are_never_mixed(stage: Stage) -> None:
    """openai/openai-agents-python#1039, #1290 (one agent instance for many requests): 40 conversations at once."""

    @function_tool
    async def who(ctx: RunContextWrapper[TurnContext]) -> str:
        """Who is it?"""
        await asyncio.sleep(0)
        return ctx.context.conversation_id

    class Echo(ScriptedModel):
        """Says what its tool said."""

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            given = args[1]
            outputs = [item["output"] for item in given if item.get("type") == "function_call_output"]
            step = [says(f"you are {outputs[-1]}")] if outputs else [function_call("who", {}, call_id="c1")]
            return script(step).stream_response(*args, **kwargs)

    router = stage.open({"triage": Echo([])}, tools={"triage": [who]})
    cids = [f"{stage.cid}{number}" for number in range(40)]

    await asyncio.gather(*(router.receive(cid, CustomerMessage("m", "who am I?")) for cid in cids))
    await wait_until("the turns end", lambda: router.running == 0)

    for cid in cids:
        assert answers(await stage.log(cid)) == [f"you are {cid}"]
