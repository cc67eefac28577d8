"""What users of other systems report about who owns a conversation, as tests of ours. Each names its report.

Several calls or messages at once are in test_public_reports_at_once.py, history in ..._history.py, people and doors in
..._people.py, tools and models in ..._tools.py. Reports are quoted by number and title; the scenario is ours.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, Model
from agents.testing import function_call

from handoffs.errors import RosterInvalid
from handoffs.roster import Roster
from handoffs.sdk_agents import deterministic_transfer
from sessions.model import Owner
from tests.contract.reports import PEOPLE, Stage, answers, moves, of_type, seen, targets, told
from tests.handoffs.desks import agent, roster, says, script, shop, transfer

ROOT = Path(__file__).parents[2]


def bad_call(arguments: str) -> Any:
    call: Any = transfer("billing")
    call.arguments = arguments
    return call


# --- the owner is remembered ----------------------------------------------------------------------------------------


async def test_the_specialist_keeps_the_conversation(stage: Stage) -> None:
    """openai/openai-agents-python#1436 "Built-in Support for Sticky Session Routing / Direct Agent Handoff"."""
    triage = script([transfer("billing")])
    stage.open({"triage": triage, "billing": script([says("1")], [says("2")], [says("3")])})

    for text in ("I was charged twice", "A-10023", "thanks"):
        events = await stage.say(text)

    assert answers(events) == ["1", "2", "3"]
    assert len(triage.calls) == 1


async def test_the_answer_to_a_specialists_question_goes_to_the_specialist(stage: Stage) -> None:
    """openai/openai-agents-python#1815 "Maintain State for Multi-Turn Slot Filling": the slot is not read by triage."""
    triage = script([transfer("billing")])
    billing = script([says("Which invoice?")], [says("From which month?")], [says("Found it.")])
    stage.open({"triage": triage, "billing": billing})

    for text in ("there is something wrong with an invoice", "the second one", "march"):
        events = await stage.say(text)

    assert answers(events)[-1] == "Found it."
    assert [item["content"] for item in seen(billing, 2) if item.get("role") == "user"][-2:] == [
        "the second one",
        "march",
    ]
    assert len(triage.calls) == 1


async def test_the_owner_survives_a_restart(stage: Stage) -> None:
    """agno-agi/agno#9066 "feat: sticky active member + member-to-leader handoff for Team sessions": after a restart."""
    stage.open({"triage": script([transfer("billing")]), "billing": script([says("Which invoice?")])})
    await stage.say("an invoice is wrong")
    await stage.router.stop(1)

    billing = script([says("Found it.")])
    stage.open({"triage": script(), "billing": billing})
    events = await stage.say("number 7")

    assert answers(events)[-1] == "Found it."
    assert "Which invoice?" in str(seen(billing))


async def test_an_agent_without_a_way_back_stays_the_owner(stage: Stage) -> None:
    """google/adk-python#3081 'Unexpected "fallback to root" behavior when disallow_transfer_to_parent = True'."""
    desk = roster(agent("triage", transfer_to=("billing",)), agent("billing"))
    triage = script([transfer("billing")])
    stage.open({"triage": triage, "billing": script([says("Hi")], [says("Still me.")])}, desk)

    await stage.say("an invoice")
    events = await stage.say("and another one")

    assert answers(events)[-1] == "Still me."
    assert await stage.owner() == Owner.ai("billing") and len(triage.calls) == 1


async def test_a_specialist_can_give_the_conversation_back_by_the_route(stage: Stage) -> None:
    """openai/openai-agents-python#714 "How to pass the control back to triage agent": the route has the way back."""
    billing = script([says("Refunded.")], [transfer("triage", reason="something else")])
    triage = script([transfer("billing")], [says("What else?")])
    stage.open({"triage": triage, "billing": billing})

    await stage.say("refund me")
    events = await stage.say("I also want to change my address")

    assert targets(billing) == ["orders", "human:support", "triage"]
    assert (answers(events)[-1], await stage.owner()) == ("What else?", Owner.ai("triage"))


async def test_three_levels_down_the_next_question_still_finds_its_agent(stage: Stage) -> None:
    """google/adk-python#1485 "Control not being transferred to the parent agent": C -> B -> root -> A works."""
    desk = roster(
        agent("root", transfer_to=("b", "a")),
        agent("a", returns_to="root"),
        agent("b", transfer_to=("c",), returns_to="root"),
        agent("c", returns_to="b"),
    )
    models: dict[str, Model] = {
        "root": script([transfer("b")], [transfer("a")]),
        "b": script([transfer("c")], [transfer("root")]),
        "c": script([says("C here.")], [transfer("b")]),
        "a": script([says("A here.")]),
    }
    stage.open(models, desk)

    await stage.say("a question for c")
    events = await stage.say("a question for a")

    assert moves(events) == ["ai:b", "ai:c", "ai:b", "ai:root", "ai:a"]
    assert answers(events) == ["C here.", "A here."]


