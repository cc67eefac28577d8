"""Several messages in a row, and messages that come while an agent works: each is answered once, by the owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Model, ModelResponse
from agents.items import TResponseStreamEvent
from agents.testing import ModelStep, function_call

from handoffs.loader import load_roster
from handoffs.router import CustomerMessage, Person, Router
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.asking import asks, told
from tests.handoffs.desks import agent, roster, router_for, says, script, transfer
from tests.handoffs.folders import agent_file, write
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until


class InTurn(Model):
    """Another model for each call; the last one answers all further calls."""

    def __init__(self, *models: Model) -> None:
        self.models = list(models)

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError("the router always streams")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        model = self.models.pop(0) if len(self.models) > 1 else self.models[0]
        async for event in model.stream_response(*args, **kwargs):
            yield event


async def send(router: Router, conversation_id: str, *texts: str) -> None:
    for text in texts:
        await router.receive(conversation_id, CustomerMessage(text, text))


async def idle(router: Router) -> None:
    await wait_until("the turn ends", lambda: router.running == 0)


async def rounds(store: Store, conversation_id: str, agent_id: str = "triage") -> list[str]:
    """An agent's history as `asked asked > said` for each answer."""
    found: list[str] = []
    asked: list[str] = []
    for item in await store.history(conversation_id, agent_id):
        if item.get("role") == "user" and "<handoff-note" not in item["content"]:
            asked.append(item["content"])
        elif item.get("role") == "assistant":
            found.append(f"{' '.join(asked)} > {item['content'][0]['text']}")
            asked = []
    return found


async def test_coalesce_answers_together_what_came_meanwhile(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: by default, messages that come while the agent works get one further answer together."""
    first = GatedModel("One.", hold_after=0)
    router = router_for(
        store, live, roster(agent("triage")), {"triage": InTurn(first, script([says("Two.")]))}, tmp_path
    )
    await send(router, conversation_id, "a")
    await first.holding.wait()

    await send(router, conversation_id, "b", "c")
    first.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id) == ["a > One.", "b c > Two."]


async def test_queue_gives_one_answer_per_message_in_order(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: with `queue` nothing is put together."""
    first = GatedModel("One.", hold_after=0)
    desk = roster(agent("triage", burst={"policy": "queue"}))
    model = InTurn(first, script([says("Two.")], [says("Three.")]))
    router = router_for(store, live, desk, {"triage": model}, tmp_path)
    await send(router, conversation_id, "a")
    await first.holding.wait()

    await send(router, conversation_id, "b", "c")
    first.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id) == ["a > One.", "b > Two.", "c > Three."]
    assert (await store.get(conversation_id)).waiting == 0


async def test_plan_of_a_queue_answers_the_same_message(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8 and 3: who speaks next in a plan does not swallow the messages that wait their turn."""
    first = GatedModel("One.", hold_after=0)
    desk = roster(agent("triage", burst={"policy": "queue"}, then=("survey",)), agent("survey"))
    models = {"triage": first, "survey": script([says("How was it?")], [says("And b?")])}
    router = router_for(store, live, desk, models, tmp_path)
    await send(router, conversation_id, "a")
    await first.holding.wait()

    await send(router, conversation_id, "b")
    first.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id, "survey") == ["a > How was it?", "b > And b?"]


async def test_cap_limits_what_one_answer_is_for(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: `cap` messages are answered together, the rest after them."""
    first = GatedModel("One.", hold_after=0)
    desk = roster(agent("triage", burst={"cap": 2}))
    model = InTurn(first, script([says("Two.")], [says("Three.")]))
    router = router_for(store, live, desk, {"triage": model}, tmp_path)
    await send(router, conversation_id, "a")
    await first.holding.wait()

    await send(router, conversation_id, "b", "c", "d")
    first.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id) == ["a > One.", "b c > Two.", "d > Three."]


