"""Guardrails named in agent files: each owner's own, run again after a transfer, with a defined outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handoffs.lint import check
from handoffs.loader import load_roster
from handoffs.roster import Roster
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, transfer
from tests.handoffs.folders import agent_file, write
from tests.handoffs.test_router import ask, texts, types

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
