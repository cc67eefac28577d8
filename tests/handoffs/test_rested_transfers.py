"""A transfer wished beside a call that waits for approval: its target is asked again when somebody has decided."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agents.testing import ScriptedModel

from handoffs.approvals import decide
from handoffs.roster import Roster
from sessions.live import Live
from sessions.model import Event, Owner
from sessions.store import Store
from tests.handoffs.approving import Counted, asked, calls, desk_router, said, types, write
from tests.handoffs.desks import agent, roster, says, script, transfer
from tests.support import wait_until

TO = ("orders", "human:support")


def desk(*orders: Any, to: tuple[str, ...] = TO, **settings: Any) -> Roster:
    """billing, which may refund after approval, with these agents beside it."""
    return roster(agent("billing", tools=("refund",), approval=("refund",), transfer_to=to), *orders, **settings)


async def rested(
    store: Store,
    live: Live,
    conversation_id: str,
    folder: Path,
    now: Roster,
    *then: Any,
    to: str = "orders",
    hour: int = 12,
) -> tuple[list[Event], ScriptedModel, Counted]:
    """billing wishes a refund and a transfer, and rests; the refund is granted under the roster `now`."""
    counted = Counted(folder)
    first = script([calls("refund", order="A-1"), transfer(to)])
    asking = desk_router(store, live, desk(agent("orders")), counted, {"billing": first}, folder)
    await write(asking, conversation_id, "refund A-1, then orders")
    (approval,) = await asked(store, conversation_id)
    model = script(*then)
    models = {"billing": model, "orders": script([says("Orders here.")])}
    heir = desk_router(store, live, now, counted, models, folder)
    heir.team = replace(heir.team, clock=lambda: datetime(2026, 11, 30, hour, tzinfo=UTC))
    await heir.start()
    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    events = await said(store, conversation_id, "Refunded, and I stay.")
    await wait_until("the turn ends", lambda: heir.running == 0)
    await heir.stop()
    return events, model, counted


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (desk(agent("orders", requires=("verified",)), values={"verified": {}}), "needs verified to be set first"),
        (desk(agent("orders", disabled=True)), "orders is switched off"),
        (desk(to=("human:support",)), "there is no target 'orders'"),
        (desk(agent("orders"), to=("human:support",)), "billing may not transfer to orders"),
        (desk(agent("orders"), to=()), "billing may not transfer to orders"),
    ],
    ids=["entry condition", "switched off", "removed", "route changed", "no target left"],
)
async def test_transfer_whose_target_takes_nobody_any_more_is_refused_after_the_rest(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, now: Roster, why: str
) -> None:
    """handoffs.md 2.1, 2.2 and 2.9: the refund is made, the transfer is refused with the reason, the owner goes on."""
    events, model, counted = await rested(store, live, conversation_id, tmp_path, now, [says("Refunded, and I stay.")])

    assert (await store.get(conversation_id)).owner == Owner.ai("billing")
    assert counted.executions == ["refund A-1"]
    assert not {"owner.changed", "handoff.completed", "turn.failed"} & set(types(events))
    (refused,) = [event.data for event in events if event.type == "handoff.refused"]
    assert (refused["from"], refused["to"]) == ("billing", "orders") and why in refused["why"]
    read = json.dumps(model.calls[0].input)
    assert why in read and "transferring_to" not in read


async def test_queue_that_closed_during_the_rest_gets_nobody(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1 and 10: opening hours count when the conversation would move, not when that was wished."""
    hours = {"timezone": "UTC", "open": {"mon-sun": "09:00-17:00"}}
    queue = {"name": "Support", "hours": hours, "when_closed": "refuse"}
    now = desk(agent("orders"), queues={"support": queue})

    events, _, counted = await rested(
        store, live, conversation_id, tmp_path, now, [says("Refunded, and I stay.")], to="human:support", hour=20
    )

    assert (await store.get(conversation_id)).owner == Owner.ai("billing")
    assert counted.executions == ["refund A-1"]
    (refused,) = [event.data for event in events if event.type == "handoff.refused"]
    assert "nobody is at human:support now" in refused["why"]