async def test_debounce_waits_for_the_customer_to_pause(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: with a debounce the agent begins when nothing has come for that long: one answer for three."""
    desk = roster(agent("triage", burst={"debounce": 300}))
    router = router_for(store, live, desk, {"triage": script([says("All three.")])}, tmp_path)

    await send(router, conversation_id, "a", "b", "c")
    await idle(router)

    assert await rounds(store, conversation_id) == ["a b c > All three."]


async def test_takeover_ends_the_wait_of_a_debounce(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8 and 10: a person does not wait for the customer's pause, and no model is asked."""
    desk = roster(agent("triage", burst={"debounce": 5000}))
    router = router_for(store, live, desk, {}, tmp_path)
    await send(router, conversation_id, "a")

    await router.take(conversation_id, person=Person("ann", "Ann"))

    await idle(router)
    assert (await store.get(conversation_id)).owner == Owner.human("ann")


async def test_restart_begins_again_with_all_messages(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: a message that comes before anything can be seen, from any process, is part of the answer."""
    model = GatedModel("Both.", hold_after=0)
    desk = roster(agent("triage", burst={"policy": "restart"}))
    router = router_for(store, live, desk, {"triage": model}, tmp_path)
    elsewhere = router_for(Store(store.backend), live, desk, {}, tmp_path, works=False)
    await send(router, conversation_id, "a")
    await model.holding.wait()

    await send(elsewhere, conversation_id, "b")
    await wait_until("the model is asked again", lambda: model.calls == 2)
    model.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id) == ["a b > Both."]
    answers = [e for e in await store.read(conversation_id) if e.type == "msg.created" and e.by == "ai:triage"]
    assert len(answers) == 1


async def test_answer_that_was_seen_is_not_begun_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: once a piece is shown, `restart` lets the answer end, and answers the new message after it."""
    first = GatedModel("A long enough answer.", hold_after=8)
    desk = roster(agent("triage", burst={"policy": "restart"}))
    router = router_for(store, live, desk, {"triage": InTurn(first, script([says("Two.")]))}, tmp_path)
    await send(router, conversation_id, "a")

    async def shown() -> bool:
        return (await store.draft(conversation_id))[1] != ""

    await wait_until("a piece is shown", shown)
    await send(router, conversation_id, "b")
    first.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id) == ["a > A long enough answer.", "b > Two."]


async def test_run_that_did_something_is_not_begun_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8 and 9: after a tool with effects, `restart` never makes the model decide anew."""
    tools = 'from agents import function_tool\n\n@function_tool\ndef pay() -> str:\n    "Pay."\n    return "paid"\n'
    settings = "intended_use: All.\ntransfer_to: [human:support]\ntools: [pay]\nburst: {policy: restart}"
    folder = write(tmp_path / "agents", {"triage/agent.md": agent_file(settings), "triage/tools.py": tools})
    after = GatedModel("Paid.", hold_after=0)
    model = InTurn(script([function_call("pay", {}, call_id="c1")]), after, script([says("Two.")]))
    router = router_for(store, live, load_roster(folder), {"triage": model}, tmp_path)
    await send(router, conversation_id, "a")
    await after.holding.wait()

    await send(router, conversation_id, "b")
    after.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id) == ["a > Paid.", "b > Two."]


async def test_message_in_the_middle_of_a_transfer_is_answered_once_by_the_new_owner(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: triage is deciding when the second message comes; billing answers both, triage none."""
    held = GatedModel("x", hold_after=0)
    desk = roster(agent("triage", transfer_to=("billing",)), agent("billing"))
    router = router_for(
        store, live, desk, {"triage": HeldTransfer(held, "billing"), "billing": script([says("Both.")])}, tmp_path
    )
    await send(router, conversation_id, "a")
    await held.holding.wait()

    await send(router, conversation_id, "b")
    held.gate.set()
    await idle(router)

    assert await rounds(store, conversation_id, "billing") == ["a b > Both."]
    assert await rounds(store, conversation_id, "triage") == []
    events = await store.read(conversation_id)
    assert [e.by for e in events if e.type == "msg.created"] == ["customer", "customer", "ai:billing"]


class HeldTransfer(Model):
    """Waits for a gate, then transfers."""

    def __init__(self, gate: GatedModel, to: str) -> None:
        self._gate = gate
        self._script = script([transfer(to)])

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError("the router always streams")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        self._gate.holding.set()
        await self._gate.gate.wait()
        async for event in self._script.stream_response(*args, **kwargs):
            yield event


async def test_what_a_discarded_run_asked_counts_no_more(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8 and 6: who begins again may ask a colleague as often as who begins."""
    held = asyncio.Event()

    async def hold(_: Any) -> Any:
        held.set()
        await asyncio.Event().wait()

    billing = script([asks("fraud", request="check a")], [asks("fraud", request="check a, b")], [says("Both fine.")])
    desk = roster(
        agent("billing", ask=("fraud",), burst={"policy": "restart"}), agent("fraud"), limits={"asks_per_turn": 1}
    )
    models = {"billing": billing, "fraud": script(ModelStep.respond(hold), [says("No fraud.")])}
    router = router_for(store, live, desk, models, tmp_path)
    await send(router, conversation_id, "a")
    await held.wait()

    await send(router, conversation_id, "b")
    await wait_until("the answer is given", lambda: len(billing.calls) == 3)
    await idle(router)

    assert "No fraud." in told(billing, 2)
    assert await rounds(store, conversation_id, "billing") == ["a b > Both fine."]
