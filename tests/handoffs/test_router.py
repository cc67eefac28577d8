"""The router over a real store with scripted models: who speaks, what the next owner sees, who is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agents import FunctionTool

from handoffs.errors import MessageRejected, UnknownTarget
from handoffs.router import CustomerMessage, Person, Router, message_id
from sessions.errors import StaleOwner
from sessions.live import Live
from sessions.model import Event, Owner
from sessions.store import Store
from tests.handoffs.desks import agent, roster, router_for, says, script, shop, transfer
from tests.support import wait_until

ANN = Person("ann", "Ann")


async def ask(router: Router, conversation_id: str, text: str, message_id: str = "m1") -> list[Event]:
    """Send a customer message and wait until the customer is next."""
    await router.receive(conversation_id, CustomerMessage(message_id, text))
    await wait_until("the turn ends", lambda: router.running == 0)
    return await router.store.read(conversation_id)


def texts(events: list[Event], by: str) -> list[str]:
    return [event.data["text"] for event in events if event.type == "msg.created" and event.by == by]


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


async def test_triage_transfers_and_billing_answers(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4 and 2.5: one customer message goes triage -> billing in one turn: one answer, every step an
    event, gapless.
    """
    models = {
        "triage": script([transfer("billing", reason="a double charge", goal="refund")]),
        "billing": script([says("You were charged twice.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)

    events = await ask(router, conversation_id, "I was charged twice")

    assert types(events) == [
        "msg.created",
        "handoff.requested",
        "handoff.accepted",
        "owner.changed",
        "handoff.completed",
        "msg.created",
    ]
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
    assert texts(events, "ai:billing") == ["You were charged twice."]
    changed = events[3]
    assert (changed.owner_from, changed.owner_to) == ("ai:triage", "ai:billing")
    assert changed.data["text"] == "You're now talking to Billing."
    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting, conversation.lease_until) == (Owner.ai("billing"), 0, 0)


async def test_next_message_goes_to_the_owner_not_to_triage(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.6: A follow-up is answered by the specialist; triage's model is called once in all."""
    triage = script([transfer("billing")])
    billing = script([says("Which order?")], [says("Found it.")], [says("Refunded.")])
    router = router_for(store, live, shop(), {"triage": triage, "billing": billing}, tmp_path)

    await ask(router, conversation_id, "I was charged twice")
    await ask(router, conversation_id, "A-10023", "m2")
    events = await ask(router, conversation_id, "thanks, go on", "m3")

    assert texts(events, "ai:billing") == ["Which order?", "Found it.", "Refunded."]
    assert len(triage.calls) == 1


async def test_new_owner_sees_the_brief_and_the_question_but_no_foreign_tool_calls(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 4 and 5: the seed is one fenced note with the brief; the customer's message is the input;
    nothing private of triage.
    """
    billing = script([says("ok")])
    models = {
        "triage": script([transfer("billing", reason="double charge", facts=["order A-10023"])]),
        "billing": billing,
    }
    router = router_for(store, live, shop(), models, tmp_path)

    await ask(router, conversation_id, "I was charged twice")

    seen: list[Any] = billing.calls[0].input
    assert len(seen) == 2
    assert seen[0]["content"].startswith("<handoff-note id=")
    assert "From: triage" in seen[0]["content"]
    assert "- order A-10023" in seen[0]["content"]
    assert seen[1] == {"role": "user", "content": "I was charged twice"}


async def test_forbidden_and_unknown_targets_are_refused_and_the_model_corrects_itself(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.2: A refusal is a tool result with the allowed targets; ownership moves only when an allowed
    one is asked for.
    """
    triage = script([transfer("legal")], [transfer("triage")], [transfer("billing")])
    router = router_for(store, live, shop(), {"triage": triage, "billing": script([says("Hi")])}, tmp_path)

    events = await ask(router, conversation_id, "hello")

    refused = [event.data for event in events if event.type == "handoff.refused"]
    assert [refusal["to"] for refusal in refused] == ["legal", "triage"]
    assert "Allowed targets now: billing, orders, human:support." in refused[0]["why"]
    assert types(events).count("handoff.completed") == 1
    assert "Not transferred" in str(triage.calls[1].input)
    assert "Not transferred" not in str(await store.history(conversation_id, "triage"))


async def test_first_of_two_transfers_wins(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 2.3: two transfer calls in one response: the first moves the conversation, the second is refused
    in words.
    """
    models = {
        "triage": script([transfer("billing"), transfer("orders")]),
        "billing": script([says("Billing here.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    assert (await store.get(conversation_id)).owner == Owner.ai("billing")
    assert [e.data["to"] for e in events if e.type == "handoff.refused"] == ["orders"]


async def test_entry_condition_is_checked_by_code(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1 and 2.9: A target that `requires` a value is not offered and is refused while the value is
    not set.
    """
    desk = roster(
        agent("triage", transfer_to=("vault", "human:support")),
        agent("vault", requires=("verified",)),
        values={"verified": {"type": "boolean"}},
    )
    triage = script([transfer("vault")], [says("Please verify first.")])
    router = router_for(store, live, desk, {"triage": triage}, tmp_path)

    events = await ask(router, conversation_id, "let me in")

    offered = next(tool for tool in triage.calls[0].tools if tool.name == "transfer_to_agent")
    assert isinstance(offered, FunctionTool)
    assert offered.params_json_schema["properties"]["agent_id"]["enum"] == ["human:support"]
    assert "vault needs verified" in events[1].data["why"]
    assert texts(events, "ai:triage") == ["Please verify first."]


async def test_a_loop_ends_with_people(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 2.7: A -> B -> A -> B is refused; an agent that insists until the limit sends the customer to a
    human queue.
    """
    desk = shop(limits={"transfers_per_turn": 3})
    models = {
        "triage": script([transfer("billing")]),
        "billing": script([transfer("orders")], [transfer("orders")], [says("I'll do it myself.")]),
        "orders": script([transfer("billing")]),
    }
    router = router_for(store, live, desk, models, tmp_path)

    events = await ask(router, conversation_id, "hello")

    conversation = await store.get(conversation_id)
    assert conversation.owner == Owner.queue("support")
    assert "round in circles" in events[-2].data["text"]


async def test_model_failure_goes_to_people_with_a_sentence(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A model that raises never means silence: the route's on_error owner gets the conversation, the message waits."""
    router = router_for(store, live, shop(), {"triage": script(RuntimeError("model is down"))}, tmp_path)

    events = await ask(router, conversation_id, "hello")

    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting) == (Owner.queue("support"), 1)
    assert "Support team" in next(e for e in events if e.type == "owner.changed").data["text"]
    assert "model is down" in next(e for e in events if e.type == "turn.failed").data["why"]


async def test_silent_model_is_a_failure(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """An empty answer is treated like a failed model."""
    router = router_for(store, live, shop(), {"triage": script([says("")])}, tmp_path)

    await ask(router, conversation_id, "hello")

    assert (await store.get(conversation_id)).owner == Owner.queue("support")


async def test_two_messages_at_once_are_both_answered_once(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: two sends at the same instant: no message is lost, none answered twice, never two turns."""
    triage = script([says("one")], [says("two")])
    router = router_for(store, live, shop(), {"triage": triage}, tmp_path)

    await asyncio.gather(
        router.receive(conversation_id, CustomerMessage("a", "first")),
        router.receive(conversation_id, CustomerMessage("b", "second")),
    )
    await wait_until("the turns end", lambda: router.running == 0)

    conversation = await store.get(conversation_id)
    history = await store.history(conversation_id, "triage")
    asked = [item["content"] for item in history if item.get("role") == "user"]
    assert conversation.waiting == 0
    assert sorted(asked) == ["first", "second"]


async def test_repeated_message_is_answered_once(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The same client id twice: one message, one model call, the receipt says duplicate."""
    triage = script([says("hello")])
    router = router_for(store, live, shop(), {"triage": triage}, tmp_path)

    await ask(router, conversation_id, "hi")
    again = await router.receive(conversation_id, CustomerMessage("m1", "hi"))
    events = await store.read(conversation_id)

    assert again.duplicate
    assert texts(events, "customer") == ["hi"]
    assert again.message_id == events[0].data["id"]


async def test_person_takes_answers_and_hands_back(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The person owns after take; after hand back the agent knows what was said and answers no old message."""
    triage = script([says("Hello, how can I help?")], [says("Your refund is on its way.")])
    router = router_for(store, live, shop(), {"triage": triage}, tmp_path)
    await ask(router, conversation_id, "hi")

    taken = await router.take(conversation_id, person=ANN)
    await ask(router, conversation_id, "is there a person?", "m2")
    await router.say(conversation_id, taken.token, ANN, "I refunded you 5 EUR.", "h1")
    await router.hand_back(conversation_id, taken.token, ANN, note_="refunded 5 EUR")
    events = await ask(router, conversation_id, "when do I get it?", "m3")

    assert texts(events, "human:ann") == ["I refunded you 5 EUR."]
    assert len(triage.calls) == 2
    seen = str(triage.calls[1].input)
    assert "[human ann] said: I refunded you 5 EUR." in seen
    assert "refunded 5 EUR" in seen
    assert "customer: is there a person?" in seen
    assert seen.count("when do I get it?") == 1


async def test_backlog_is_answered_when_the_customer_had_the_last_word(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """Handing back with an unanswered customer message lets the agent answer it, without a new message."""
    triage = script([says("Hello")], [says("It is on its way.")])
    router = router_for(store, live, shop(), {"triage": triage}, tmp_path)
    await router.start()
    await ask(router, conversation_id, "hi")
    taken = await router.take(conversation_id, person=ANN)
    await router.receive(conversation_id, CustomerMessage("m2", "where is my parcel?"))

    await router.hand_back(conversation_id, taken.token, ANN)

    async def answered() -> bool:
        return "It is on its way." in texts(await store.read(conversation_id), "ai:triage")

    await wait_until("the agent answers the backlog", answered)
    assert "where is my parcel?" not in str(triage.calls[1].input[:-1])
    await router.stop()


async def test_stale_person_cannot_speak(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """After handing back, or after somebody else took over, a person's message is refused and not sent."""
    router = router_for(store, live, shop(), {"triage": script([says("Hello")])}, tmp_path)
    await ask(router, conversation_id, "hi")
    taken = await router.take(conversation_id, person=ANN)
    await router.take(conversation_id, person=Person("bob", "Bob"), force=True)

    with pytest.raises(StaleOwner) as stale:
        await router.say(conversation_id, taken.token, ANN, "me again", "h1")

    assert stale.value.owner == "human:bob"
    assert texts(await store.read(conversation_id), "human:ann") == []


async def test_removed_agent_maps_to_its_successor(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: A conversation whose owner is gone from the roster goes on with the successor that desk.yaml
    names.
    """
    router = router_for(
        store, live, shop(), {"triage": script([transfer("billing")]), "billing": script([says("Hi")])}, tmp_path
    )
    await ask(router, conversation_id, "hello")
    smaller = roster(agent("triage"), agent("payments"), successors={"billing": "payments"})
    later = router_for(store, live, smaller, {"payments": script([says("Payments here.")])}, tmp_path)

    events = await ask(later, conversation_id, "and now?", "m2")

    assert texts(events, "ai:payments") == ["Payments here."]


async def test_bad_input_names_what_is_wrong(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """Empty and too long texts, and an unknown hand-back target, are refused with field and allowed values."""
    router = router_for(store, live, shop(), {"triage": script([says("Hello")])}, tmp_path)

    with pytest.raises(MessageRejected, match="text: it is empty"):
        await router.receive(conversation_id, CustomerMessage("m1", "  "))
    with pytest.raises(MessageRejected, match="8001 characters; at most 8000"):
        await router.receive(conversation_id, CustomerMessage("m1", "x" * 8001))
    await ask(router, conversation_id, "hi")
    taken = await router.take(conversation_id, person=ANN)
    with pytest.raises(UnknownTarget, match="no agent 'nobody'; allowed: triage, billing, orders"):
        await router.hand_back(conversation_id, taken.token, ANN, to="nobody")


async def test_chinese_conversation_is_announced_in_chinese(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The language is read from the customer's script; names and sentences follow it."""
    models = {"triage": script([transfer("billing")]), "billing": script([says("您好")])}
    router = router_for(
        store, live, shop(announce={"en": "Now {name}.", "zh": "现在由{name}为您服务。"}), models, tmp_path
    )

    events = await ask(router, conversation_id, "我被重复扣款了")

    assert events[3].data["text"] == "现在由账单为您服务。"
    assert (await store.get(conversation_id)).meta["language"] == "zh"


async def test_route_orders_a_transfer_after_the_answer(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: `then:` runs each agent of the plan in its turn, by no model's decision; the last one keeps
    the customer.
    """
    desk = roster(agent("orders", then=("care", "survey")), agent("care"), agent("survey"))
    survey = script([says("How was it?")])
    models = {
        "orders": script([says("It arrives today.")]),
        "care": script([says("Water it weekly.")]),
        "survey": survey,
    }
    router = router_for(store, live, desk, models, tmp_path)

    events = await ask(router, conversation_id, "where is my plant?")

    answers = [event.data["text"] for event in events if event.type == "msg.created" and event.by != "customer"]
    assert answers == ["It arrives today.", "Water it weekly.", "How was it?"]
    assert [e.data["decided_by"] for e in events if e.type == "owner.changed"] == ["rule", "rule"]
    conversation = await store.get(conversation_id)
    assert (conversation.owner, conversation.waiting) == (Owner.ai("survey"), 0)
    assert "[care] said: Water it weekly." in str(survey.calls[0].input)
    record = await store.history(conversation_id, "orders")
    assert [item.get("type") for item in record][-2:] == ["function_call", "function_call_output"]


async def test_failed_agent_is_not_followed_by_its_plan(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: no deterministic transfer after an error, nor after the agent's own transfer."""
    desk = roster(agent("orders", then=("survey",), transfer_to=("billing",)), agent("survey"), agent("billing"))
    failing = router_for(store, live, desk, {"orders": script(RuntimeError("down"))}, tmp_path)
    await ask(failing, conversation_id, "hello")
    assert (await store.get(conversation_id)).owner == Owner.queue("support")

    own = {"orders": script([transfer("billing")]), "billing": script([says("Billing here.")])}
    moving = router_for(store, live, desk, own, tmp_path)
    await ask(moving, conversation_id + "b", "hello")
    assert (await store.get(conversation_id + "b")).owner == Owner.ai("billing")


async def test_closed_queue_says_when_people_are_there(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1 and 10: outside a queue's hours the customer is told so, in the queue's own words, and the
    message waits.
    """
    hours = {"timezone": "Europe/Berlin", "open": {"mon-fri": "09:00-18:00"}}
    queues = {"support": {"name": "Support", "hours": hours, "closed": {"en": "We are back on Monday at 9."}}}
    router = router_for(store, live, shop(queues=queues), {"triage": script([transfer("human:support")])}, tmp_path)
    sunday = datetime(2026, 11, 29, 12, tzinfo=UTC)
    router.team = replace(router.team, clock=lambda: sunday)

    events = await ask(router, conversation_id, "a person please")

    text = next(event.data["text"] for event in events if event.type == "owner.changed")
    assert text.endswith("We are back on Monday at 9.")
    assert (await store.get(conversation_id)).waiting == 1


async def test_login_of_a_person_is_never_shown(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """Whoever takes over from a person, the customer reads the announced name and not the login."""
    router = router_for(store, live, shop(), {"triage": script([says("Hello")])}, tmp_path)
    await ask(router, conversation_id, "hi")
    await router.take(conversation_id, person=Person("ann-berger-7", "Ann"))

    await router.take(conversation_id, person=Person("bob-x", "Bob"), force=True)

    changed = [event.data for event in await store.read(conversation_id) if event.type == "owner.changed"]
    assert [data["from_name"] for data in changed][-1] == "Ann"
    assert "ann-berger-7" not in str([(data["from_name"], data["text"]) for data in changed])


def test_message_ids_repeat_with_the_client_id() -> None:
    """The same client id is the same message; another conversation makes it another one."""
    assert message_id("c_1", "cid") == message_id("c_1", "cid")
    assert message_id("c_1", "cid") != message_id("c_2", "cid")
