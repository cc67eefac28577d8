"""Tools with side effects run at most once per call: across re-runs, crashes in the middle, and stale workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import FunctionTool, Model, RunContextWrapper, function_tool
from agents.testing import ModelStep, function_call

from handoffs.context import TurnContext
from handoffs.ledger import Ledger, digest, journalled
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.live import Live
from sessions.model import Owner, Token
from sessions.store import Store
from tests.handoffs.desks import ScriptedModels, agent, roster, says, script
from tests.support import wait_until

DESK = roster(agent("returns", transfer_to=("human:support",)))


class Counter:
    """A tool that counts its real executions in a file, and can be held in the middle of one."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "executions"
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    @property
    def executions(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def tool(self) -> FunctionTool:
        @function_tool
        async def open_return(ctx: RunContextWrapper[TurnContext], order: str) -> str:
            """Open a return."""
            with self.file.open("a") as file:
                file.write(order + "\n")
            self.reached.set()
            await self.go_on.wait()
            return f"Return for {order} opened, number {len(self.executions)}."

        return open_return


def desk_router(
    store: Store,
    live: Live,
    tool: FunctionTool,
    model: Model,
    folder: Path,
    wrap: Callable[..., FunctionTool] = journalled,
) -> Router:
    team = Team.load(DESK, ScriptedModels({"returns": model}), data_dir=folder)
    team = replace(team, tools={"returns": (wrap(tool, "human:support"),)})
    return Router(store, live, team, sweep_s=0.1)


def wish(order: str, call_id: str) -> Any:
    return function_call("open_return", {"order": order}, call_id=call_id)


async def kill(router: Router, conversation_id: str) -> None:
    """What kill -9 does to a turn: it never says another word, its lease runs out."""
    turn = router._turns.pop(conversation_id)
    task = next(task for task in router._tasks if task.get_name() == f"turn-{conversation_id}")
    turn._store = Store(store_of(turn).backend, lease_ms=1)
    router._give_back = _nothing  # type: ignore[method-assign, assignment]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _nothing(_: object) -> None:
    """A dead process gives nothing back."""


def store_of(turn: Any) -> Store:
    found: Store = turn._store
    return found


async def lease_is_over(store: Store, conversation_id: str) -> None:
    async def over() -> bool:
        return (await store.get(conversation_id)).lease_until <= await store.now()

    await wait_until("the dead worker's lease is over", over)


async def test_finished_call_is_not_made_again_after_a_crash(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The worker dies after the tool and before the commit: the next one gets the recorded result, one execution."""
    counter = Counter(tmp_path)
    stuck = asyncio.Event()

    async def hang(_: Any) -> Any:
        await stuck.wait()

    first = script([wish("A-1", "c1")], ModelStep.respond(hang))
    short = Store(store.backend, lease_ms=400)
    dying = desk_router(short, live, counter.tool(), first, tmp_path)
    await dying.receive(conversation_id, CustomerMessage("m1", "send it back"))
    await wait_until("the model is asked again", lambda: len(first.calls) == 2)
    await kill(dying, conversation_id)
    await lease_is_over(store, conversation_id)

    second = script([wish("A-1", "c2")], [says("Done.")])
    heir = desk_router(store, live, counter.tool(), second, tmp_path)
    await heir.start()
    await wait_until("the heir answers", lambda: second.remaining_steps == 0 and heir.running == 0)
    await heir.stop()

    assert counter.executions == ["A-1"]
    assert "Return for A-1 opened, number 1." in json.dumps(second.calls[1].input)


async def test_call_that_broke_off_goes_to_people_and_is_not_repeated(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The worker dies inside the tool: nobody knows whether it took effect, so a person looks."""
    counter = Counter(tmp_path)
    counter.go_on.clear()
    short = Store(store.backend, lease_ms=400)
    dying = desk_router(short, live, counter.tool(), script([wish("A-1", "c1")]), tmp_path)
    await dying.receive(conversation_id, CustomerMessage("m1", "send it back"))
    await counter.reached.wait()
    await kill(dying, conversation_id)
    await lease_is_over(store, conversation_id)

    heir = desk_router(store, live, counter.tool(), script([wish("A-1", "c2")]), tmp_path)
    await heir.start()

    async def with_people() -> bool:
        return (await store.get(conversation_id)).owner == Owner.queue("support")

    await wait_until("people own it", with_people)
    await heir.stop()
    assert counter.executions == ["A-1"]
    moved = next(e for e in await store.read(conversation_id) if e.type == "owner.changed")
    assert moved.data["decided_by"] == "ledger"
    assert "A-1" in str(moved.data["brief"])


async def test_stale_worker_starts_no_call(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """A person took over while the model was thinking: its tool call is not made."""
    counter = Counter(tmp_path)
    thinking, answer = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> Any:
        thinking.set()
        await answer.wait()
        return [wish("A-1", "c1")]

    router = desk_router(store, live, counter.tool(), script(ModelStep.respond(slow)), tmp_path)
    await router.receive(conversation_id, CustomerMessage("m1", "send it back"))
    await thinking.wait()
    await store.takeover(conversation_id, "ann", change={})  # behind the router's back: only the ledger can notice
    answer.set()

    await wait_until("the turn ends", lambda: router.running == 0)
    assert counter.executions == []


async def test_same_call_twice_in_one_run_is_made_twice(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """Two returns that the model really wishes are two; the ledger tells the first from the second."""
    counter = Counter(tmp_path)
    model = script([wish("A-1", "c1"), wish("A-1", "c2"), wish("A-2", "c3")], [says("Done.")])
    router = desk_router(store, live, counter.tool(), model, tmp_path)

    await router.receive(conversation_id, CustomerMessage("m1", "send both back"))
    await wait_until("the turn ends", lambda: router.running == 0)

    assert sorted(counter.executions) == ["A-1", "A-1", "A-2"]


def test_arguments_are_compared_by_content() -> None:
    """Spaces and the order of keys make no other call; other values do."""
    assert digest('{"a": 1, "b": 2}') == digest('{"b":2,"a":1}')
    assert digest('{"a": 1}') != digest('{"a": 2}')
    assert digest("not json") == digest("not json")


def test_keys_count_equal_calls(store: Store) -> None:
    """The n-th equal call has its own key, the same one in every attempt."""
    attempts = [Ledger(store, "c", Token(1, "f")) for _ in range(2)]
    keys = [[ledger.key("a", "t", "{}") for _ in range(2)] for ledger in attempts]

    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 2
