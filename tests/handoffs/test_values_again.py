"""A turn that runs again changes shared values as the first attempt did: not less, and not twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import FunctionTool, Model, RunContextWrapper, function_tool
from agents.testing import ModelStep

from handoffs.approvals import decide, gated
from handoffs.context import TurnContext
from handoffs.ledger import journalled
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Router
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState
from handoffs.team import Team
from handoffs.turn_values import TurnValues
from sessions.live import Live
from sessions.model import Owner, Value
from sessions.store import Store
from sessions.values import ValuesDraft
from tests.handoffs.approving import asked, calls, said
from tests.handoffs.desks import ScriptedModels, agent, roster, says, script
from tests.handoffs.test_ledger import kill, lease_is_over
from tests.sessions.test_store import granted
from tests.support import wait_until

Context = RunContextWrapper[TurnContext]
ADA, START = "v_ada", Owner.ai("billing")
KEYS = ("count", "plan", "visits", "parcels")
MESSAGE = CustomerMessage("m1", "hello", customer=ADA)


def desk(**more: Any) -> Roster:
    """billing, which counts (also for the customer) and sets a plan."""
    contracts = {
        "count": {"type": "integer"},
        "plan": {},
        "visits": {"type": "integer", "lifetime": "customer"},
        "parcels": {"type": "list"},
    }
    billing = agent("billing", values={"read": KEYS, "write": KEYS}, transfer_to=("human:support",), **more)
    return roster(billing, values=contracts)


class Change:
    """A tool that changes one value of each kind; with `meanwhile` somebody at the desk is faster, once."""

    def __init__(self, store: Store, conversation_id: str, meanwhile: str = "") -> None:
        self.runs = 0
        self._store = store
        self._conversation_id = conversation_id
        self._meanwhile = meanwhile

    def tool(self) -> FunctionTool:
        @function_tool
        async def change(ctx: Context) -> str:
            """Change values."""
            self.runs += 1
            if self._meanwhile and self.runs == 1:
                await self._store.update_value(self._conversation_id, self._meanwhile, lambda _: "gold", by="human:ann")
            ctx.context.values.increment("count")
            ctx.context.values.increment("visits")
            ctx.context.values.set("plan", "silver")
            return "changed"

        return change


def router_of(
    store: Store, live: Live, folder: Path, model: Model, *tools: FunctionTool, team: Roster | None = None
) -> Router:
    loaded = Team.load(team or desk(), ScriptedModels({"billing": model}), data_dir=folder)
    return Router(store, live, replace(loaded, tools={"billing": tools}), sweep_s=0.1)


def once(tool: FunctionTool) -> FunctionTool:
    return journalled(tool, "human:support")


async def hang(_: Any) -> Any:
    await asyncio.Event().wait()


async def stored(store: Store, conversation_id: str) -> Mapping[str, Any]:
    """All values, by key."""
    found = {**await store.values(conversation_id), **(await store.customer_values(ADA)).values}
    return {key: value.value for key, value in found.items()}


# --- a call whose result is recorded --------------------------------------------------------------------------------


async def test_values_of_a_recorded_call_are_stored_by_the_heir_of_a_dead_worker(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9 and 4: the worker dies after the tool and before the commit; result and values both survive."""
    change = Change(store, conversation_id)
    first = script([calls("change")], ModelStep.respond(hang))
    dying = router_of(Store(store.backend, lease_ms=400), live, tmp_path, first, once(change.tool()))
    await dying.receive(conversation_id, MESSAGE)
    await wait_until("the model is asked again", lambda: len(first.calls) == 2)
    await kill(dying, conversation_id)
    await lease_is_over(store, conversation_id)

    second = script([calls("change")], [says("Done.")])
    heir = router_of(store, live, tmp_path, second, once(change.tool()))
    await heir.start()
    await said(store, conversation_id, "Done.")
    await heir.stop()

    assert await stored(store, conversation_id) == {"count": 1, "plan": "silver", "visits": 1}
    assert (change.runs, second.calls[1].input[-1]["output"]) == (1, "changed")


