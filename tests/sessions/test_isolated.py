"""IsolatedSession: the SDK's session protocol over one commit, and histories that never break pairs."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, Runner
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message
from hypothesis import given
from hypothesis import strategies as st

from sessions.errors import StaleOwner
from sessions.isolated import IsolatedSession, pair_safe
from sessions.model import NewEvent, Owner
from sessions.store import Store
from tests.sessions.test_store import granted


async def session_for(store: Store, conversation_id: str) -> IsolatedSession:
    grant = await granted(store, conversation_id)
    return IsolatedSession(store, conversation_id, "triage", grant.token, grant.history)


async def test_runner_reads_and_writes_it_like_any_session(store: Store, conversation_id: str) -> None:
    """A run of the SDK leaves its items in the buffer; nothing is in Redis until the commit, everything after it."""
    session = await session_for(store, conversation_id)
    assert isinstance(session, Session)
    agent = Agent[None](name="triage", model=ScriptedModel([[assistant_message("hello")]]))

    await Runner.run(agent, "hi", session=session)
    before = await store.history(conversation_id, "triage")
    await session.commit("turn:1", answered=1, events=[NewEvent("msg.created", {"text": "hello"})])

    assert before == ()
    stored = await store.history(conversation_id, "triage")
    assert [item["role"] for item in stored] == ["user", "assistant"]
    assert await session.get_items() == list(stored)


async def test_stale_commit_writes_nothing(store: Store, conversation_id: str) -> None:
    """After a takeover the buffered items of the agent are refused as a whole."""
    session = await session_for(store, conversation_id)
    await session.add_items([{"role": "user", "content": "hi"}])
    await store.takeover(conversation_id, "ann", change={})

    with pytest.raises(StaleOwner):
        await session.commit("turn:1", answered=1)

    assert await store.history(conversation_id, "triage") == ()


async def test_pop_and_clear_take_effect_at_the_commit(store: Store, conversation_id: str) -> None:
    """Removed items leave Redis with the commit, not before; a cleared history starts anew."""
    session = await session_for(store, conversation_id)
    await session.add_items([{"role": "user", "content": str(n)} for n in range(3)])
    await store.enqueue(conversation_id, "m2", {"text": "x"}, start=Owner.ai("triage"))
    await session.commit("turn:1", answered=1)

    assert (await session.pop_item() or {})["content"] == "2"
    await session.add_items([{"role": "user", "content": "new"}])
    assert len(await store.history(conversation_id, "triage")) == 3
    await store.enqueue(conversation_id, "m3", {"text": "x"}, start=Owner.ai("triage"))
    await session.commit("turn:2", answered=1)
    assert [item["content"] for item in await store.history(conversation_id, "triage")] == ["0", "1", "new"]

    await session.clear_session()
    await session.add_items([{"role": "user", "content": "fresh"}])
    await session.commit("turn:3", answered=1)
    assert [item["content"] for item in await store.history(conversation_id, "triage")] == ["fresh"]


async def test_limit_gives_the_newest(store: Store, conversation_id: str) -> None:
    """get_items(limit) is the SDK's contract: the newest, oldest first."""
    session = await session_for(store, conversation_id)
    await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])

    assert [item["content"] for item in await session.get_items(2)] == ["3", "4"]
    assert await session.get_items(0) == []
    assert await session.pop_item() == {"role": "user", "content": "4"}


def call(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}


def result(number: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": "x"}


USER = {"role": "user", "content": "hi"}
THOUGHT = {"type": "reasoning", "id": "r", "summary": []}


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([result(1), USER], [USER]),
        ([USER, call(1)], [USER]),
        ([USER, call(1), result(1)], [USER, call(1), result(1)]),
        ([USER, THOUGHT], [USER]),
        ([USER, THOUGHT, call(1), result(1)], [USER, THOUGHT, call(1), result(1)]),
        ([USER, THOUGHT, call(1), USER], [USER, USER]),
    ],
)
def test_cut_histories_keep_whole_pairs(items: list[dict[str, Any]], kept: list[dict[str, Any]]) -> None:
    """Results without a call, calls without a result, and reasoning about nothing are dropped."""
    assert pair_safe(items) == kept


@given(st.lists(st.sampled_from([USER, THOUGHT, *(call(n) for n in range(3)), *(result(n) for n in range(3))])))
def test_any_history_becomes_a_valid_one(items: list[dict[str, Any]]) -> None:
    """Whatever was cut wherever: every call has its result and every result its call."""
    kept = pair_safe(items)

    calls = {item["call_id"] for item in kept if item.get("type") == "function_call"}
    results = {item["call_id"] for item in kept if item.get("type") == "function_call_output"}
    assert calls == results
    assert len(kept) == len(calls) * 2 + sum(item in (USER, THOUGHT) for item in kept)
    assert pair_safe(kept) == kept
