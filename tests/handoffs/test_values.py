"""Shared values in real turns: how long each lives, and that nobody who changes one loses it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import FunctionTool, Model, RunContextWrapper, Tool, function_tool
from agents.testing import function_call

from handoffs.context import TurnContext
from handoffs.errors import ValueInvalid, ValueNotAllowed
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Router
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState
from handoffs.team import Team
from handoffs.turn_values import TurnValues
from sessions.errors import StaleOwner
from sessions.keys import Keys
from sessions.live import Live
from sessions.model import Value
from sessions.store import Store
from sessions.values import ValuesDraft
from tests.handoffs.desks import ScriptedModels, agent, roster, says, script, transfer
from tests.handoffs.test_round_trips import Sends, sends  # noqa: F401  # a fixture
from tests.handoffs.test_router import ANN, texts
from tests.sessions.test_store import granted
from tests.support import wait_until

Context = RunContextWrapper[TurnContext]
KEYS = ("code", "visits", "note", "plan")
ADA, BOB = "v_ada", "v_bob"

_calls = iter(range(1, 1_000_000))


def clinic(**values: Any) -> Roster:
    """triage and billing, which both read and write every value: one of each lifetime, and a plain text."""
    access = {"read": KEYS, "write": KEYS}
    contracts = {
        "code": {"lifetime": "turn"},
        "visits": {"type": "integer", "lifetime": "customer"},
        "note": {"type": "integer"},
        "plan": {},
        **values,
    }
    return roster(
        agent("triage", transfer_to=("billing", "human:support"), values=access),
        agent("billing", transfer_to=("triage",), values=access),
        values=contracts,
    )


@function_tool
def put(ctx: Context, key: str, value: str) -> str:
    """Set a value."""
    ctx.context.values.set(key, value)
    return "done"


@function_tool
def read(ctx: Context, key: str) -> str:
    """Say what a value is."""
    return f"{key} is {ctx.context.values.get(key)}"


@function_tool
def count(ctx: Context, key: str) -> str:
    """Count a value up. It runs in a thread of its own, as every tool that is not async."""
    return str(ctx.context.values.increment(key))


def call(tool: FunctionTool, **arguments: str) -> Any:
    return function_call(tool.name, arguments, call_id=f"v_call_{next(_calls)}")


def desk(
    store: Store, live: Live, models: Mapping[str, Model], folder: Path, *more: Tool, team: Roster | None = None
) -> Router:
    """A router whose agents have the three tools, and `more`."""
    tools: Any = (put, read, count, *more)
    loaded = Team.load(team or clinic(), ScriptedModels(models), data_dir=folder)
    return Router(store, live, replace(loaded, tools={"triage": tools, "billing": tools}), sweep_s=0.1)


async def ask(router: Router, conversation_id: str, message_id: str = "m1", customer: str = "") -> None:
    """A customer's message, until its turn is over."""
    await router.receive(conversation_id, CustomerMessage(message_id, "hello", customer=customer))
    await wait_until("the turn ends", lambda: router.running == 0)


async def stored(store: Store, conversation_id: str) -> str:
    """All that Redis holds of the conversation's record and values."""
    keys, redis = Keys.of(conversation_id), store.backend.cmd
    return str(await redis.hgetall(keys.own)) + str(await redis.hgetall(keys.values))


# --- as long as the turn --------------------------------------------------------------------------------------------


