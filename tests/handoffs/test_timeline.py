"""The ownership timeline, read from the log of real turns."""

from __future__ import annotations

from pathlib import Path

from agents.testing import ModelStep

from handoffs.record import joined
from handoffs.router import CustomerMessage, Router
from handoffs.timeline import FIRST, UNKNOWN, Spent, Tenure, Usage, tenures, usage_of_runs
from sessions.live import Live
from sessions.model import Event, NewEvent, Owner
from sessions.store import Store
from tests.handoffs.desks import agent, roster, router_for, says, script, shop, transfer
from tests.handoffs.test_router import ANN, ask
from tests.sessions.test_positions import talk


async def of(store: Store, conversation_id: str, *usage: Usage) -> list[Tenure]:
    """The timeline of a conversation as it is stored now."""
    return tenures(await store.get(conversation_id), await store.read(conversation_id), usage)


def billing_desk(store: Store, live: Live, tmp_path: Path) -> Router:
    """triage hands on to billing with a brief, after one refusal; billing answers twice."""
    models = {
        "triage": script([transfer("legal")], [transfer("billing", reason="a double charge", goal="refund")]),
        "billing": script([says("Which order?")], [says("Refunded.")]),
    }
    return router_for(store, live, shop(), models, tmp_path)


async def test_each_owner_has_a_tenure_that_ends_where_the_next_begins(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: who owned, since when, until when, why and by whose decision, without a gap."""
    router = billing_desk(store, live, tmp_path)
    await ask(router, conversation_id, "I was charged twice")
    await ask(router, conversation_id, "A-10023", "m2")

    triage, billing = await of(store, conversation_id)

    assert (triage.owner, triage.reason, triage.previous, triage.refused) == ("ai:triage", FIRST, "", 1)
    assert (billing.owner, billing.reason, billing.previous) == ("ai:billing", "a double charge", "ai:triage")
    assert (billing.decided_by, billing.by, billing.brief) == ("model", "ai:triage", {"goal": "refund"})
    assert (triage.until, billing.until) == (billing.since, None)


async def test_messages_count_for_the_owner_that_answered_them(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.8: a message that arrived at triage and was answered by billing is billing's."""
    router = billing_desk(store, live, tmp_path)
    await ask(router, conversation_id, "I was charged twice")
    await ask(router, conversation_id, "A-10023", "m2")

    triage, billing = await of(store, conversation_id)

    assert (triage.received, triage.answered, triage.wrote) == (1, 0, 0)
    assert (billing.received, billing.answered, billing.wrote) == (1, 2, 2)


async def test_goodbye_of_an_agent_that_hands_on_answers_nothing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.4: what is said in the commit of a transfer leaves the question to the next owner."""
    models = {
        "triage": script(ModelStep(output=[says("One moment."), transfer("billing")])),
        "billing": script([says("Refunded.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)
    await ask(router, conversation_id, "I was charged twice")

    triage, billing = await of(store, conversation_id)

    assert (triage.answered, triage.wrote, billing.answered) == (0, 1, 1)


async def test_plan_that_ends_with_people_has_answered(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 3: an agent that answers before its route goes on to people has answered the message."""
    desk = roster(agent("triage", then=("human:support",)))
    router = router_for(store, live, desk, {"triage": script([says("Noted.")])}, tmp_path)
    await ask(router, conversation_id, "I want to complain")

    triage, queue = await of(store, conversation_id)

    assert (triage.answered, queue.owner, queue.decided_by, queue.answered) == (1, "queue:support", "rule", 0)


async def test_people_are_in_the_timeline_with_their_announced_names(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 10: takeover and hand back are tenures too, decided by a person."""
    models = {"triage": script([says("Hello.")], [says("Me again.")])}
    router = router_for(store, live, shop(), models, tmp_path)
    await ask(router, conversation_id, "hello")
    taken = await router.take(conversation_id, person=ANN)
    await router.receive(conversation_id, CustomerMessage("m2", "are you there?"))
    await router.say(conversation_id, taken.token, ANN, "Yes, I am.", "s1")
    await router.hand_back(conversation_id, taken.token, ANN, note_="all done")

    first, person, back = await of(store, conversation_id)

    assert (person.owner, person.name, person.decided_by, person.answered) == ("human:ann", "Ann", "person", 1)
    assert (back.owner, back.previous, back.reason, back.decided_by) == ("ai:triage", "human:ann", "all done", "person")
    assert (first.answered, back.until) == (1, None)


async def test_failure_that_is_admitted_answers_nothing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: a sentence that says that there is no answer is not counted as one for anybody later."""
    desk = roster(agent("triage", on_error="triage"), queues={})
    models = {"triage": script(RuntimeError("the model is down"), [says("Here I am.")])}
    router = router_for(store, live, desk, models, tmp_path)
    await ask(router, conversation_id, "hello")
    await ask(router, conversation_id, "hello?", "m2")

    (triage,) = await of(store, conversation_id)

    assert (triage.received, triage.answered, triage.wrote) == (2, 1, 1)


async def test_shown_seed_and_values_belong_to_the_owner_that_saw_them(store: Store, conversation_id: str) -> None:
    """handoffs.md 5: what `handoff.completed` says was shown is read back with the tenure that began there."""
    token = await talk(store, conversation_id, 0)
    details = {"from": "triage", "to": "billing", "decided_by": "model"}
    shown = {**details, "seed": ["[triage] said hello"], "values": ["order"]}
    await store.transfer(
        conversation_id,
        token,
        "t1",
        to=Owner.ai("billing"),
        change=details,
        after=[NewEvent("handoff.completed", shown)],
    )

    triage, billing = await of(store, conversation_id)

    assert (triage.seed, billing.seed, billing.values) == ((), ("[triage] said hello",), ("order",))


async def test_tokens_and_time_are_summed_for_each_tenure(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.5: what the recorded runs cost belongs to the tenure they ran in, not to the agent as such."""
    models = {
        "triage": script([transfer("billing")], [says("ok")]),
        "billing": script([says("Which order?")], [says("Done.")]),
    }
    router = router_for(store, live, shop(), models, tmp_path)
    await ask(router, conversation_id, "I was charged twice")
    await ask(router, conversation_id, "A-10023", "m2")
    taken = await router.take(conversation_id, person=ANN)
    await router.hand_back(conversation_id, taken.token, ANN, "triage")
    await ask(router, conversation_id, "hello?", "m3")

    (rows,) = await store.run_records([conversation_id])
    triage, billing, person, again = await of(store, conversation_id, *usage_of_runs(joined(conversation_id, rows)))

    spent = [tenure.spent or Spent() for tenure in (triage, billing, again)]
    assert [(part.runs, part.model_calls) for part in spent] == [(1, 1), (2, 2), (1, 1)]
    assert person.spent is None and all(part.seconds >= 0 for part in spent)


async def test_agent_that_owned_twice_in_one_run_is_charged_twice(store: Store, conversation_id: str) -> None:
    """handoffs.md 2.5: a run goes through the tenures in their order; what nobody recorded stays unknown."""
    token = await talk(store, conversation_id, 0)
    for n, to in enumerate(("billing", "triage", "orders")):
        moved = await store.transfer(conversation_id, token, f"t{n}", to=Owner.ai(to), change={}, go_on=True)
        token = moved.token
    run = (await of(store, conversation_id))[1].epoch - 1
    parts = [
        Usage(f"ai:{owner}", run, model_calls=1, input_tokens=tokens, output_tokens=1, seconds=0.5)
        for owner, tokens in (("triage", 10), ("billing", 20), ("triage", 30), ("triage", 5))
    ]

    found = await of(store, conversation_id, *parts)

    assert [tenure.spent and tenure.spent.input_tokens for tenure in found] == [10, 20, 35, None]


async def test_trimmed_log_says_that_its_beginning_is_unknown(store: Store, conversation_id: str) -> None:
    """handoffs.md 2.5: a timeline never claims to know what the log has lost."""
    small = Store(store.backend, log_keep=3, scripts=store._scripts)
    await talk(small, conversation_id, 5)

    (triage,) = await of(small, conversation_id)

    assert (triage.owner, triage.reason) == ("ai:triage", UNKNOWN)


async def test_closing_ends_the_last_tenure(store: Store, conversation_id: str) -> None:
    """handoffs.md 2.5: nobody owns a closed conversation any longer."""
    await talk(store, conversation_id, 1)
    await store.close(conversation_id)
    events: list[Event] = await store.read(conversation_id)

    (triage,) = await of(store, conversation_id)

    assert triage.until == events[-1].at


async def test_forgotten_conversation_has_no_timeline(store: Store, conversation_id: str) -> None:
    """handoffs.md 2.5: what was deleted is not told."""
    await talk(store, conversation_id, 1)
    await store.forget(conversation_id)

    assert await of(store, conversation_id) == []