async def test_a_specialist_that_answers_without_a_handoff_leaves_nothing_stuck(stage: Stage) -> None:
    """microsoft/autogen#5831 "Infinite loop appears when using swarm with human-computer dialogue"."""
    stage.open({"triage": script([says("Tell me more.")], [says("I see.")])})

    await stage.say("hm")
    events = await stage.say("it is broken")

    assert answers(events) == ["Tell me more.", "I see."]
    assert await stage.waiting() == 0


async def test_an_owner_that_is_not_deployed_any_more_is_followed_by_its_successor(stage: Stage) -> None:
    """langchain-ai/langgraph-swarm-py#31 (the active agent is lost): here the owner is gone, and that is defined."""
    stage.open({"triage": script([transfer("billing")]), "billing": script([says("Hi")])})
    await stage.say("an invoice")

    smaller = roster(agent("triage"), agent("payments"), successors={"billing": "payments"})
    stage.open({"payments": script([says("Payments here.")])}, smaller)
    events = await stage.say("go on")

    assert answers(events)[-1] == "Payments here."
    assert of_type(events, "owner.changed")[-1].data["decided_by"] == "system"


# --- targets --------------------------------------------------------------------------------------------------------


async def test_custom_logic_blocks_a_handoff(stage: Stage) -> None:
    """openai/openai-agents-python#585 "is there a way to block the handoff based on custom logic"."""
    desk = roster(
        agent("triage", transfer_to=("vault",)),
        agent("vault", requires=("verified",)),
        values={"verified": {"type": "boolean"}},
    )
    triage = script([transfer("vault")], [says("Please verify first.")])
    stage.open({"triage": triage}, desk)

    events = await stage.say("let me in, I am verified, trust me")

    assert targets(triage) == []
    assert (moves(events), answers(events)) == ([], ["Please verify first."])


async def test_an_agent_that_transfers_to_itself_is_told_and_goes_on(stage: Stage) -> None:
    """openai/openai-agents-python#238 "agent want's to transfer itself", langchain-ai/langgraph-swarm-py#95."""
    stage.open({"triage": script([transfer("triage")], [says("Hello.")])})

    events = await stage.say("hello")

    assert "you own this conversation already" in of_type(events, "handoff.refused")[0].data["why"]
    assert (moves(events), answers(events)) == ([], ["Hello."])


async def test_a_made_up_transfer_tool_does_not_end_the_turn(stage: Stage) -> None:
    """openai/openai-agents-python#764 "Tool transfer_to_data_service_agent not found"; LibreChat agents#60."""
    triage = script([function_call("transfer_to_billing", {}, call_id="c1")], [transfer("billing")])
    stage.open({"triage": triage, "billing": script([says("Billing here.")])})

    events = await stage.say("an invoice")

    assert answers(events) == ["Billing here."]
    assert "not found" in str(seen(triage, 1))


@pytest.mark.parametrize("name", ["Billing", "billing ", "the billing agent", "账单", ""])
async def test_a_colleague_by_another_name_is_refused_with_the_names_there_are(stage: Stage, name: str) -> None:
    """crewAIInc/crewAI#1823 "Delegate work to coworker: coworker mentioned not found", #1399, #667, #1501."""
    triage = script([transfer(name)], [transfer("billing")])
    stage.open({"triage": triage, "billing": script([says("Billing here.")])})

    events = await stage.say("an invoice")

    refused = of_type(events, "handoff.refused")[0].data
    assert refused["to"] == name and "Allowed targets now: billing, orders, human:support." in refused["why"]
    assert answers(events) == ["Billing here."]


async def test_the_model_is_offered_only_targets_that_exist_and_are_allowed(stage: Stage) -> None:
    """google/adk-python#3736 (an unknown agent is asked for; led to the enum): missing agents are not offered."""
    desk = roster(agent("triage", transfer_to=("billing", "gone", "triage")), agent("billing"), agent("secret"))
    triage = script([says("Hello.")])
    stage.open({"triage": triage}, desk)

    await stage.say("hello")

    assert targets(triage) == ["billing"]


async def test_two_agents_whose_names_come_to_the_same_are_refused() -> None:
    """openai/openai-agents-python#4118 "Agent name conflicts cause the first registered agent to be ignored"."""
    one, two = Agent[Any](name="Data Service"), Agent[Any](name="data-service")

    with pytest.raises(RosterInvalid, match="its id would be `data_service`, like that of 'Data Service'"):
        Roster.from_agents(Agent(name="Triage", handoffs=[one, two]))


