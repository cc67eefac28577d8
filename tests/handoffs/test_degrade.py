"""The degrade path: for every cause of a failed turn, who owns next and what the customer reads. Never silence."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Model, function_tool
from agents.testing import ModelStep, function_call

from app.models import choose_models
from app.settings import load_settings
from handoffs.roster import Roster
from handoffs.router import Router
from handoffs.team import Team
from sessions.live import Live
from sessions.model import Event, Owner
from sessions.store import Store
from tests.fakes.openai_server import Call, Cut, Empty, Fail, Hang, Step, fake_openai
from tests.handoffs.desks import agent, roster, router_for, says, script, shop, transfer
from tests.handoffs.test_router import ask, texts

PEOPLE = Owner.queue("support")
SORRY = "Sorry, something went wrong on our side. A person (Support team) will take over from here."
AGAIN = "Sorry, something went wrong on our side. Please send your message once more."


def told(events: Sequence[Event]) -> list[str]:
    """What the customer reads of the desk, in order: answers, announcements, notices."""
    return [str(event.data["text"]) for event in events if event.by != "customer" and event.data.get("text")]


async def state(store: Store, conversation_id: str) -> tuple[Owner, int]:
    found = await store.get(conversation_id)
    return found.owner, found.waiting


@asynccontextmanager
async def hosted(store: Store, live: Live, data_dir: Path, base_url: str, **overrides: Any) -> AsyncIterator[Router]:
    """A router whose models are asked over HTTP at `base_url`."""
    values = {"model": "test-model", "model_retries": 0, "model_timeout_s": 5.0} | overrides
    settings = load_settings(env_file=None, openai_base_url=base_url, openai_api="responses", **values)
    desk = shop()
    models = choose_models(settings, desk, lambda: None)  # type: ignore[arg-type, return-value]  # never asked for
    router = Router(store, live, Team.load(desk, models, data_dir=data_dir))
    try:
        yield router
    finally:
        await router.stop(1)
        await models.provider.aclose()


@pytest.mark.parametrize(
    ("steps", "why", "overrides"),
    [
        ([Fail(500)], "the server failed", {}),
        ([Fail(500), Fail(503), Fail(500)], "the server failed", {"model_retries": 2}),
        ([Hang()], "timed out after 0.3 seconds", {"model_timeout_s": 0.3}),
        ([Empty()], "empty answer", {}),
        ([Cut("Your parcel is now in")], "broke off", {}),
        ([Fail(401)], "refused the key", {}),
    ],
    ids=["500", "500 after retries", "timeout", "says nothing", "cut off", "key refused"],
)
async def test_a_model_server_that_fails_gives_the_conversation_to_people(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, steps: list[Step], why: str, overrides: Any
) -> None:
    """handoffs.md 11: model down, slow, silent or broken: people own, the message waits, one sentence is told."""
    count = len(steps)
    async with fake_openai(steps) as server, hosted(store, live, tmp_path, server.base_url, **overrides) as router:
        events = await ask(router, conversation_id, "where is my parcel?")
        assert len(server.requests) == count

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events) == [SORRY]
    assert why in next(event for event in events if event.type == "turn.failed").data["why"]


async def test_a_model_that_cannot_be_reached_gives_the_conversation_to_people(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: connection refused is told to the operator as such, and to the customer as our fault."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with hosted(store, live, tmp_path, f"http://127.0.0.1:{port}/v1") as router:
        events = await ask(router, conversation_id, "where is my parcel?")

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events) == [SORRY]
    assert "cannot be reached" in next(event for event in events if event.type == "turn.failed").data["why"]


def malformed(arguments: str, call_id: str) -> Any:
    """A call of transfer_to_agent with these arguments."""
    call: Any = function_call("transfer_to_agent", {}, call_id=call_id)
    call.arguments = arguments
    return call


async def run(
    store: Store,
    live: Live,
    folder: Path,
    conversation_id: str,
    desk: Roster,
    models: dict[str, Model],
    text: str = "hi",
) -> list[Event]:
    return await ask(router_for(store, live, desk, models, folder), conversation_id, text)


async def test_a_model_that_says_nothing_is_a_failure(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: an answer without a word is never taken for an answer."""
    events = await run(store, live, tmp_path, conversation_id, shop(), {"triage": script([says("")])})

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events) == [SORRY]


