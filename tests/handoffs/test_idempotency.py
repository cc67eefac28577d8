"""The key that a tool passes on to an outside system: one for each call, and the same when the turn runs again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import FunctionTool, Model, RunContextWrapper, function_tool

from handoffs.approvals import decide, gated
from handoffs.context import TurnContext
from handoffs.ledger import journalled
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.keys import Keys
from sessions.live import Live
from sessions.store import Store
from tests.handoffs.approving import asked, calls, said, write
from tests.handoffs.desks import ScriptedModels, agent, roster, says, script, transfer
from tests.handoffs.gated_model import GatedModel
from tests.handoffs.test_burst import InTurn
from tests.handoffs.test_ledger import kill, lease_is_over
from tests.support import wait_until

Context = RunContextWrapper[TurnContext]


class Keyed:
    """A tool that writes down its keys, and can be held in its first call."""

    def __init__(self, *, held: bool = False) -> None:
        self.keys: list[str] = []
        self._held = held
        self._never = asyncio.Event()

    def tool(self) -> FunctionTool:
        @function_tool
        async def order(ctx: Context, reason: str = "") -> str:
            """Order tea. The reason is what the model says, and does not belong to the key."""
            self.keys.append(ctx.context.idempotency_key("order", "tea"))
            if self._held:
                await self._never.wait()
            return "ordered"

        return order


def desk() -> Roster:
    """shop answers messages one by one and orders; stock orders too."""
    return roster(
        agent("shop", burst={"policy": "queue"}, transfer_to=("stock", "human:support")),
        agent("stock", transfer_to=("shop", "human:support")),
    )


def router_of(store: Store, live: Live, folder: Path, models: dict[str, Model], *tools: FunctionTool) -> Router:
    team = Team.load(desk(), ScriptedModels(models), data_dir=folder)
    own = tuple(tool if tool.needs_approval else journalled(tool, "human:support") for tool in tools)
    return Router(store, live, replace(team, tools={"shop": own, "stock": own}), sweep_s=0.1)


async def three_messages(router: Router, conversation_id: str, first: GatedModel) -> None:
    """One message is being answered while two more come, so all three are answered in one turn."""
    await router.receive(conversation_id, CustomerMessage("m1", "hello"))
    await first.holding.wait()
    await router.receive(conversation_id, CustomerMessage("m2", "one tea"))
    await router.receive(conversation_id, CustomerMessage("m3", "one more tea"))
    first.gate.set()


async def test_two_messages_in_one_turn_have_two_keys(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9: the second order is not mistaken for the first by a system that does its work once per key."""
    keyed, first = Keyed(), GatedModel("One.", hold_after=0)
    model = InTurn(first, script([calls("order")], [says("Two.")], [calls("order")], [says("Three.")]))
    router = router_of(store, live, tmp_path, {"shop": model}, keyed.tool())

    await three_messages(router, conversation_id, first)
    await said(store, conversation_id, "Three.")

    assert len(set(keyed.keys)) == len(keyed.keys) == 2


async def test_two_equal_calls_in_one_answer_have_two_keys(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9: the key counts equal calls, as the ledger does."""
    keyed = Keyed()
    model = script([calls("order"), calls("order")], [says("Two.")])
    router = router_of(store, live, tmp_path, {"shop": model}, keyed.tool())

    await write(router, conversation_id, "two teas")

    assert len(set(keyed.keys)) == len(keyed.keys) == 2


async def test_equal_calls_of_two_owners_in_one_turn_have_two_keys(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9: what the owner before the transfer did is another call, and so is that of an owner who is back."""
    keyed = Keyed()
    models: dict[str, Model] = {
        "shop": script([calls("order")], [transfer("stock")], [calls("order")], [says("Done.")]),
        "stock": script([calls("order")], [transfer("shop")]),
    }
    router = router_of(store, live, tmp_path, models, keyed.tool())

    await write(router, conversation_id, "teas")

    assert len(set(keyed.keys)) == len(keyed.keys) == 3


async def test_call_after_an_approval_has_another_key_than_the_equal_one_before(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8 and 9: a turn that rested goes on counting, although its journal began anew."""
    keyed = Keyed()

    @function_tool
    async def refund() -> str:
        """Pay back."""
        return "refunded"

    model = script([calls("order")], [calls("refund")], [calls("order")], [says("Done.")])
    router = router_of(store, live, tmp_path, {"shop": model}, keyed.tool(), gated(refund, "human:support"))
    await router.start()
    await write(router, conversation_id, "tea, a refund, and tea")
    (one,) = await asked(store, conversation_id)

    await decide(store, conversation_id, one.approval_id, "granted", by="human:ann")
    await said(store, conversation_id, "Done.")

    await router.stop()
    assert len(set(keyed.keys)) == len(keyed.keys) == 2


async def test_call_that_is_made_again_after_a_crash_has_the_same_key(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 9: the worker dies in the second answer, with its journal; the reason is worded anew."""
    keyed, first = Keyed(held=True), GatedModel("One.", hold_after=0)
    short = Store(store.backend, lease_ms=400)
    dying_model = InTurn(first, script([calls("order", reason="thirst")]))
    dying = router_of(short, live, tmp_path, {"shop": dying_model}, keyed.tool())
    await three_messages(dying, conversation_id, first)
    await wait_until("the order is under way", lambda: keyed.keys)
    await kill(dying, conversation_id)
    await lease_is_over(store, conversation_id)
    await store.backend.cmd.delete(Keys.of(conversation_id).journal)  # a failover can lose what came last

    again = Keyed()
    model = script([calls("order", reason="they are thirsty")], [says("Two.")], [says("Three.")])
    heir = router_of(store, live, tmp_path, {"shop": model}, again.tool())
    await heir.start()
    await said(store, conversation_id, "Three.")

    await heir.stop()
    assert again.keys == keyed.keys
    assert len(keyed.keys) == 1


# --- values that live as long as the turn ---------------------------------------------------------------------------


async def test_value_of_the_turn_is_there_when_its_second_answer_goes_on_after_an_approval(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: a rest keeps what was set for these messages, also when other messages came before them."""
    seen: list[Any] = []

    @function_tool
    async def mark(ctx: Context) -> str:
        """Note a step."""
        ctx.context.values.set("step", "marked")
        return "ok"

    @function_tool
    async def refund(ctx: Context) -> str:
        """Pay back."""
        seen.append(ctx.context.values.get("step"))
        return "ok"

    access = {"read": ("step",), "write": ("step",)}
    desk_ = roster(
        agent("billing", values=access, transfer_to=("human:support",)), values={"step": {"lifetime": "turn"}}
    )
    first = GatedModel("One.", hold_after=0)
    model = InTurn(first, script([calls("mark")], [calls("refund")], [says("Done.")]))
    team = Team.load(desk_, ScriptedModels({"billing": model}), data_dir=tmp_path)
    tools = (journalled(mark, "human:support"), gated(refund, "human:support"))
    router = Router(store, live, replace(team, tools={"billing": tools}), sweep_s=0.1)
    await router.start()
    await three_messages(router, conversation_id, first)
    (one,) = await asked(store, conversation_id)

    await decide(store, conversation_id, one.approval_id, "granted", by="human:ann")
    await said(store, conversation_id, "Done.")

    await router.stop()
    assert seen == ["marked"]
