"""Transfers that are announced and not called: found in the text, recorded, and asked for once more by request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handoffs.announced import announced
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.approving import Counted, calls, desk_router
from tests.handoffs.approving import desk as approving
from tests.handoffs.desks import agent, roster, router_for, says, script, transfer
from tests.handoffs.test_router import ask, texts, types


@pytest.mark.parametrize(
    "text",
    [
        "I'll transfer you to our billing team.",
        "I’ll transfer you now.",
        "I will now connect you with a specialist. One moment please.",
        "I am connecting you to Ann.",
        "I'm transferring you.",
        "Thanks! I'm going to pass you on to returns.",
        "Let me put you through to the right person.",
        "Let me connect you with billing.",
        "You are being transferred to billing",
        "You'll be connected to a person now.",
        "One moment, we're handing you over to support.",
        "I'll hand this conversation over to billing.",
        "Transferring you to billing...",
        "请稍等，我现在为您转接账单部门。",
        "正在为您转接人工客服，请稍候。",
        "这就帮您转人工。",
        "我将把您转接给售后同事。",
        "我帮你转到售后。",
        "Ich verbinde Sie jetzt mit der Buchhaltung.",
        "Ich leite Sie an unser Team weiter.",
        "Einen Moment, ich werde Sie mit einem Kollegen verbinden.",
        "Sie werden nun weitergeleitet.",
    ],
)
def test_announcement_is_found(text: str) -> None:
    """handoffs.md 2.10: text that says that the conversation moves, in three languages."""
    assert announced(text)


@pytest.mark.parametrize(
    "text",
    [
        "I cannot transfer you, but I can help.",
        "I can't connect you to the warehouse.",
        "I won't transfer you anywhere.",
        "The bank will transfer the money within three days.",
        "We will transfer the money to you.",
        "I'll transfer you the money today.",
        "I'll transfer 20 EUR to your account.",
        "If this does not help, I will transfer you to a person.",
        "Would you like me to transfer you to billing?",
        "Shall I connect you with a person?",
        "I can transfer you to a colleague.",
        "Should I pass you on to billing?",
        "I'll connect the two orders for you.",
        "I'll put you on the list.",
        "I'll forward you the invoice by e-mail.",
        "Connect the charger and put the cover back.",
        "Once you confirm, I'll transfer you to returns.",
        "Your bank transfer arrived.",
        "I'll pass your thanks on to the team.",
        "Your parcel was handed over to the carrier.",
        "You are connected to the wrong Wi-Fi.",
        "抱歉，我无法为您转接。",
        "我不能帮您转接。",
        "银行会在三天内为您转账。",
        "我会把款项转到您的账户。",
        "需要我为您转接人工客服吗？",
        "如果不行，我会为您转接人工客服。",
        "我可以为您转接账单部门。",
        "您的包裹已转交快递。",
        "Ich kann Sie leider nicht verbinden.",
        "Soll ich Sie mit der Buchhaltung verbinden?",
        "Die Bank leitet das Geld weiter.",
        "Wenn Sie möchten, verbinde ich Sie mit einem Menschen.",
        "Ich gebe Ihnen die Nummer.",
        "",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    """handoffs.md 2.10: refusals, offers, conditions, questions and money are no announcements."""
    assert announced(text) == ""


def desk(**triage: Any) -> Any:
    return roster(agent("triage", transfer_to=("billing", "human:support"), **triage), agent("billing"))


async def test_announcement_alone_moves_nothing_and_is_recorded(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.10: the owner stays, the log and the alarms say that it was only announced."""
    router = router_for(
        store, live, desk(), {"triage": script([says("Sure. I'll transfer you to billing.")])}, tmp_path
    )

    events = await ask(router, conversation_id, "my bill")

    assert (await store.get(conversation_id)).owner == Owner.ai("triage")
    (record,) = [event.data for event in events if event.type == "handoff.announced_only"]
    assert record == {"from": "triage", "text": "I'll transfer you to billing."}
    assert "handoff.requested" not in types(events)
    assert router.alarms.counts["announced_only"] == 1


async def test_route_may_ask_the_model_once_more(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.10: with `announced: ask_again` the model gets one more chance to call the tool."""
    triage = script([says("I'll transfer you to billing.")], [transfer("billing", reason="a bill")])
    models = {"triage": triage, "billing": script([says("Billing here.")])}
    router = router_for(store, live, desk(announced="ask_again"), models, tmp_path)

    events = await ask(router, conversation_id, "my bill")

    assert (await store.get(conversation_id)).owner == Owner.ai("billing")
    assert texts(events, "ai:triage") == ["I'll transfer you to billing."]
    assert texts(events, "ai:billing") == ["Billing here."]
    assert "transfer_to_agent was not called" in str(triage.calls[1].input[-1])
    assert "was not called" not in str(await store.history(conversation_id, "triage"))
    assert "handoff.announced_only" in types(events)


async def test_model_that_only_announces_again_is_left_with_its_answer(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.10: once more, not for ever; what it says the second time is not shown."""
    triage = script([says("I'll transfer you to billing.")], [says("I'm transferring you now.")])
    router = router_for(store, live, desk(announced="ask_again"), {"triage": triage}, tmp_path)

    events = await ask(router, conversation_id, "my bill")

    assert texts(events, "ai:triage") == ["I'll transfer you to billing."]
    history = await store.history(conversation_id, "triage")
    assert [item.get("role") for item in history] == ["user", "assistant"]


async def test_agent_without_targets_is_not_watched(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.10: who may transfer to nobody has announced nothing that could have been called."""
    router = router_for(
        store, live, roster(agent("triage")), {"triage": script([says("I'll transfer you to billing.")])}, tmp_path
    )

    assert "handoff.announced_only" not in types(await ask(router, conversation_id, "my bill"))


@pytest.mark.parametrize(
    ("beside", "owner"), [((), Owner.ai("billing")), ((transfer("orders"),), Owner.ai("orders"))], ids=["alone", "both"]
)
async def test_call_that_needs_approval_is_refused_when_only_the_transfer_was_asked_for(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, beside: tuple[Any, ...], owner: Owner
) -> None:
    """handoffs.md 2.5 and 8: on record and not done; what ran before it is remembered, a transfer counts."""
    counted = Counted(tmp_path)
    model = script(
        [says("I'll transfer you to orders.")],
        [calls("look_up", order="A-1")],
        [calls("refund", order="A-1"), *beside],
    )
    models = {"billing": model, "orders": script([says("Orders here.")])}
    router = desk_router(store, live, approving(announced="ask_again"), counted, models, tmp_path)

    events = await ask(router, conversation_id, "my refund")

    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting) == (owner, 0)
    assert counted.executions == ["look_up A-1"] and await store.approvals(conversation_id) == []
    (refused,) = [event.data for event in events if event.type == "handoff.refused"]
    assert refused["from"] == "billing" and "refund" in refused["why"] and "not done" in refused["why"]
    history = await store.history(conversation_id, "billing")
    assert "was charged twice" in str(history) and "refund" not in str([item.get("name") for item in history])
