"""Shared values over a real Valkey: nobody loses a change, and a customer has one map for all conversations."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from sessions.customers import LIFE_S
from sessions.errors import Conflict
from sessions.keys import Keys, customer_key, shard_of
from sessions.model import Value, ValueWrite
from sessions.store import Store
from sessions.values import ValuesDraft
from tests.sessions.test_store import granted

CUSTOMER = "v_ada"
COUNT_UP = """
import asyncio, pathlib, sys
from sessions.connect import connect
from sessions.store import Store

async def main():
    backend = await connect("embedded://" + sys.argv[1], data_dir=pathlib.Path(sys.argv[1]))
    store = Store(backend)
    counted = [store.update_value("c_counted", "n", lambda n: (n or 0) + 1, by="system") for _ in range(25)]
    await asyncio.gather(*counted)
    await backend.close()

asyncio.run(main())
"""


def plus_one(value: int | None) -> int:
    return (value or 0) + 1


# --- nobody's change is lost ----------------------------------------------------------------------------------------


async def test_hundred_tasks_that_count_lose_none(store: Store, conversation_id: str) -> None:
    """handoffs.md 4: 100 concurrent increments of one value make exactly 100, in 100 revisions.

    Ten stores, as ten processes have them: each lines its own tasks up, so between them it is compare-and-set.
    """
    await granted(store, conversation_id)
    stores = [Store(store.backend) for _ in range(10)]

    counted = [stores[n % 10].update_value(conversation_id, "n", plus_one, by="system") for n in range(100)]
    answers = await asyncio.gather(*counted)

    assert (await store.values(conversation_id))["n"] == Value(100, 100)
    assert sorted(answer.value for answer in answers) == list(range(1, 101))


async def test_four_processes_that_count_lose_none(valkey_dir: Path, store: Store) -> None:
    """handoffs.md 4: the same with four processes of 25 each, over the one embedded server."""
    if store.backend.kind != "embedded":
        pytest.skip("the processes share the embedded server")
    await granted(store, "c_counted")

    command = [sys.executable, "-c", COUNT_UP, str(valkey_dir)]
    processes = [await asyncio.create_subprocess_exec(*command) for _ in range(4)]
    codes = [await process.wait() for process in processes]

    assert codes == [0, 0, 0, 0]
    assert (await store.values("c_counted"))["n"] == Value(100, 100)


async def test_change_that_fails_writes_nothing(store: Store, conversation_id: str) -> None:
    """handoffs.md 4: what the function of an update raises reaches the caller, and the value stays."""
    await granted(store, conversation_id)

    def refuse(_: object) -> None:
        raise LookupError("no such plan")

    with pytest.raises(LookupError):
        await store.update_value(conversation_id, "plan", refuse, by="system")
    assert await store.values(conversation_id) == {}


# --- a working copy -------------------------------------------------------------------------------------------------


def test_counting_is_made_again_on_a_newer_value() -> None:
    """handoffs.md 4: two updates of one turn both count on what somebody else stored meanwhile."""
    draft = ValuesDraft({"n": Value(1, 1)})
    assert (draft.update("n", plus_one), draft.update("n", plus_one)) == (2, 3)

    assert draft.rebase({"n": Value(10, 2), "other": Value("x", 1)})

    assert draft.writes() == [ValueWrite("n", 12, 2)]
    assert draft.get("other") == "x"


def test_value_that_was_set_is_never_laid_over_a_newer_one() -> None:
    """handoffs.md 4: a plain set did not see the newer value, also when it was counted up afterwards."""
    draft = ValuesDraft({"n": Value(1, 1)})
    draft.set("n", 5)
    draft.update("n", plus_one)

    assert not draft.rebase({"n": Value(10, 2)})
    assert draft.writes() == [ValueWrite("n", 6, 1)]


def test_value_that_nobody_else_touched_may_be_set() -> None:
    """handoffs.md 4: a newer revision of another key stands in nobody's way."""
    draft = ValuesDraft({"n": Value(1, 1), "plan": Value("gold", 1)})
    draft.set("plan", "silver")
    draft.update("n", plus_one)

    assert draft.rebase({"n": Value(2, 2), "plan": Value("gold", 1)})
    assert draft.writes() == [ValueWrite("plan", "silver", 1), ValueWrite("n", 3, 2)]


# --- customers ------------------------------------------------------------------------------------------------------


async def test_values_of_a_customer_are_set_all_or_none(store: Store) -> None:
    """handoffs.md 4: compare-and-set, once for each request id."""
    await store.set_customer_values(CUSTOMER, "r1", [ValueWrite("plan", "gold", 0)])
    await store.set_customer_values(CUSTOMER, "r1", [ValueWrite("plan", "never", 0)])  # repeated after a lost reply
    with pytest.raises(Conflict, match="value plan has moved on"):
        await store.set_customer_values(CUSTOMER, "r2", [ValueWrite("name", "Ada", 0), ValueWrite("plan", "x", 0)])

    assert (await store.customer_values(CUSTOMER)).values == {"plan": Value("gold", 1)}


async def test_hundred_conversations_that_count_for_one_customer_lose_none(store: Store) -> None:
    """handoffs.md 4: 100 concurrent increments of a customer's value make exactly 100."""
    stores = [Store(store.backend) for _ in range(10)]

    await asyncio.gather(*(stores[n % 10].update_customer_value(CUSTOMER, "n", plus_one) for n in range(100)))

    assert (await store.customer_values(CUSTOMER)).values["n"] == Value(100, 100)


async def test_values_of_a_customer_go_when_nobody_asks_for_them(store: Store) -> None:
    """handoffs.md 4: they have a life of 90 days, and each look begins it anew."""
    await store.set_customer_values(CUSTOMER, "r1", [ValueWrite("plan", "gold")])
    redis, key = store.backend.cmd, customer_key(CUSTOMER)
    first = await redis.ttl(key)
    await redis.expire(key, 100)

    await store.customer_values(CUSTOMER)

    assert LIFE_S - 60 < first <= LIFE_S
    assert await redis.ttl(key) > 100


async def test_forgotten_customer_has_no_values_and_gets_none_from_a_turn_that_still_runs(store: Store) -> None:
    """handoffs.md 4: what was read before the deletion is not written again, not even a new key; later turns may."""
    await store.set_customer_values(CUSTOMER, "r1", [ValueWrite("plan", "gold")])
    read = await store.customer_values(CUSTOMER)

    await store.forget_customer(CUSTOMER)
    with pytest.raises(Conflict):
        await store.set_customer_values(CUSTOMER, "r2", [ValueWrite("name", "Ada", 0)], generation=read.generation)

    now = await store.customer_values(CUSTOMER)
    assert now.values == {}
    assert "gold" not in str(await store.backend.cmd.hgetall(customer_key(CUSTOMER)))
    await store.set_customer_values(CUSTOMER, "r3", [ValueWrite("plan", "new", 0)], generation=now.generation)
    assert (await store.customer_values(CUSTOMER)).values == {"plan": Value("new", 1)}


def test_no_conversation_has_the_key_of_a_customer() -> None:
    """handoffs.md 4: whatever a conversation is called, its keys and a customer's are different ones."""
    key = customer_key(CUSTOMER)

    assert key.startswith(f"fd:{{s{shard_of(CUSTOMER):04d}}}:@")
    assert not key.startswith(Keys.of(CUSTOMER).base)
