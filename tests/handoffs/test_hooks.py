"""`on_handoff`: your functions hear each step of a handoff, and nothing that they do touches a turn."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handoffs.hooks import HandoffInfo, Hook
from handoffs.router import Router
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import ScriptedModels, router_for, says, script, shop, transfer
from tests.handoffs.test_router import ANN, ask, texts
from tests.support import wait_until


def billing_desk(store: Store, live: Live, folder: Path, *hooks: Hook) -> Router:
    """triage asks for somebody unknown, then for billing, which answers."""
    models: dict[str, Any] = {
        "triage": script([transfer("legal")], [transfer("billing", reason="a double charge", goal="refund")]),
        "billing": script([says("Billing here.")]),
    }
    plain = router_for(store, live, shop(), {}, folder)
    team = replace(plain.team, models=ScriptedModels(models))
    return Router(store, live, team, sweep_s=0.2, on_handoff=hooks)


async def test_each_step_is_told_in_the_order_of_the_log(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: refused, requested, accepted, completed, with who, why, the brief and what was shown."""
    told: list[HandoffInfo] = []
    router = billing_desk(store, live, tmp_path, told.append)

    await ask(router, conversation_id, "I was charged twice")
    await wait_until("the last step is told", lambda: told and told[-1].step == "completed")

    assert [info.step for info in told] == ["refused", "requested", "accepted", "completed"]
    assert "Not transferred" in told[0].reason and told[0].to == "legal"
    done = told[-1]
    assert (done.conversation_id, done.from_, done.to) == (conversation_id, "triage", "billing")
    assert (done.reason, done.brief, done.decided_by) == ("a double charge", {"goal": "refund"}, "model")
    assert done.seed_size > 0 and done.epoch > 0


async def test_hook_sees_what_is_true_already(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 2.5: when `completed` is told, the new owner owns, by the epoch that is told."""
    found: list[tuple[Owner, bool]] = []

    async def look(info: HandoffInfo) -> None:
        if info.step == "completed":
            now = await store.get(conversation_id)
            found.append((now.owner, now.tenure == info.epoch))

    router = billing_desk(store, live, tmp_path, look)
    await ask(router, conversation_id, "I was charged twice")
    await wait_until("the hook has looked", lambda: found)

    assert found == [(Owner.ai("billing"), True)]


async def test_hook_that_fails_hurts_neither_the_turn_nor_the_next_hook(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """handoffs.md 2.5: the customer is answered, the others are told, and the error is in the log."""
    told: list[str] = []

    def fail(info: HandoffInfo) -> None:
        raise RuntimeError("the hook is broken")

    async def keep(info: HandoffInfo) -> None:
        told.append(info.step)

    router = billing_desk(store, live, tmp_path, fail, keep)
    events = await ask(router, conversation_id, "I was charged twice")
    await wait_until("the other hook was told all", lambda: len(told) == 4)

    assert texts(events, "ai:billing") == ["Billing here."]
    assert "the hook is broken" in caplog.text


async def test_hook_that_blocks_holds_up_no_turn(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: a plain function runs in a thread; the answer is there while it still waits."""
    go_on, told = threading.Event(), []

    def block(info: HandoffInfo) -> None:
        go_on.wait(30)
        told.append(info.step)

    router = billing_desk(store, live, tmp_path, block)
    events = await ask(router, conversation_id, "I was charged twice")

    assert texts(events, "ai:billing") == ["Billing here."] and told == []
    go_on.set()
    await wait_until("the hook has gone on", lambda: len(told) == 4)


async def test_hand_back_by_a_person_is_told(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 10: a person who gives the conversation to an agent completes a handoff too."""
    told: list[HandoffInfo] = []
    router = router_for(store, live, shop(), {"triage": script([says("Hello.")])}, tmp_path)
    await ask(router, conversation_id, "hello")
    taken = await router.take(conversation_id, person=ANN)
    router.hooks.on_handoff(told.append)

    await router.hand_back(conversation_id, taken.token, ANN, "billing", "paid twice")
    await wait_until("the last step is told", lambda: told and told[-1].step == "completed")

    assert [info.step for info in told] == ["requested", "accepted", "completed"]
    done = told[-1]
    assert (done.step, done.to, done.reason, done.decided_by) == ("completed", "billing", "paid twice", "person")


async def test_hook_that_comes_late_hears_what_follows(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: `router.hooks.on_handoff` is a decorator that adds a hook while the desk runs."""
    router = billing_desk(store, live, tmp_path)
    told: list[str] = []

    @router.hooks.on_handoff
    def keep(info: HandoffInfo) -> None:
        told.append(info.step)

    await ask(router, conversation_id, "I was charged twice")
    await wait_until("all steps are told", lambda: len(told) == 4)
