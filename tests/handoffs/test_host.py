"""A host: it answers itself, gives one specialist's words, or puts several together; and the supervisor beside it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agents import function_tool
from agents.testing import ModelStep, ScriptedModel

from handoffs.roster import Roster
from handoffs.router import CustomerMessage
from sessions.live import Live
from sessions.model import Event, Owner
from sessions.store import Store
from tests.handoffs.asking import answers, asks, calls, said, told, with_tools
from tests.handoffs.desks import agent, roster, router_for, says, script, transfer
from tests.handoffs.test_takeover import Watcher
from tests.support import wait_until


def desk(combine: str = "summarize", **settings: Any) -> Roster:
    """A host with two specialists."""
    return roster(
        agent("host", host={"specialists": ("hotels", "flights"), "combine": combine}, transfer_to=("human:support",)),
        agent("hotels", name={"en": "Hotels", "zh": "酒店"}, **settings),
        agent("flights", name={"en": "Flights", "zh": "机票"}),
    )


def both() -> list[Any]:
    return [asks("hotels", reason="the room"), asks("flights", reason="the flight")]


async def hosted(
    store: Store,
    live: Live,
    conversation_id: str,
    tmp_path: Path,
    desk_: Roster,
    /,
    **models: ScriptedModel,
) -> list[tuple[str, str]]:
    """Who said what, after one message of the customer."""
    router = router_for(store, live, desk_, models, tmp_path)
    return answers(await said(router, conversation_id, "a room and a flight, please"))


async def test_host_answers_itself(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 7 (direct answer): no specialist is asked when the host knows it."""
    found = await hosted(store, live, conversation_id, tmp_path, desk(), host=script([says("We are open till six.")]))

    assert found == [("ai:host", "We are open till six.")]


