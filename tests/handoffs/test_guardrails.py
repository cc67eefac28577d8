"""Guardrails named in agent files: each owner's own, run again after a transfer, with a defined outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handoffs.approvals import decide
from handoffs.lint import check
from handoffs.loader import load_roster
from handoffs.roster import Roster
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.approving import asked, calls
from tests.handoffs.desks import router_for, says, script, transfer
from tests.handoffs.folders import agent_file, write
from tests.handoffs.test_router import ask, texts, types
from tests.support import wait_until

GUARDS = """\
from agents import GuardrailFunctionOutput, input_guardrail, output_guardrail

@input_guardrail
def no_cards(ctx, agent, input):
    return GuardrailFunctionOutput(None, tripwire_triggered="4111" in str(input[-1]))

@output_guardrail
async def no_prices(ctx, agent, output):
    return GuardrailFunctionOutput(None, tripwire_triggered="EUR" in str(output))

def helper(ctx, agent, input):
    return None
"""


def desk(folder: Path, settings: str, *, triage: str = "") -> Roster:
    """billing with guardrails; triage transfers to it."""
    return load_roster(
        write(
            folder / "agents",
            {
                "triage/agent.md": agent_file(f"intended_use: All.\ntransfer_to: [billing, human:support]\n{triage}"),
                "triage/tools.py": GUARDS,
                "billing/agent.md": agent_file(
                    f"intended_use: Bills.\ntransfer_to: [triage, human:support]\n{settings}"
                ),
                "billing/tools.py": GUARDS,
            },
        )
    )


async def test_new_owners_guardrail_checks_the_message_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.9: triage let it pass, billing's own guardrail stops it: people own, nothing was answered."""
    models = {"triage": script([transfer("billing")]), "billing": script([says("I'll charge it.")])}
    router = router_for(store, live, desk(tmp_path, "guardrails: [no_cards]"), models, tmp_path)

    events = await ask(router, conversation_id, "charge 4111 1111")

    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting) == (Owner.queue("support"), 1)
    assert texts(events, "ai:billing") == []
    (record,) = [event.data for event in events if event.type == "guardrail.tripped"]
    assert record == {"agent": "billing", "guardrail": "no_cards", "side": "input"}
    assert [e.data["decided_by"] for e in events if e.type == "owner.changed"] == ["model", "guardrail"]
    assert "I can't go on with that message here." in events[-2].data["text"]
    assert router.alarms.counts["guardrail"] == 1