async def test_seconds_that_are_spent_give_the_conversation_to_people(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: `limits.seconds` ends a turn that takes too long, whatever the model is doing."""

    async def hang(_: Any) -> Any:
        await asyncio.Event().wait()

    desk = roster(agent("triage", limits={"seconds": 0.2}))
    events = await run(store, live, tmp_path, conversation_id, desk, {"triage": script(ModelStep.respond(hang))})

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events) == [SORRY]
    assert "limit of 0.2 seconds" in next(event for event in events if event.type == "turn.failed").data["why"]


async def test_model_calls_that_are_spent_give_the_conversation_to_people(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: `limits.model_calls` (the SDK's max turns) ends a model that calls tools for ever."""
    steps = [[transfer("nowhere")] for _ in range(9)]
    desk = roster(agent("triage", transfer_to=("human:support",), limits={"model_calls": 3}))
    model = script(*steps)
    events = await run(store, live, tmp_path, conversation_id, desk, {"triage": model})

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events) == [SORRY]
    assert len(model.calls) == 3
    assert "limit of 3 model calls" in next(event for event in events if event.type == "turn.failed").data["why"]


async def test_a_malformed_call_is_told_to_the_model_which_corrects_itself(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: arguments that are not JSON cost one call of the model and nothing else: nobody is handed on."""
    broken = malformed('{"agent_id": "bill', "bad_1")
    models: dict[str, Model] = {
        "triage": script([broken], [transfer("billing")]),
        "billing": script([says("Billing here.")]),
    }
    events = await run(store, live, tmp_path, conversation_id, shop(), models)

    assert await state(store, conversation_id) == (Owner.ai("billing"), 0)
    assert told(events) == ["You're now talking to Billing.", "Billing here."]
    assert "turn.failed" not in [event.type for event in events]


async def test_a_model_that_never_calls_well_gives_the_conversation_to_people(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: malformed calls to the end of the budget are a failed model."""
    steps = []
    for number in range(8):
        steps.append([malformed("{never json", f"bad_{number}")])
    events = await run(store, live, tmp_path, conversation_id, shop(), {"triage": script(*steps)})

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events) == [SORRY]


@pytest.mark.parametrize(
    ("successors", "owner", "sentence"),
    [
        ({"billing": "payments"}, Owner.ai("payments"), "You're now talking to Payments."),
        ({}, Owner.ai("triage"), "You're now talking to Triage."),
        ({"billing": "human:support"}, PEOPLE, None),
    ],
    ids=["successor", "start agent", "people"],
)
async def test_an_agent_that_was_removed_has_a_defined_successor(
    store: Store,
    live: Live,
    conversation_id: str,
    tmp_path: Path,
    successors: dict[str, str],
    owner: Owner,
    sentence: str | None,
) -> None:
    """handoffs.md 11: the owner is not in the roster any more: its successor, else the start agent, answers."""
    models: dict[str, Model] = {"triage": script([transfer("billing")]), "billing": script([says("Hi")])}
    before = await run(store, live, tmp_path, conversation_id, shop(), models)
    smaller = roster(agent("triage"), agent("payments"), successors=successors)
    later = router_for(
        store, live, smaller, {"payments": script([says("Here.")]), "triage": script([says("Here.")])}, tmp_path
    )

    events = (await ask(later, conversation_id, "and now?", "m2"))[len(before) :]

    assert (await store.get(conversation_id)).owner == owner
    if sentence is None:
        assert told(events) == [
            "I'm passing you to a person: Support team. They see what you wrote, and you can go on writing here."
        ]
    else:
        assert told(events) == [sentence, "Here."]


