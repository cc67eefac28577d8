"""Agents as tools that fail, hang or never end: one failed call, and the caller goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Model
from agents.testing import ModelStep

from handoffs.loader import load_roster
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Person
from sessions.live import Live
from sessions.store import Store
from tests.handoffs.asking import DESK, answers, asks, calls, said, told
from tests.handoffs.desks import agent, roster, router_for, says, script
from tests.handoffs.folders import agent_file, write
from tests.handoffs.test_guardrails import GUARDS
from tests.support import wait_until

# -- failures --------------------------------------------------------------------------------------------------------


async def fails_with(store: Store, live: Live, conversation_id: str, tmp_path: Path, desk: Roster, inner: Model) -> str:
    """What billing reads when the asked agent works with `inner`; it answers the customer nevertheless."""
    billing = script([asks("check", request="Go.")], [says("Without it.")])
    router = router_for(store, live, desk, {"billing": billing, "check": inner}, tmp_path)
    events = await said(router, conversation_id)
    assert answers(events) == [("ai:billing", "Without it.")]
    return told(billing)


async def test_failure_inside_is_one_failed_call(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 1 (agent as tool, if it fails): the caller decides; it reads no details of the failure."""
    desk = roster(agent("billing", ask=("check",)), agent("check"))
    inner = script(RuntimeError("password=hunter2"))

    text = await fails_with(store, live, conversation_id, tmp_path, desk, inner)

    assert text == "check gave no answer: it failed. Go on without it, or say what is missing."


async def test_silence_inside_is_one_failed_call(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 6: an empty answer is not replaced by the last tool result."""
    desk = roster(agent("billing", ask=("check",)), agent("check"))

    text = await fails_with(store, live, conversation_id, tmp_path, desk, script([says("")]))

    assert text.startswith("check gave no answer: it said nothing.")


async def test_too_slow_an_agent_is_one_failed_call(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 1: when it does not answer in its `seconds`, the caller goes on, and the inner model is cancelled."""
    desk = roster(agent("billing", ask=("check",)), agent("check", limits={"seconds": 0.1}))
    cancelled = asyncio.Event()

    async def hangs(_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    text = await fails_with(store, live, conversation_id, tmp_path, desk, script(ModelStep.respond(hangs)))

    assert text.startswith("check gave no answer: nothing came within 0.1 seconds.")
    assert cancelled.is_set()


async def test_asked_agent_never_uses_up_the_callers_time(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 1: an agent that hangs for its 60 seconds leaves half of the caller's to go on without it."""
    desk = roster(agent("billing", ask=("check",), limits={"seconds": 1}), agent("check"))

    async def hangs(_: Any) -> Any:
        await asyncio.Event().wait()

    text = await fails_with(store, live, conversation_id, tmp_path, desk, script(ModelStep.respond(hangs)))

    assert "nothing came within 0.5" in text or "nothing came within 0.4" in text


async def test_model_calls_inside_are_limited(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 6: a loop inside ends at the asked agent's own limit, as one failed call."""
    desk = roster(agent("billing", ask=("check",)), agent("check", limits={"model_calls": 2}))

    inner = script([calls("nothing")], [calls("nothing")], [says("never")])
    text = await fails_with(store, live, conversation_id, tmp_path, desk, inner)

    assert text.startswith("check gave no answer: it used up its 2 model calls.")


async def test_requests_of_a_turn_are_counted_at_every_depth(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 6 (call limits): asks_per_turn counts requests of the owner and of asked agents together."""
    desk = roster(
        agent("billing", ask=("check",)), agent("check", ask=("deep",)), agent("deep"), limits={"asks_per_turn": 2}
    )
    billing = script([asks("check", request="1")], [asks("check", request="2")], [says("Done.")])
    models = {
        "billing": billing,
        "check": script([asks("deep", request="1a")], [says("One.")]),
        "deep": script([says("Deep.")]),
    }
    router = router_for(store, live, desk, models, tmp_path)

    await said(router, conversation_id)

    assert told(billing, 2) == "Not asked: 2 requests to colleagues were made in this turn, and no more are allowed."


async def test_chain_of_asking_ends_at_the_depth_limit(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 6 (depth): an agent at the end of the longest chain allowed is offered nobody to ask."""
    desk = roster(agent("one", ask=("two",)), agent("two", ask=("one",)), limits={"ask_depth": 2})
    inner = script([asks("one", request="b")], [says("c")])
    outer = script([asks("two", request="a")], [says("at the end")], [says("Done.")])
    router = router_for(store, live, desk, {"one": outer, "two": inner}, tmp_path)

    await said(router, conversation_id)

    assert [[tool.name for tool in call.tools] for call in outer.calls] == [["ask_two"], [], ["ask_two"]]


async def test_takeover_while_an_asked_agent_works_ends_both(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: a person takes over in the middle: the inner model is cancelled, nothing of either is stored."""
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hangs(_: Any) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    models = {
        "billing": script([asks("fraud_check", request="Go.")]),
        "fraud_check": script(ModelStep.respond(hangs)),
    }
    router = router_for(store, live, DESK, models, tmp_path)
    await router.receive(conversation_id, CustomerMessage("m1", "please check"))
    await started.wait()

    await router.take(conversation_id, person=Person("ann", "Ann"))
    await wait_until("the turn ends", lambda: router.running == 0)
    await asyncio.wait_for(cancelled.wait(), 5)

    assert await store.history(conversation_id, "billing") == ()


async def test_guardrail_of_an_asked_agent_stops_its_answer_and_rings(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """handoffs.md 6 and 2.9: the guardrails of its file count when it is asked; operators hear which it was."""
    files: dict[str, str | bytes] = {
        "triage/agent.md": agent_file("intended_use: All.\nask: [check]\ntransfer_to: [human:support]"),
        "check/agent.md": agent_file("intended_use: Checks.\nguardrails: [no_prices]"),
        "check/tools.py": GUARDS,
    }
    models = {"triage": script([asks("check", request="Go.")], [says("Without it.")]), "check": script([says("7 EUR")])}
    router = router_for(store, live, load_roster(write(tmp_path / "agents", files)), models, tmp_path)

    events = await said(router, conversation_id)

    assert answers(events) == [("ai:triage", "Without it.")]
    assert "it failed" in told(models["triage"]) and "EUR" not in told(models["triage"])
    assert router.alarms.counts["guardrail"] == 1
    assert "guardrail at check: no_prices" in caplog.text
