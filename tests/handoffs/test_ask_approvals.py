"""Approvals inside agents as tools, through the router: only what people decide crosses the boundary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handoffs.approvals import decide
from handoffs.roster import Roster
from sessions.live import Live
from sessions.store import Store
from tests.handoffs.approving import Counted, asked, calls, desk_router, said, write
from tests.handoffs.asking import asks, told
from tests.handoffs.desks import agent, roster, says, script


def desk(**boss: Any) -> Roster:
    """boss asks (or hosts) billing, whose refunds need approval."""
    return roster(
        agent("boss", **{"ask": ("billing",), "transfer_to": ("human:support",), **boss}),
        agent("billing", tools=("refund", "look_up"), approval=("refund",)),
        agent("stock"),
    )


async def test_refused_call_inside_is_told_to_the_asked_agent(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: deny is a labelled result inside; the asked agent answers with it, and nothing was done."""
    counted = Counted(tmp_path)
    boss = script([asks("billing", request="Refund A-1.")], [says("Sorry, no.")])
    billing = script([calls("refund", order="A-1")], [says("It was refused.")])
    router = desk_router(store, live, desk(), counted, {"boss": boss, "billing": billing}, tmp_path)
    await router.start()
    await write(router, conversation_id, "my money back, please")
    (approval,) = await asked(store, conversation_id)

    await decide(store, conversation_id, approval.approval_id, "refused", by="human:ann")
    await said(store, conversation_id, "Sorry, no.")
    await router.stop()

    assert counted.executions == []
    assert "Answer: It was refused." in told(boss)
    assert '"approval": "refused"' in str(billing.calls[1].input)


async def test_specialists_that_answered_are_still_given_after_an_approval(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 and 8: one specialist waits for a person; the answer of the other is not lost, order kept."""
    counted = Counted(tmp_path)
    hosts = desk(ask=(), host={"specialists": ("billing", "stock"), "combine": "concat"})
    boss = script([asks("billing", reason="a refund"), asks("stock", reason="a new one")])
    billing = script([calls("refund", order="A-1")], [says("Refunded A-1.")])
    models = {"boss": boss, "billing": billing, "stock": script([says("In stock.\n\nSoon yours.")])}
    router = desk_router(store, live, hosts, counted, models, tmp_path)
    await router.start()
    await write(router, conversation_id, "money back and a new one, please")
    (approval,) = await asked(store, conversation_id)

    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    await said(store, conversation_id, "Refunded A-1.\n\nIn stock.\n\nSoon yours.")
    await router.stop()

    assert counted.executions == ["refund A-1"]
    assert len(boss.calls) == 1