async def test_value_of_the_turn_reaches_the_next_owner_and_is_gone_when_the_customer_is_next(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: lifetime `turn` outlives a transfer, and nothing of it is stored after the answer."""
    billing = script([call(read, key="code")], [says("ok")], [call(read, key="code")], [says("ok")])
    models = {"triage": script([call(put, key="code", value="TAN-77")], [transfer("billing")]), "billing": billing}
    router = desk(store, live, models, tmp_path)

    await ask(router, conversation_id)
    await ask(router, conversation_id, "m2")

    assert "code is TAN-77" in str(billing.calls[1].input)
    assert "code is None" in str(billing.calls[3].input[-1])
    assert "TAN-77" not in await stored(store, conversation_id)


async def test_value_of_the_turn_survives_the_worker_that_set_it(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4: a worker dies after the transfer; the one that goes on for the new owner has the value."""
    reached, never = asyncio.Event(), asyncio.Event()

    @function_tool
    async def hang() -> str:
        """Never end."""
        reached.set()
        await never.wait()
        return ""

    models = {
        "triage": script([call(put, key="code", value="TAN-77")], [transfer("billing")]),
        "billing": script([call(hang)]),
    }
    dying = desk(Store(store.backend, lease_ms=1), live, models, tmp_path, hang)
    await dying.receive(conversation_id, CustomerMessage("m1", "hello"))
    await asyncio.wait_for(reached.wait(), 10)
    billing = script([call(read, key="code")], [says("ok")])
    heir = desk(store, live, {"billing": billing}, tmp_path)

    await heir.start()
    await wait_until("billing has answered", lambda: len(billing.calls) == 2 and heir.running == 0)

    assert "code is TAN-77" in str(billing.calls[1].input)
    await heir.stop()
    await dying.stop(0)


async def test_value_of_a_turn_that_a_person_ended_is_not_seen_by_the_next_turn(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: a takeover ends the turn; what the agent noted for it does not come back with the hand back."""
    reached, never = asyncio.Event(), asyncio.Event()

    @function_tool
    async def hang() -> str:
        """Never end."""
        reached.set()
        await never.wait()
        return ""

    billing = script([call(hang)], [call(read, key="code")], [says("ok")])
    models = {"triage": script([call(put, key="code", value="TAN-77")], [transfer("billing")]), "billing": billing}
    router = desk(store, live, models, tmp_path, hang)
    await router.receive(conversation_id, CustomerMessage("m1", "hello"))
    await asyncio.wait_for(reached.wait(), 10)
    taken = await router.take(conversation_id, person=ANN)
    await router.say(conversation_id, taken.token, ANN, "I am here.", "s1")
    never.set()
    await wait_until("the agent's turn has ended", lambda: router.running == 0)

    await router.hand_back(conversation_id, taken.token, ANN, "billing")
    await ask(router, conversation_id, "m2")

    assert "code is None" in str(billing.calls[2].input[-1])
    assert "TAN-77" not in await stored(store, conversation_id)


# --- as long as the customer ----------------------------------------------------------------------------------------


async def test_value_of_the_customer_is_the_same_in_all_their_conversations(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: lifetime `customer` follows the identified visitor, and nobody else."""
    triage = script(*[step for _ in range(3) for step in ([call(count, key="visits")], [says("ok")])])
    router = desk(store, live, {"triage": triage}, tmp_path)

    await ask(router, f"{conversation_id}_1", customer=ADA)
    await ask(router, f"{conversation_id}_2", customer=ADA)
    await ask(router, f"{conversation_id}_3", customer=BOB)

    assert (await store.customer_values(ADA)).values == {"visits": Value(2, 2)}
    assert (await store.customer_values(BOB)).values == {"visits": Value(1, 1)}
    assert await store.values(f"{conversation_id}_1") == {}


async def test_value_of_a_customer_whom_nobody_knows_stays_with_the_conversation(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: without an identified visitor the value is kept, for this conversation only."""
    triage = script(*[step for _ in range(2) for step in ([call(count, key="visits")], [says("ok")])])
    router = desk(store, live, {"triage": triage}, tmp_path)

    await ask(router, conversation_id)
    await ask(router, conversation_id, "m2")

    assert await store.values(conversation_id) == {"visits": Value(2, 2)}


async def test_visitor_stays_with_the_conversation(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: the commits of a turn keep whose conversation it is, also through a transfer."""
    models = {"triage": script([transfer("billing")]), "billing": script([says("ok")])}
    router = desk(store, live, models, tmp_path)

    await ask(router, conversation_id, customer=ADA)

    assert RouterState.of((await store.get(conversation_id)).meta).customer == ADA


async def test_ten_conversations_that_count_for_one_customer_lose_none(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: turns that run at the same time count on each other's values, and none of them runs twice."""
    ready, everybody = asyncio.Event(), 10
    waiting: list[str] = []

    @function_tool
    async def gather(ctx: Context) -> str:
        """Count, and wait until all others have counted on what they read."""
        ctx.context.values.increment("visits")
        waiting.append(ctx.context.conversation_id)
        if len(waiting) == everybody:
            ready.set()
        await ready.wait()
        return "counted"

    steps = [*[[call(gather)] for _ in range(everybody)], *[[says("ok")] for _ in range(everybody)]]
    router = desk(store, live, {"triage": script(*steps)}, tmp_path, gather)

    for number in range(everybody):
        message = CustomerMessage("m1", "hello", customer=ADA)
        await router.receive(f"{conversation_id}_{number}", message)
    await wait_until("all turns end", lambda: router.running == 0)

    assert len(waiting) == everybody
    assert (await store.customer_values(ADA)).values == {"visits": Value(10, 10)}


async def test_worker_that_lost_the_conversation_changes_nothing_of_the_customer(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4: the token is asked for before a customer's value is written."""
    grant = await granted(store, conversation_id)
    values = TurnValues(store, grant, "1", clinic().desk.values, RouterState(customer=ADA))
    await values.load()
    values.update("visits", lambda _: 1)
    await store.takeover(conversation_id, "ann", change={})

    with pytest.raises(StaleOwner):
        await values.flush(grant.token)

    assert (await store.customer_values(ADA)).values == {}


async def test_desk_without_values_of_customers_makes_no_call_for_them(
    store: Store,
    live: Live,
    conversation_id: str,
    tmp_path: Path,
    sends: Sends,  # noqa: F811  # the fixture
) -> None:
    """handoffs.md 4: two round trips for a plain turn of a known customer; one more only where a desk asks for it."""
    counts = []
    for lifetime in ("conversation", "customer"):
        team = clinic(visits={"type": "integer", "lifetime": lifetime}, code={})
        router = desk(store, live, {"triage": script([says("one")], [says("two")])}, tmp_path, team=team)
        await ask(router, f"{conversation_id}_{lifetime}", customer=ADA)
        sends.count = 0
        await ask(router, f"{conversation_id}_{lifetime}", "m2", customer=ADA)
        counts.append(sends.count)

    assert counts == [2, 3]


# --- nobody's change is lost ----------------------------------------------------------------------------------------


async def test_hundred_tools_that_count_in_one_turn_lose_none(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: 100 calls at the same time, each in a thread of its own, make exactly 100."""
    triage = script([call(count, key="note") for _ in range(100)], [says("done")])
    router = desk(store, live, {"triage": triage}, tmp_path)

    await ask(router, conversation_id)

    assert await store.values(conversation_id) == {"note": Value(100, 1)}


async def test_turn_counts_on_what_the_desk_stored_meanwhile(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: both changes count, and the turn does not run again for it."""
    conversation = conversation_id

    @function_tool
    async def meanwhile(ctx: Context) -> str:
        """Count, while somebody at the desk counts too."""
        ctx.context.values.increment("note", 5)
        await store.update_value(conversation, "note", lambda note: (note or 0) + 100, by="human:ann")
        return "counted"

    triage = script([call(meanwhile)], [says("done")])
    router = desk(store, live, {"triage": triage}, tmp_path, meanwhile)

    await ask(router, conversation_id)

    assert await store.values(conversation_id) == {"note": Value(105, 2)}
    assert len(triage.calls) == 2


async def test_turn_that_would_overwrite_what_the_desk_stored_runs_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4: a plain set never saw the newer value, so nothing of the turn is kept and it starts anew."""
    conversation, once = conversation_id, iter([True])

    @function_tool
    async def meanwhile(ctx: Context) -> str:
        """Set the plan; the first time somebody at the desk sets it too."""
        if next(once, False):
            await store.update_value(conversation, "plan", lambda _: "gold", by="human:ann")
        ctx.context.values.set("plan", f"{ctx.context.values.get('plan')} plus")
        return "set"

    triage = script([call(meanwhile)], [says("lost")], [call(meanwhile)], [says("done")])
    router = desk(store, live, {"triage": triage}, tmp_path, meanwhile)
    await router.start()

    await router.receive(conversation_id, CustomerMessage("m1", "hello"))
    await wait_until("the second attempt has answered", lambda: triage.remaining_steps == 0 and router.running == 0)

    assert (await store.values(conversation_id))["plan"].value == "gold plus"
    assert texts(await store.read(conversation_id), "ai:triage") == ["done"]
    await router.stop()


# --- the contract ---------------------------------------------------------------------------------------------------


def values_of(team: Roster, agent_id: str = "triage") -> AgentValues:
    return AgentValues(ValuesDraft({}), team, team[agent_id])


def test_only_numbers_are_counted() -> None:
    """handoffs.md 4: the contract is checked, and the error says what the value is."""
    with pytest.raises(ValueInvalid, match="only an integer or a number can be counted up, and it is a string"):
        values_of(clinic()).increment("plan")


def test_update_must_fit_the_contract() -> None:
    """handoffs.md 4: what the function gives is checked like any value, and nothing is kept when it does not fit."""
    values = values_of(clinic())
    with pytest.raises(ValueInvalid, match="expected integer, got str"):
        values.update("note", lambda _: "many")
    assert values.get("note") is None


def test_agent_that_may_not_write_a_value_may_not_count_it() -> None:
    """handoffs.md 4: writers are named in the agent's file."""
    team = roster(agent("triage", values={"read": ("note",)}), values={"note": {"type": "integer"}})
    with pytest.raises(ValueNotAllowed, match="may not write"):
        values_of(team).increment("note")
