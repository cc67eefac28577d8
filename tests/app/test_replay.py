"""Replay of recorded runs: the same decisions on the same desk, and a clear word where another desk differs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import Model, RunContextWrapper, function_tool
from agents.testing import ModelStep, function_call

from app.desk import Desk
from app.runs_view import run_list, run_view
from handoffs.context import TurnContext
from handoffs.errors import NotReplayable
from handoffs.replay import Difference, Replayed, replay
from handoffs.roster import Roster, Step
from handoffs.router import CustomerMessage
from sessions.connect import Backend
from sessions.live import Live
from sessions.model import ValueWrite
from sessions.store import Store
from tests.app.served import Served, served
from tests.handoffs.desks import agent, roster, says, script, transfer
from tests.handoffs.folders import agent_file, write
from tests.support import wait_until

ROUTES = {"transfer_to": ("billing", "human:support")}
VALUES = {"write": ["order"]}


def people(triage: dict[str, Any] | None = None, billing: dict[str, Any] | None = None, **desk: Any) -> Roster:
    """triage, who may hand on to billing; both may hand on to people and set `order`."""
    return roster(
        agent("triage", **{**ROUTES, "values": VALUES, **(triage or {})}),
        agent("billing", **{"transfer_to": ("human:support",), "values": VALUES, **(billing or {})}),
        values={"order": {}, "card": {"sensitive": True}},
        **desk,
    )


class Recording:
    """A desk whose runs are recorded, and then replayed as the command line does it."""

    def __init__(self, backend: Backend, store: Store, live: Live, folder: Path) -> None:
        self.parts = (backend, store, live, folder)
        self.folder = folder

    async def run(
        self, conversation_id: str, models: dict[str, Model], roster_: Roster | None = None, *, start: Any = None
    ) -> dict[str, Any]:
        """One message is answered; the record of it, as the API gives it."""
        async with served(*self.parts, models, roster=roster_ or people()) as desk:
            if start is not None:
                await start(desk)
            await desk.desk.router.receive(conversation_id, CustomerMessage("m-last", "where is A-1?"))
            await wait_until("no turn runs", lambda: desk.desk.router.running == 0)
            return await self.newest(desk.desk, conversation_id)

    async def newest(self, desk: Desk, conversation_id: str) -> dict[str, Any]:
        listed = await run_list(desk, conversation_id, None, 1)
        return (await run_view(desk, listed.runs[0].id)).model_dump(mode="json")

    async def again(self, run: dict[str, Any], roster_: Roster | None = None) -> Replayed:
        return await replay(run, roster_ or people())


@pytest.fixture
def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> Recording:
    return Recording(backend, store, live, tmp_path)


def moving(*greeting: Any) -> dict[str, Model]:
    """triage asks for somebody who is not there, then for billing, who answers."""
    before = [[item] for item in greeting]
    return {
        "triage": script(*before, [transfer("nobody")], [transfer("billing", reason="money")]),
        "billing": script([says("Billing here.")]),
    }


async def greeted(desk: Served, conversation_id: str) -> None:
    """A conversation in which the first message was answered."""
    await desk.desk.router.receive(conversation_id, CustomerMessage("m-first", "hello"))
    await wait_until("no turn runs", lambda: desk.desk.router.running == 0)


async def test_the_same_desk_decides_the_same(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 2.2 and 2.4: refusal, transfer, owner and text come out as they were recorded."""
    run = await desk.run(conversation_id, moving())

    found = await desk.again(run)

    assert found.differences == () and found.same
    triage, billing = found.now
    assert (triage.refused, triage.transfer, triage.owner_after) == (
        ("nobody",),
        "billing (decided by model)",
        "ai:billing",
    )
    assert (billing.owner_after, billing.text) == ("ai:billing", "Billing here.")