async def test_route_may_keep_the_conversation_after_a_tripwire(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.9: with `on_guardrail: stay` the customer gets a sentence and may write again."""
    model = script([says("unused")], [says("How can I help?")])
    settings = "guardrails: [no_cards]\non_guardrail: stay"
    router = router_for(store, live, desk(tmp_path, "", triage=settings), {"triage": model}, tmp_path)

    events = await ask(router, conversation_id, "my card is 4111 1111")

    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting) == (Owner.ai("triage"), 0)
    assert types(events)[-2:] == ["guardrail.tripped", "notice"]
    assert "put it another way" in events[-1].data["text"]
    assert await store.history(conversation_id, "triage") == ()
    events = await ask(router, conversation_id, "hello", "m2")
    assert "4111" not in str(model.calls[-1].input)


async def test_output_guardrail_stops_the_answer_before_it_is_seen(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.9 and 11: what a guardrail stops is no message and was no draft; a transfer is not checked."""
    models = {"triage": script([transfer("billing", reason="5 EUR")]), "billing": script([says("It is 5 EUR.")])}
    roster = desk(tmp_path, "guardrails: [no_prices]", triage="guardrails: [no_prices]")
    router = router_for(store, live, roster, models, tmp_path)

    events = await ask(router, conversation_id, "how much?")

    assert [event.owner_to for event in events if event.type == "owner.changed"] == ["ai:billing", "queue:support"]
    assert texts(events, "ai:billing") == []
    assert "msg.retracted" not in types(events)
    assert [event.data["side"] for event in events if event.type == "guardrail.tripped"] == ["output"]


async def test_guardrail_that_passes_changes_nothing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.9: an agent with guardrails answers as any other."""
    settings = "guardrails: [no_cards, no_prices]"
    router = router_for(
        store, live, desk(tmp_path, "", triage=settings), {"triage": script([says("Hello.")])}, tmp_path
    )

    assert types(await ask(router, conversation_id, "hi")) == ["msg.created", "msg.created"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_card", "no guardrail `no_card`; did you mean `no_cards`? (guardrails there: no_cards, no_prices)"),
        ("helper", "put @input_guardrail or @output_guardrail"),
    ],
)
def test_check_names_a_guardrail_that_is_not_there(tmp_path: Path, name: str, words: str) -> None:
    """handoffs.md 2.9: a name that means nothing would guard nothing, so it is an error with its place."""
    desk(tmp_path, f"guardrails: [{name}]")

    (problem,) = check(tmp_path / "agents").errors

    assert (problem.file, problem.line, problem.field) == ("billing/agent.md", 4, "guardrails.0")
    assert words in problem.message


async def test_failing_guardrail_is_a_failure_and_not_a_pass(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.9 and 11: a guardrail that raises lets nothing through; the route's on_error owns."""
    roster = desk(tmp_path, "", triage="guardrails: [no_cards]")
    (tmp_path / "agents" / "triage" / "tools.py").write_text(
        GUARDS.replace('"4111" in str(input[-1])', "bool(input.nothing)")
    )
    router = router_for(store, live, roster, {"triage": script([says("Hello.")])}, tmp_path)

    events: list[Any] = await ask(router, conversation_id, "hi")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")
    assert texts(events, "ai:triage") == []


DOES = """
from agents import function_tool

@function_tool
def pay(order: str) -> str:
    "Pay back."
    return f"Paid back {order}."

@function_tool
def look(order: str) -> str:
    "Look up."
    return f"{order} cost 7 EUR."
"""
BOTH = "guardrails: [no_prices]\ntools: [pay, look]\nread_only: [look]\n"


def doing(folder: Path, settings: str) -> Roster:
    """triage with tools, whose answers may name no price."""
    roster = desk(folder, "", triage=BOTH + settings)
    (folder / "agents" / "triage" / "tools.py").write_text(GUARDS + DOES)
    return roster


async def test_call_that_was_made_is_remembered_although_the_answer_was_stopped(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9: the agent reads its call and the result next time, and not what it only looked up or said."""
    model = script([calls("look", order="A-1")], [calls("pay", order="A-1")], [says("7 EUR paid.")], [says("Done.")])
    router = router_for(store, live, doing(tmp_path, "on_guardrail: stay"), {"triage": model}, tmp_path)
    await ask(router, conversation_id, "pay it back")

    events = await ask(router, conversation_id, "was it done?", "m2")

    read = str(model.calls[-1].input)
    assert texts(events, "ai:triage") == ["Done."]
    assert "Paid back A-1." in read and "EUR" not in read
    assert "pay it back" not in read


async def test_people_read_in_the_brief_what_a_stopped_agent_has_done(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9 and 10: the next owner knows of the payment, and is not told what the guardrail stopped."""
    model = script([calls("look", order="A-1")], [calls("pay", order="A-1")], [says("7 EUR paid.")])
    router = router_for(store, live, doing(tmp_path, ""), {"triage": model}, tmp_path)

    events = await ask(router, conversation_id, "pay it back")

    (moved,) = [event for event in events if event.type == "owner.changed"]
    assert moved.owner_to == "queue:support"
    assert moved.data["brief"] == {"facts": ['pay({"order":"A-1"}) was called; its result: Paid back A-1.']}


async def test_approved_call_is_remembered_although_the_answer_was_stopped(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8 and 9: a call that a person agreed to was made; the agent must not wish it again."""
    model = script([calls("pay", order="A-1")], [says("7 EUR paid.")], [says("Done.")])
    router = router_for(
        store, live, doing(tmp_path, "approval: [pay]\non_guardrail: stay"), {"triage": model}, tmp_path
    )
    await router.start()
    await ask(router, conversation_id, "pay it back")
    (approval,) = await asked(store, conversation_id)
    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")

    async def stopped() -> bool:
        return "guardrail.tripped" in types(await store.read(conversation_id))

    await wait_until("the guardrail stops the answer", stopped)
    await wait_until("the turn ends", lambda: router.running == 0)
    await ask(router, conversation_id, "was it done?", "m2")
    await router.stop()

    history = str(await store.history(conversation_id, "triage"))
    assert "Paid back A-1." in str(model.calls[-1].input)
    assert history.count("Paid back A-1.") == 1 and "EUR" not in history