async def test_one_specialist_is_given_word_for_word(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 (one specialist, verbatim): exactly its text, without another call of the host's model."""
    text = "Two rooms:\n\n  * A1 </handoff-note>\n  * B2"
    host = script([says("One moment."), asks("hotels", reason="the room")])

    found = await hosted(store, live, conversation_id, tmp_path, desk(), host=host, hotels=script([says(text)]))

    assert found == [("ai:host", text)]
    assert len(host.calls) == 1
    assert (await store.get(conversation_id)).owner == Owner.ai("host")


async def test_verbatim_answer_is_in_the_hosts_history(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7: the host remembers what the customer read as its own words."""
    host = script([asks("hotels", reason="the room")], [says("You're welcome.")])
    models = {"host": host, "hotels": script([says("Room A1.")])}
    router = router_for(store, live, desk(), models, tmp_path)

    await said(router, conversation_id)
    await said(router, conversation_id, "thanks", "m2")

    items: list[Any] = list(host.calls[1].input)
    assert items[-2:] == [{"role": "assistant", "content": "Room A1."}, {"role": "user", "content": "thanks"}]


async def test_several_run_at_once_and_the_hosts_model_makes_one_answer(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 (parallel, summarizer): both work at the same time; the host reads both as data and writes one."""
    meet = asyncio.Barrier(2)

    def meeting(text: str) -> ModelStep:
        async def answer(_: Any) -> Any:
            await asyncio.wait_for(meet.wait(), 5)
            return [says(text)]

        return ModelStep.respond(answer)

    host = script(both(), [says("Room A1 and flight F2.")])
    models = {"hotels": script(meeting("Room A1.")), "flights": script(meeting("Flight F2."))}

    found = await hosted(store, live, conversation_id, tmp_path, desk(), host=host, **models)

    assert found == [("ai:host", "Room A1 and flight F2.")]
    read = str(host.calls[1].input)
    assert "From: hotels\\nAnswer: Room A1." in read
    assert "From: flights\\nAnswer: Flight F2." in read


async def test_concatenation_is_in_the_order_of_the_calls(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 (concatenation in call order): whoever is ready first; no further model call."""
    flights_done = asyncio.Event()

    async def late(_: Any) -> Any:
        await asyncio.wait_for(flights_done.wait(), 5)
        return [says("Room A1.")]

    async def early(_: Any) -> Any:
        flights_done.set()
        return [says("Flight F2.")]

    host = script(both())
    models = {"hotels": script(ModelStep.respond(late)), "flights": script(ModelStep.respond(early))}

    found = await hosted(store, live, conversation_id, tmp_path, desk("concat"), host=host, **models)

    assert found == [("ai:host", "Room A1.\n\nFlight F2.")]


async def test_same_specialist_called_twice_runs_twice(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7: two calls of one specialist are two runs with two answers, each with its own reason."""
    hotels = script([says("One.")], [says("Two.")])
    host = script([asks("hotels", reason="in Bonn"), asks("hotels", reason="in Bern")])

    found = await hosted(store, live, conversation_id, tmp_path, desk("concat"), host=host, hotels=hotels)

    assert found == [("ai:host", "One.\n\nTwo.")]
    assert sorted(reason for call in hotels.calls for reason in ("Bonn", "Bern") if reason in str(call.input)) == [
        "Bern",
        "Bonn",
    ]


async def test_reason_and_the_customers_messages_reach_the_specialist(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 and 1 (host): a fenced note with the reason and what was said before, then the new message."""
    hotels = script([says("Room A1.")])
    host = script([says("Hello, where to?")], [asks("hotels", reason="a room is wanted")])
    router = router_for(store, live, desk(), {"host": host, "hotels": hotels}, tmp_path)

    await said(router, conversation_id, "good morning")
    await said(router, conversation_id, "to Bonn", "m2")

    items: list[Any] = list(hotels.calls[0].input)
    lines = items[0]["content"].splitlines()
    assert lines[0].startswith("<handoff-note id=")
    assert lines[1:-1] == [
        "From: host",
        "Reason: a room is wanted",
        "Earlier messages:",
        "customer: good morning",
        "[host] said: Hello, where to?",
    ]
    assert items[1:] == [{"role": "user", "content": "to Bonn"}]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("a room and a flight, please", "I could not get an answer from Flights this time."),
        ("请帮我订酒店和机票", "这次没有得到机票的答复。"),
    ],
)
async def test_specialist_that_fails_is_named_as_missing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, text: str, missing: str
) -> None:
    """handoffs.md 7: the others are still given, and code names the missing one in the customer's language."""
    models = {"hotels": script([says("Room A1.")]), "flights": script(RuntimeError("down"))}

    router = router_for(store, live, desk("concat"), {"host": script(both()), **models}, tmp_path)
    found = answers(await said(router, conversation_id, text))

    assert found == [("ai:host", f"Room A1.\n\n{missing}")]


async def test_specialist_that_is_too_slow_is_named_after_a_summary(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7: the sentence is the desk's own, whatever the summarizing model writes; the host remembers it."""

    async def hangs(_: Any) -> Any:
        await asyncio.Event().wait()

    slow = desk(limits={"seconds": 0.1})
    models = {"hotels": script(ModelStep.respond(hangs)), "flights": script([says("Flight F2.")])}
    host = script(both(), [says("Your flight is F2.")])

    found = await hosted(store, live, conversation_id, tmp_path, slow, host=host, **models)

    assert found == [("ai:host", "Your flight is F2.\n\nI could not get an answer from Hotels this time.")]
    assert "could not get an answer" in str(await store.history(conversation_id, "host"))


async def test_host_goes_on_itself_when_nobody_answers(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7: never silence: the host's model is asked once more, and the missing one is named."""
    host = script([asks("hotels", reason="the room")], [says("Please call us.")])

    found = await hosted(store, live, conversation_id, tmp_path, desk(), host=host, hotels=script(RuntimeError("x")))

    assert found == [("ai:host", "Please call us.\n\nI could not get an answer from Hotels this time.")]


async def test_specialist_that_answers_when_asked_again_is_not_missing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7: only who gave no answer in the end is named."""
    host = script([asks("hotels", reason="the room")], [asks("hotels", reason="again")])
    hotels = script(RuntimeError("x"), [says("Room A1.")])

    found = await hosted(store, live, conversation_id, tmp_path, desk(), host=host, hotels=hotels)

    assert found == [("ai:host", "Room A1.")]


async def test_specialists_words_are_shown_only_as_the_hosts_answer(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 6: nothing of a specialist streams to the customer before the host's answer is committed."""
    models = {"host": script([asks("hotels", reason="the room")]), "hotels": script([says("Room A1." * 20)])}
    router = router_for(store, live, desk(), models, tmp_path)

    async with Watcher(live, conversation_id) as watcher:
        await router.receive(conversation_id, CustomerMessage("m1", "a room"))
        await wait_until("the answer is there", lambda: watcher.types().count("msg.created") == 2)

    assert watcher.shown == ""
    final = watcher.seen[-1]
    assert isinstance(final, Event) and final.data["text"] == "Room A1." * 20


async def test_host_may_transfer_instead(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 7 and 2.3: a transfer in the same response wins; no answer of a specialist is said."""
    host = script([transfer("human:support"), asks("hotels", reason="the room")])

    found = await hosted(store, live, conversation_id, tmp_path, desk(), host=host, hotels=script([says("Room.")]))

    assert found == []
    assert (await store.get(conversation_id)).owner == Owner.queue("support")


# -- supervisor --------------------------------------------------------------------------------------------------------


async def test_supervisor_with_specialists_as_tools_always_gets_control_back(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 (supervisor, first variant): it asks one, reads, asks the next, and speaks; it owns throughout."""
    team = roster(agent("boss", ask=("hotels", "flights")), agent("hotels"), agent("flights"))
    boss = script(
        [asks("hotels", request="a room in Bonn")],
        [asks("flights", request="a flight to Bonn, the room is A1")],
        [says("Room A1, flight F2.")],
    )
    models = {"hotels": script([says("Room A1.")]), "flights": script([says("Flight F2.")])}

    found = await hosted(store, live, conversation_id, tmp_path, team, boss=boss, **models)

    assert found == [("ai:boss", "Room A1, flight F2.")]
    assert "Room A1." in told(boss, 1) and "Flight F2." in told(boss, 2)
    assert (await store.get(conversation_id)).owner == Owner.ai("boss")


async def test_supervisor_with_return_transfers_speaks_last(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 (supervisor, second variant): `then: [boss]` brings it back after each; the loop guard is quiet."""
    team = roster(
        agent("boss", transfer_to=("hotels", "flights")),
        agent("hotels", then=("boss",)),
        agent("flights", then=("boss",)),
    )
    boss = script([transfer("hotels")], [transfer("flights")], [says("That is all, have a good trip.")])
    models = {"boss": boss, "hotels": script([says("Room A1.")]), "flights": script([says("Flight F2.")])}
    router = router_for(store, live, team, models, tmp_path)

    events = await said(router, conversation_id)

    assert answers(events) == [
        ("ai:hotels", "Room A1."),
        ("ai:flights", "Flight F2."),
        ("ai:boss", "That is all, have a good trip."),
    ]
    changes = [(event.owner_from, event.owner_to) for event in events if event.type == "owner.changed"]
    assert changes == [
        ("ai:boss", "ai:hotels"),
        ("ai:hotels", "ai:boss"),
        ("ai:boss", "ai:flights"),
        ("ai:flights", "ai:boss"),
    ]
    assert not [event for event in events if event.data.get("decided_by") == "loop_guard"]


async def test_supervisor_gets_the_conversation_back_by_returns_to(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7 and 2.6: a specialist that is done hands back to `returns_to`, and the supervisor speaks."""
    team = roster(agent("boss", transfer_to=("hotels",)), agent("hotels", returns_to="boss"))
    boss = script([transfer("hotels")], [says("Anything else?")])
    models = {"boss": boss, "hotels": script([says("Booked."), transfer("boss", reason="done")])}
    router = router_for(store, live, team, models, tmp_path)

    events = await said(router, conversation_id)

    assert answers(events)[-1] == ("ai:boss", "Anything else?")
    assert (await store.get(conversation_id)).owner == Owner.ai("boss")


async def test_host_can_itself_be_asked(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """handoffs.md 6 and 7: a host that is asked gives its caller what it would have said, with who is missing."""
    team = roster(
        agent("boss", ask=("host",)),
        agent("host", host={"specialists": ("hotels", "flights"), "combine": "concat"}),
        agent("hotels"),
        agent("flights"),
    )
    boss = script([asks("host", request="plan it")], [says("Done.")])
    models = {"host": script(both()), "hotels": script([says("Room A1.")]), "flights": script(RuntimeError("down"))}

    await hosted(store, live, conversation_id, tmp_path, team, boss=boss, **models)

    assert "Answer: Room A1.\n  \n  I could not get an answer from Flights this time.\n" in told(boss)


async def test_own_tools_of_a_host_work_beside_its_specialists(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 7: a response with another call too goes back to the host's model, which has both results."""

    @function_tool
    async def weather() -> str:
        """Weather."""
        return "rain"

    host = script([asks("hotels", reason="the room"), calls("weather")], [says("Room A1, and it rains.")])
    router = router_for(store, live, desk(), {"host": host, "hotels": script([says("Room A1.")])}, tmp_path)
    with_tools(router, {"host": (weather,)})

    assert answers(await said(router, conversation_id)) == [("ai:host", "Room A1, and it rains.")]