async def test_another_desk_is_told_where_it_decides_otherwise(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 2.1: without the route, the recorded call is refused now, and the customer stays with triage."""
    run = await desk.run(conversation_id, moving())

    found = await desk.again(run, people(triage={"transfer_to": ("human:support",)}))

    assert not found.same
    moved = Difference(1, "transfer", "billing (decided by model)", "human:support (decided by failure)")
    assert moved in found.differences
    assert Difference(1, "refused", "nobody", "nobody, billing") in found.differences
    assert Difference(2, "step", "ai:billing answered", "") in found.differences


async def test_an_entry_condition_decides_with_the_values_of_then(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 2.9: what was set when the run began counts, and so does what is asked for today."""

    async def set_order(served_: Served) -> None:
        await greeted(served_, conversation_id)
        await served_.desk.store.set_values(conversation_id, "v", [ValueWrite("order", "A-1")], by="human:ann")

    conditioned = people(billing={"requires": ("order",)})
    run = await desk.run(conversation_id, moving(says("Hello.")), conditioned, start=set_order)

    assert (await desk.again(run, conditioned)).same
    assert not (await desk.again(run, people(billing={"requires": ("order", "card")}))).same


async def test_tools_answer_from_the_record_and_do_not_run(
    backend: Backend, store: Store, live: Live, tmp_path: Path, conversation_id: str
) -> None:
    """handoffs.md 9: nothing outside is touched; what a tool had set is set, so a condition on it is met again."""
    ran = tmp_path / "ran"
    tool = (
        "from pathlib import Path\n"
        "from agents import RunContextWrapper, function_tool\n"
        "from handoffs.context import TurnContext\n\n"
        "@function_tool\n"
        "def find_order(ctx: RunContextWrapper[TurnContext], number: str) -> str:\n"
        '    """Find an order."""\n'
        f"    path = Path({str(ran)!r})\n"
        "    path.write_text((path.read_text() if path.exists() else '') + number)\n"
        "    ctx.context.values.set('order', number)\n"
        "    return 'It is on its way.'\n"
    )
    triage = "intended_use: Everything.\ntransfer_to: [billing]\nvalues: {write: [order]}\ntools: [find_order]\n"
    billing = "intended_use: Money.\ntransfer_to: [human:support]\nrequires: [order]\n"
    folder = write(
        tmp_path / "agents",
        {
            "desk.yaml": "name: Desk\nstart: triage\nqueues: {support: {name: S}}\nvalues: {order: {}}\n",
            "triage/agent.md": agent_file(triage),
            "triage/tools.py": tool,
            "billing/agent.md": agent_file(billing),
        },
    )
    from handoffs.loader import load_roster

    shop = load_roster(folder)
    models: dict[str, Model] = {
        "triage": script([function_call("find_order", {"number": "A-1"}, call_id="c1")], [transfer("billing")]),
        "billing": script([says("Billing here.")]),
    }
    recording = Recording(backend, store, live, tmp_path)
    run = await recording.run(conversation_id, models, shop)
    assert ran.read_text() == "A-1" and run["steps"][0]["values"] == {"order": "A-1"}

    found = await recording.again(run, shop)

    assert found.same and found.now[0].tools == ("find_order", "transfer_to_agent")
    assert ran.read_text() == "A-1"


async def test_a_failure_is_replayed_as_one(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 11: the defined next owner is the same; a desk with another `on_error` shows the difference."""
    run = await desk.run(conversation_id, {"triage": script(RuntimeError("model is down"))})

    same = await desk.again(run)
    other = await desk.again(run, people(triage={"on_error": "triage"}))

    assert same.same and same.now[0].owner_after == "queue:support"
    assert [(d.what, d.then, d.now) for d in other.differences if d.what == "owner_after"] == [
        ("owner_after", "queue:support", "ai:triage")
    ]


async def test_what_the_customer_wrote_meanwhile_comes_when_it_came(
    backend: Backend, store: Store, live: Live, tmp_path: Path, conversation_id: str
) -> None:
    """handoffs.md 2.8: a message that arrived during the run is answered in the second step, then and now."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> ModelStep:
        reached.set()
        await go_on.wait()
        return ModelStep(output=[transfer("billing")])

    models: dict[str, Model] = {"triage": script(ModelStep.respond(slow)), "billing": script([says("Both answered.")])}
    recording = Recording(backend, store, live, tmp_path)
    async with served(backend, store, live, tmp_path, models, roster=people()) as desk:
        await desk.desk.router.receive(conversation_id, CustomerMessage("m1", "first"))
        await reached.wait()
        await desk.desk.router.receive(conversation_id, CustomerMessage("m2", "second"))
        go_on.set()
        await wait_until("no turn runs", lambda: desk.desk.router.running == 0)
        run = await recording.newest(desk.desk, conversation_id)
    assert [[m["text"] for m in step["messages"]] for step in run["steps"]] == [["first"], ["first", "second"]]

    assert (await recording.again(run)).same


async def test_an_asked_agent_answers_from_the_record(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 6: its model is not asked again; the owner's call has the recorded result."""
    asking = people(triage={"ask": ("billing",)})
    models: dict[str, Model] = {
        "triage": script([function_call("ask_billing", {"request": "Paid?"}, call_id="c1")], [says("It is paid.")]),
        "billing": script([says("Yes, paid.")]),
    }
    run = await desk.run(conversation_id, models, asking)
    assert [call["path"] for call in run["steps"][0]["calls"]] == [[], ["triage", "billing"], []]

    assert (await desk.again(run, asking)).same


async def test_a_run_that_waits_for_an_approval_waits_again(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 8: the gate is decided by today's desk: the same call is asked about, or goes through."""

    @function_tool
    def refund(ctx: RunContextWrapper[TurnContext], number: str) -> str:
        """Refund an order."""
        raise AssertionError("nobody agreed")

    gated = people(triage={"approval": ("refund",), "tools": ("refund",)})
    models: dict[str, Model] = {"triage": script([function_call("refund", {"number": "A-1"}, call_id="c1")])}

    async def give_tool(served_: Served) -> None:
        from dataclasses import replace

        from handoffs.approvals import gated as gate

        team = served_.desk.router.team
        served_.desk.router.team = replace(team, tools={**team.tools, "triage": (gate(refund, "human:support"),)})

    run = await desk.run(conversation_id, models, people(triage={"approval": ("refund",)}), start=give_tool)
    assert run["outcome"] == "waiting"

    assert (await desk.again(run, gated)).same
    open_now = await desk.again(run, people())
    assert ("outcome", "waiting") in [(difference.what, difference.then) for difference in open_now.differences]


async def test_hidden_values_do_not_change_what_is_decided(desk: Recording, conversation_id: str) -> None:
    """handoffs.md 5: a replay works on what the API shows: a sensitive value counts as set, and is not seen."""

    async def set_card(served_: Served) -> None:
        await greeted(served_, conversation_id)
        await served_.desk.store.set_values(conversation_id, "v", [ValueWrite("card", "4111-1111")], by="human:ann")

    conditioned = people(billing={"requires": ("card",)})
    run = await desk.run(conversation_id, moving(says("Hello.")), conditioned, start=set_card)
    assert run["values"] == {"card": "[hidden]"}

    assert (await desk.again(run, conditioned)).same


@pytest.mark.parametrize("kept_back", [{"sensitive": True}, {"lifetime": "customer"}], ids=["sensitive", "customer's"])
async def test_a_condition_on_a_value_that_is_not_recorded_is_a_note_and_no_verdict(
    desk: Recording, conversation_id: str, kept_back: dict[str, Any]
) -> None:
    """handoffs.md 3 (`when:`): the record says that `risk` was set and not to what, so nobody knows who is next."""
    risky = roster(
        agent("triage", then=(Step(to="billing", when="risk is high"),), values={"read": ("risk",)}),
        agent("billing"),
        values={"risk": kept_back},
    )

    async def set_risk(served_: Served) -> None:
        await served_.desk.router.receive(conversation_id, CustomerMessage("m-first", "hello", customer="v_1"))
        await wait_until("no turn runs", lambda: served_.desk.router.running == 0)
        write = [ValueWrite("risk", "high", 0)]
        if "lifetime" in kept_back:
            await served_.desk.store.set_customer_values("v_1", "r1", write)
        else:
            await served_.desk.store.set_values(conversation_id, "v", write, by="human:ann")

    models: dict[str, Model] = {
        "triage": script([says("Hello.")], [says("One.")]),
        "billing": script([says("Two.")]),
    }
    run = await desk.run(conversation_id, models, risky, start=set_risk)
    assert [step["owner"] for step in run["steps"]] == ["ai:triage", "ai:billing"]

    found = await desk.again(run, risky)

    assert not found.same and found.verdict == "cannot tell"
    assert found.notes == ("triage: `when: risk is high` depends on a value that is not recorded (risk)",)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"whole": False}, "not whole"),
        ({"outcome": "broken"}, "given up"),
        ({"resumed": True}, "after an approval"),
    ],
)
async def test_what_cannot_be_replayed_says_why(
    desk: Recording, conversation_id: str, change: dict[str, Any], why: str
) -> None:
    """A wrong answer would be worse than none."""
    run = await desk.run(conversation_id, moving())

    with pytest.raises(NotReplayable, match=why):
        await desk.again({**run, **change})