async def test_values_of_a_recorded_call_survive_a_commit_that_was_refused(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: nothing counted is lost or counted twice when the turn runs again, the customer's neither."""
    change = Change(store, conversation_id, meanwhile="plan")
    model = script([calls("change")], [says("lost")], [calls("change")], [says("Done.")])
    router = router_of(store, live, tmp_path, model, once(change.tool()))
    await router.start()

    await router.receive(conversation_id, MESSAGE)
    await said(store, conversation_id, "Done.")
    await router.stop()

    found = await stored(store, conversation_id)
    assert (change.runs, found["count"], found["visits"]) == (1, 1, 1)


async def test_what_somebody_set_meanwhile_stays_and_the_model_is_told(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: the recorded call never saw the newer value, so it is not laid over it, and not in silence."""
    change = Change(store, conversation_id, meanwhile="plan")
    model = script([calls("change")], [says("lost")], [calls("change")], [says("Done.")])
    router = router_of(store, live, tmp_path, model, once(change.tool()))
    await router.start()

    await router.receive(conversation_id, MESSAGE)
    await said(store, conversation_id, "Done.")
    await router.stop()

    assert (await stored(store, conversation_id))["plan"] == "gold"
    told = "changed\n(Not kept: plan. Somebody else has changed it since, or it is not allowed any more.)"
    assert model.calls[-1].input[-1]["output"] == told


async def test_values_of_an_approved_call_are_stored_by_the_heir_of_a_dead_worker(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8 and 9: the approved call ran, its worker died before the commit; its values are not forgotten."""
    change = Change(store, conversation_id)
    first = script([calls("change")], ModelStep.respond(hang))
    dying = router_of(Store(store.backend, lease_ms=400), live, tmp_path, first, gated(change.tool(), "human:support"))
    await dying.receive(conversation_id, MESSAGE)
    (one,) = await asked(store, conversation_id)
    await wait_until("the turn rests", lambda: dying.running == 0)
    await dying.start()
    await decide(store, conversation_id, one.approval_id, "granted", by="human:ann")
    await wait_until("the model is asked again", lambda: len(first.calls) == 2)
    await kill(dying, conversation_id)
    await dying.stop()
    await lease_is_over(store, conversation_id)

    heir = router_of(store, live, tmp_path, script([says("Done.")]), gated(change.tool(), "human:support"))
    await heir.start()
    await said(store, conversation_id, "Done.")
    await heir.stop()

    assert await stored(store, conversation_id) == {"count": 1, "plan": "silver", "visits": 1}
    assert change.runs == 1


async def test_second_run_in_the_same_turn_does_not_count_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9: an agent that is asked once more and wishes the same call gets its result, nothing is counted."""
    change = Change(store, conversation_id)
    announces = "I'll transfer you to a colleague now."
    model = script([calls("change")], [says(announces)], [calls("change")], [says("ok")])
    router = router_of(store, live, tmp_path, model, once(change.tool()), team=desk(announced="ask_again"))

    await router.receive(conversation_id, MESSAGE)
    await wait_until("the turn ends", lambda: router.running == 0)

    found = await stored(store, conversation_id)
    assert (len(model.calls), change.runs, found["count"], found["visits"]) == (4, 1, 1, 1)


# --- the customer's own values --------------------------------------------------------------------------------------


async def test_customer_is_counted_once_when_a_call_that_only_reads_is_made_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: the customer's values are written before a commit that may be refused, and still only once."""
    change = Change(store, conversation_id, meanwhile="plan")
    model = script([calls("change")], [says("lost")], [calls("change")], [says("Done.")])
    router = router_of(store, live, tmp_path, model, change.tool())
    await router.start()

    await router.receive(conversation_id, MESSAGE)
    await said(store, conversation_id, "Done.")
    await router.stop()

    assert (change.runs, await stored(store, conversation_id)) == (2, {"count": 1, "plan": "silver", "visits": 1})


async def test_each_approved_call_of_one_turn_is_counted(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: two calls wait, the turn goes on for each decision on its own, and both count."""

    @function_tool
    async def visit(ctx: Context, order: str) -> str:
        """Count a visit."""
        ctx.context.values.increment("visits")
        return "counted"

    model = script([calls("visit", order="A"), calls("visit", order="B")], [says("Done.")])
    router = router_of(store, live, tmp_path, model, gated(visit, "human:support"))
    await router.start()
    await router.receive(conversation_id, MESSAGE)
    one, two = await wait_for_two(store, conversation_id)

    await decide(store, conversation_id, one, "granted", by="human:ann")
    await wait_until("the first is counted", lambda: counted(store))
    await decide(store, conversation_id, two, "granted", by="human:ann")
    await said(store, conversation_id, "Done.")
    await router.stop()

    assert (await stored(store, conversation_id))["visits"] == 2


async def test_each_message_of_one_turn_is_counted(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: what is written once per answer is written for every answer."""
    change = Change(store, conversation_id)
    model = script([calls("change")], [says("One.")], [calls("change")], [says("Two.")])
    queue = desk(burst={"policy": "queue"})
    for number in ("m1", "m2"):
        await store.enqueue(conversation_id, number, {"id": number, "text": "hi"}, start=START, meta={"customer": ADA})
    router = router_of(store, live, tmp_path, model, once(change.tool()), team=queue)

    await router.start()
    await said(store, conversation_id, "Two.")
    await router.stop()

    assert (await stored(store, conversation_id))["visits"] == 2


async def test_turn_goes_on_with_what_is_stored_when_an_earlier_attempt_had_counted(
    store: Store, conversation_id: str
) -> None:
    """handoffs.md 4: the second attempt reads the number that counts, not the one it would have made."""
    grant = await granted(store, conversation_id)
    for _ in range(2):
        values = TurnValues(store, grant, "1", desk().desk.values, RouterState(customer=ADA))
        await values.load()
        values.update("visits", lambda number: (number or 0) + 1)
        await values.flush(grant.token)

    assert values.get("visits") == 1


async def wait_for_two(store: Store, conversation_id: str) -> tuple[str, str]:
    async def both() -> list[str]:
        waiting = [one.approval_id for one in await store.approvals(conversation_id) if one.state == "asked"]
        return waiting if len(waiting) == 2 else []

    one, two = await wait_until("two approvals wait", both)
    return one, two


async def counted(store: Store) -> bool:
    return "visits" in (await store.customer_values(ADA)).values


# --- changes that are made again ------------------------------------------------------------------------------------


def values_of(draft: ValuesDraft, team: Roster | None = None) -> AgentValues:
    team = team or desk()
    return AgentValues(draft, team, team["billing"])


def test_change_that_the_contract_no_longer_allows_is_not_made() -> None:
    """handoffs.md 4: the contract of this moment counts, and the key is named."""
    closed = roster(agent("billing", values={"read": ("plan",)}), values={"plan": {}})
    draft = ValuesDraft({})

    assert values_of(draft, closed).again([{"key": "plan", "value": "silver", "rev": 0}]) == ("plan",)
    assert draft.writes() == []


def test_counting_is_added_to_what_others_counted() -> None:
    """handoffs.md 4: a number is counted up again, not set to what it was then."""
    draft = ValuesDraft({"count": Value(10, 7)})

    assert values_of(draft).again([{"key": "count", "by": 2}]) == ()
    assert json.dumps(draft.get("count")) == "12"


def test_value_that_is_already_so_is_no_quarrel() -> None:
    """handoffs.md 4: an attempt before had stored it itself."""
    draft = ValuesDraft({"parcels": Value(["A"], 3)})

    assert values_of(draft).again([{"key": "parcels", "value": ["A"], "rev": 2}]) == ()
    assert draft.writes() == []