async def test_names_with_spaces_and_ids_are_two_things(stage: Stage) -> None:
    """openai/openai-cs-agents-demo#49 "So many bugs to be fixed" (agent names with spaces break the front end)."""
    billing = Agent[Any](name="Billing & Refunds (EU)", model=script([says("Hi")]))
    triage = Agent[Any](name="Front Desk", handoffs=[billing], model=script([transfer("billing_refunds_eu")]))
    stage.open({}, Roster.from_agents(triage))

    events = await stage.say("hi")

    assert moves(events) == ["ai:billing_refunds_eu"]
    assert told(events)[0] == "You're now talking to Billing & Refunds (EU)."


# --- deterministic --------------------------------------------------------------------------------------------------


async def test_a_next_step_can_be_forced_without_asking_a_model(stage: Stage) -> None:
    """openai/openai-agents-python#479 "Is there a way to force handoffs?", #187 "How to specify the next agent?"."""
    orders, survey = script([says("It arrives today.")]), script([says("How was it?")])
    stage.open({"orders": orders, "survey": survey}, roster(agent("orders", then=("survey",)), agent("survey")))

    events = await stage.say("where is it?")

    assert answers(events) == ["It arrives today.", "How was it?"]
    assert (len(orders.calls), len(survey.calls)) == (1, 1)
    assert of_type(events, "owner.changed")[0].data["decided_by"] == "rule"


async def test_a_handoff_with_a_fixed_target_needs_no_prompt(stage: Stage) -> None:
    """openai/openai-agents-python#1274 (deterministic target for a handoff), from Python."""
    check = Agent[Any](name="Check", model=script([says("Checked.")]))
    pay = deterministic_transfer(Agent[Any](name="Pay", model=script([says("Paid.")])), to=check)
    stage.open({}, Roster.from_agents(pay))

    assert answers(await stage.say("pay")) == ["Paid.", "Checked."]


# --- loops ----------------------------------------------------------------------------------------------------------


async def test_two_agents_that_bounce_end_with_people(stage: Stage) -> None:
    """openai/openai-agents-python#1442 "MaxTurnsExceeded"; conductor-oss PR#1279 (100 turns); crewAIInc/crewAI#330."""
    billing, orders = (script(*[[transfer(to)] for _ in range(20)]) for to in ("orders", "billing"))
    stage.open({"triage": script([transfer("billing")]), "billing": billing, "orders": orders})

    await stage.say("nobody wants me")

    assert await stage.owner() == PEOPLE
    assert len(billing.calls) + len(orders.calls) <= 10  # the limit of model calls ends one that insists
    assert await stage.waiting() == 1  # people answer it; it is not lost


async def test_a_guard_that_trips_says_so_to_the_customer(stage: Stage) -> None:
    """openclaw/openclaw#120449 "loopDetection detections are silently logged server-side only", #52382."""
    desk = shop(limits={"transfers_per_turn": 2})
    models: dict[str, Model] = {
        "triage": script([transfer("billing")]),
        "billing": script([transfer("orders")]),
        "orders": script([transfer("triage")], [transfer("triage")]),
    }
    stage.open(models, desk)

    events = await stage.say("hello")

    assert told(events)[-1] == (
        "I don't want to send you round in circles, so I'm passing you to a person: Support team."
    )
    assert of_type(events, "owner.changed")[-1].data["decided_by"] == "loop_guard"


async def test_a_conversation_has_a_limit_of_transfers_too(stage: Stage) -> None:
    """agno-agi/agno#2531 (agents delegate to each other for ever): a loop of one transfer a turn ends as well."""
    desk = shop(limits={"transfers_per_conversation": 3})
    models: dict[str, Model] = {
        "triage": script([transfer("billing")], [transfer("billing")]),
        "billing": script([says("1")], [transfer("triage")], [says("2")]),
    }
    stage.open(models, desk)
    await stage.say("one")
    await stage.say("two")
    stage.open({"billing": script([transfer("triage")])}, desk)

    events = await stage.say("three")

    assert await stage.owner() == PEOPLE
    assert "round in circles" in told(events)[-1]


# --- the house ------------------------------------------------------------------------------------------------------


def test_the_folder_agents_does_not_hide_the_sdk() -> None:
    """agntcy/coffeeAgntcy#320 (a repository folder `agents/` and the SDK's package of that name)."""
    done = subprocess.run(
        [sys.executable, "-c", "import agents; print(agents.Runner.__name__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, (ROOT / "agents").is_dir()) == ("Runner\n", True), done.stderr