async def test_on_error_may_name_an_agent_who_goes_on_with_the_message(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: the route's `on_error` owner answers the same message; the customer reads who it is."""
    desk = roster(agent("orders", on_error="backup"), agent("backup", name="Backup desk"))
    models: dict[str, Model] = {"orders": script(RuntimeError("down")), "backup": script([says("I can help.")])}
    events = await run(store, live, tmp_path, conversation_id, desk, models)

    assert await state(store, conversation_id) == (Owner.ai("backup"), 0)
    assert told(events) == [
        "Sorry, something went wrong on our side. Backup desk will take over from here.",
        "I can help.",
    ]


async def test_on_error_agent_that_fails_too_is_followed_by_people(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: the second failure of a turn goes to people, never round in a circle."""
    desk = roster(agent("orders", on_error="backup"), agent("backup", on_error="orders"))
    models: dict[str, Model] = {"orders": script(RuntimeError("down")), "backup": script(RuntimeError("down too"))}
    events = await run(store, live, tmp_path, conversation_id, desk, models)

    assert await state(store, conversation_id) == (PEOPLE, 1)
    assert told(events)[-1] == SORRY
    assert len([event for event in events if event.type == "turn.failed"]) == 2


async def test_a_desk_without_people_stays_with_the_agent_and_says_so(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: with nobody else there the customer is asked to send the message once more."""
    desk = roster(agent("triage"), queues={})
    model = script(RuntimeError("down"), [says("Here I am.")])
    router = router_for(store, live, desk, {"triage": model}, tmp_path)

    events = await ask(router, conversation_id, "hi")
    assert told(events) == [AGAIN]
    assert await state(store, conversation_id) == (Owner.ai("triage"), 0)

    events = await ask(router, conversation_id, "hi again", "m2")
    assert texts(events, "ai:triage") == ["Here I am."]


async def test_the_sentence_is_in_the_customers_language(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: a Chinese customer reads it in Chinese, with the queue's Chinese name."""
    events = await run(
        store, live, tmp_path, conversation_id, shop(), {"triage": script(RuntimeError("down"))}, "我被重复扣款了"
    )

    assert told(events) == ["抱歉，我们这边出了点问题。接下来由人工客服（客服团队）为您处理。"]


async def test_a_tool_that_fails_is_no_failure_of_the_turn(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: the model is told, without the tool's own words, and answers the customer itself."""

    @function_tool
    def look_up() -> str:
        """Look it up."""
        raise RuntimeError("password in a traceback")

    model = script([function_call("look_up", {}, call_id="c1")], [says("I cannot look this up right now.")])
    router = router_for(store, live, roster(agent("triage")), {"triage": model}, tmp_path)
    router.team = Team(router.team.roster, router.team.models, {"triage": (look_up,)}, tmp_path)

    events = await ask(router, conversation_id, "hi")

    assert told(events) == ["I cannot look this up right now."]
    assert "password" not in str(model.calls[1].input)


async def test_what_was_shown_of_a_broken_answer_is_taken_back(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: the beginning of an answer that broke off is retracted, and is in no message and no history."""
    steps: list[Step] = [Cut("Your refund of 500 EUR is on its way, and also some more text")]
    async with fake_openai(steps) as server, hosted(store, live, tmp_path, server.base_url) as router:
        events = await ask(router, conversation_id, "where is my refund?")

    assert "500 EUR" not in str(told(events)) + str(await store.history(conversation_id, "triage"))
    shown = [event for event in events if event.type == "msg.retracted"]
    assert len(shown) <= 1 and told(events) == [SORRY]


async def test_a_call_of_a_tool_that_does_not_exist_is_told_to_the_model(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 11: a made-up tool costs one call of the model and nothing else."""
    steps: list[Step] = [Call("get_horoscope", {}), Call("transfer_to_billing", {}), Fail(418)]
    async with fake_openai(steps) as server, hosted(store, live, tmp_path, server.base_url) as router:
        await ask(router, conversation_id, "hi")
        answers = str(server.requests[2].body)

    assert "'get_horoscope' not found" in answers and "'transfer_to_billing' not found" in answers
