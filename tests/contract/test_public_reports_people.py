"""What users of other systems report about people, desks, sockets and streams, as tests of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from agents import Model, function_tool
from agents.testing import ModelStep, function_call

from handoffs.router import CustomerMessage, Person
from sessions.connect import Backend
from sessions.errors import StaleOwner
from sessions.keys import Keys, due_key
from sessions.live import Live
from sessions.redis_url import parse_redis_url
from sessions.store import Store
from tests.app.served import Served, served
from tests.contract.reports import ANN, PEOPLE, Stage, answers, moves, of_type, seen, told
from tests.handoffs.desks import says, script, shop, transfer
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until

LONG = "This answer is long enough to be stopped in the middle of it. " * 4


def person(person_: Person = ANN, *, force: bool = False) -> dict[str, Any]:
    return {"person": {"id": person_.id, "name": person_.name}, "force": force}


# --- a person takes over --------------------------------------------------------------------------------------------


async def test_the_agent_falls_silent_when_a_person_takes_over(stage: Stage) -> None:
    """chatwoot/chatwoot PR#13673 (Captain talks over the support agent): not even the answer that is under way."""
    model = GatedModel(LONG)
    router = stage.open({"triage": model})
    await router.receive(stage.cid, CustomerMessage("m0", "hello"))
    await model.holding.wait()

    taken = await router.take(stage.cid, person=ANN)
    await router.say(stage.cid, taken.token, ANN, "Ann here.", "h1")
    model.gate.set()
    await stage.rest()
    await router.receive(stage.cid, CustomerMessage("m1", "anybody?"))
    await stage.rest()

    events = await stage.log()
    assert answers(events) == ["Ann here."]
    assert model.calls == 1


async def test_a_run_under_way_can_be_stopped(stage: Stage) -> None:
    """openai/openai-agents-python#1512 "Ability to cancel/stop an active Runner": the model call is cancelled."""
    cancelled, reached = asyncio.Event(), asyncio.Event()

    async def hang(_: Any) -> Any:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    router = stage.open({"triage": script(ModelStep.respond(hang))})
    await router.receive(stage.cid, CustomerMessage("m0", "hello"))
    await reached.wait()

    await router.take(stage.cid, person=ANN)

    await asyncio.wait_for(cancelled.wait(), 10)
    await stage.rest()


async def test_a_bot_does_not_answer_while_a_queue_or_a_person_owns(stage: Stage) -> None:
    """chatwoot/rasa-agent-bot-demo#12 "How to handoff conversations from bot to agent" (the bot keeps replying)."""
    triage = script([transfer("human:support")])
    router = stage.open({"triage": triage})

    await stage.say("a person please")
    await stage.say("hello?")
    await router.take(stage.cid, person=ANN)
    events = await stage.say("are you there?")

    assert len(triage.calls) == 1 and answers(events) == []


async def test_a_handoff_to_people_is_told_to_the_customer(stage: Stage) -> None:
    """chatwoot/chatwoot#13881 "Handoff message is not being displayed with Captain V2"; fazer-ai/agents#662."""
    stage.open({"triage": script([transfer("human:support")])})

    events = await stage.say("a person please")

    assert told(events) == [
        "I'm passing you to a person: Support team. They see what you wrote, and you can go on writing here."
    ]


async def test_a_colleague_who_did_not_take_the_conversation_cannot_write_in_it(stage: Stage) -> None:
    """fazer-ai/agents PR#433 (a reply of a colleague does not take the conversation): only the owner writes."""
    router = stage.open({"triage": script([says("Hello")])})
    await stage.say("hi")
    taken = await router.take(stage.cid, person=ANN)

    with pytest.raises(StaleOwner):
        await router.say(stage.cid, taken.token, Person("bob", "Bob"), "me too", "h1")

    assert answers(await stage.log()) == ["Hello"]


async def test_the_state_with_people_can_be_loaded_by_another_process(stage: Stage) -> None:
    """microsoft/autogen#5912 "Not able to load Swarm state after HandoffTermination", #4199."""
    stage.open({"triage": script([transfer("human:support", facts=["order A-1"])])})
    await stage.say("a person please")
    await stage.router.stop(1)

    router = stage.open({"triage": script([says("Welcome back.")])})
    taken = await router.take(stage.cid, person=ANN)
    await router.say(stage.cid, taken.token, ANN, "Ann here.", "h1")
    await router.hand_back(stage.cid, taken.token, ANN)
    events = await stage.say("thanks")

    assert answers(events) == ["Ann here.", "Welcome back."]


async def test_who_waits_for_a_person_can_be_listed(backend: Backend, store: Store, live: Live, tmp_path: Path) -> None:
    """RasaHQ/rasa-demo#292 (where does the handoff go?): every conversation that waits is in the desk's list."""
    models: dict[str, Model] = {"triage": script([transfer("human:support", goal="a refund")], [says("Hello.")])}
    async with served(backend, store, live, tmp_path, models) as desk:
        async with desk.widget() as waits:
            await waits.write("a person please")
            await waits.get("ev", e="owner.changed")
        async with desk.widget() as other, desk.client() as client:
            await other.write("hello")
            await other.said("Hello.")
            listed = (await client.get("/v1/conversations")).json()["conversations"]

    owners = {one["id"]: one["owner"]["id"] for one in listed}
    assert owners == {waits.conversation: "support", other.conversation: "triage"}


async def test_a_closed_queue_says_so_instead_of_silence(stage: Stage) -> None:
    """chatwoot/chatwoot PR#15554 "feat: assign Captain handoffs to available agents" (nobody is there)."""
    always_shut = {"timezone": "UTC", "open": {"mon-sun": "00:00-00:01"}}
    desk = shop(queues={"support": {"name": "Support", "hours": always_shut}})
    router = stage.open({"triage": script([transfer("human:support")])}, desk)
    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    router.team = replace(router.team, clock=lambda: noon)

    events = await stage.say("a person please")

    assert "Nobody is there right now; your message is kept" in told(events)[0]


# --- and gives it back ----------------------------------------------------------------------------------------------


async def test_an_agent_knows_that_the_persons_stretch_has_ended(stage: Stage) -> None:
    """fazer-ai/agents#457 "The agent stays silent after a handoff returns the conversation to the bot"."""
    triage = script([transfer("human:support")], [says("Your refund is on its way.")])
    router = stage.open({"triage": triage})
    await stage.say("a person please")
    taken = await router.take(stage.cid, person=ANN)
    await router.say(stage.cid, taken.token, ANN, "I refunded you.", "h1")
    await router.hand_back(stage.cid, taken.token, ANN, note_="refunded 5 EUR")

    events = await stage.say("when do I get it?")

    assert answers(events)[-1] == "Your refund is on its way."
    note = str(seen(triage, 1))
    assert "hands it back to you" in note and "refunded 5 EUR" in note and "[human ann] said: I refunded you." in note


async def test_another_program_can_give_the_conversation_back_to_an_agent(
    backend: Backend, store: Store, live: Live, tmp_path: Path
) -> None:
    """flow-ai/backlog#124 "Resume bot API": take, answer and release over REST; the named agent answers what waits."""
    models: dict[str, Model] = {"triage": script([says("Hello")]), "billing": script([says("Billing here.")])}
    async with served(backend, store, live, tmp_path, models) as desk, desk.widget() as peer, desk.client() as client:
        await peer.write("hi")
        await peer.said("Hello")
        path = f"/v1/conversations/{peer.conversation}"
        token = (await client.post(f"{path}/take", json=person())).json()["token"]
        await peer.write("where is my refund?", cid="client-id-2", number=2)
        await peer.said("where is my refund?")
        body = {"token": token, **person(), "to": "billing", "note": "a refund"}
        body.pop("force")
        released = await client.post(f"{path}/release", json=body)
        assert released.status_code == 200, released.text
        await peer.said("Billing here.")


async def test_an_earlier_handoff_is_not_repeated_after_the_return(stage: Stage) -> None:
    """chatwoot/chatwoot#13880 and #15068 (the last thing in the context is a handoff, so it hands over again at once):
    between the agent's own transfer and the next question stands the note that the person gives it back."""
    triage = script([transfer("human:support")], [says("Hello again.")])
    router = stage.open({"triage": triage})
    await stage.say("a person please")
    taken = await router.take(stage.cid, person=ANN)
    await router.hand_back(stage.cid, taken.token, ANN)

    events = await stage.say("another question")

    read = seen(triage, 1)
    transfer_place = next(place for place, item in enumerate(read) if item.get("name") == "transfer_to_agent")
    note_place = next(place for place, item in enumerate(read) if "hands it back to you" in str(item.get("content")))
    assert transfer_place < note_place < len(read) - 1
    assert moves(events) == ["queue:support", "human:ann", "ai:triage"]


async def test_a_person_who_leaves_gives_the_conversation_to_a_queue(stage: Stage) -> None:
    """HKUDS/nanobot#3322 "Human takeover: allow bot pause" (and what becomes of it when the person is gone)."""
    router = stage.open({"triage": script([says("Hello")])})
    await stage.say("hi")
    await router.take(stage.cid, person=ANN)
    await stage.store.backend.cmd.hset(Keys.of(stage.cid).own, "lease", 1)  # three minutes later
    await stage.store.backend.cmd.zadd(due_key(Keys.of(stage.cid).shard), {stage.cid: 1})

    await router.start()
    try:

        async def gone() -> bool:
            return await stage.owner() == PEOPLE

        await wait_until("a queue owns it", gone)
    finally:
        await router.stop(1)
    assert "had to leave" in told(await stage.log())[-1]


# --- sockets and streams --------------------------------------------------------------------------------------------


@pytest.fixture
async def streaming(
    backend: Backend, store: Store, live: Live, tmp_path: Path
) -> AsyncIterator[tuple[Served, GatedModel]]:
    """A running server whose start agent streams an answer and holds it in the middle."""
    model = GatedModel(LONG)
    async with served(backend, store, live, tmp_path, {"triage": model}) as desk:
        yield desk, model


async def test_a_closed_socket_does_not_end_the_answer(streaming: tuple[Served, GatedModel], store: Store) -> None:
    """openai/openai-agents-python#574 "Canceling the stream"; microsoft/agent-framework#7230 (a disconnect abandons the
    run): the answer is finished and is there when the customer comes back."""
    desk, model = streaming
    session = await desk.session()
    async with desk.widget(session) as peer:
        await peer.write("hello")
        await model.holding.wait()
    model.gate.set()
    await wait_until("the turn ends", lambda: desk.desk.router.running == 0)

    async with desk.widget(session) as again:
        snapshot = await again.get("snapshot")
    assert str(snapshot).count(LONG.strip()) == 1 and model.calls == 1


async def test_who_comes_back_gets_the_rest_once(streaming: tuple[Served, GatedModel]) -> None:
    """run-llama/llama-agents PR#199 (events of a run are lost on reconnect): from the last seq on, nothing twice."""
    desk, model = streaming
    session = await desk.session()
    async with desk.widget(session) as peer:
        await peer.write("hello")
        first = await peer.said("hello")
        await model.holding.wait()
    model.gate.set()
    await wait_until("the turn ends", lambda: desk.desk.router.running == 0)

    async with desk.widget(session, seq=first["seq"], epoch=first["epoch"]) as again:
        await again.said(LONG.strip())
        await again.get("live")
        seqs = [frame["seq"] for frame in again.all("ev")]
    assert seqs == [first["seq"] + 1] and again.all("snapshot") == []


async def test_an_answer_is_one_message_however_often_the_model_was_asked(
    backend: Backend, store: Store, live: Live, tmp_path: Path
) -> None:
    """openai/openai-agents-python#2427 "Multiple response.completed events in streamed agent runs"."""
    models: dict[str, Model] = {
        "triage": script([transfer("nowhere")], [transfer("billing")]),
        "billing": script([says("Hi")]),
    }
    async with served(backend, store, live, tmp_path, models) as desk, desk.widget() as peer:
        await peer.write("an invoice")
        await peer.said("Hi")
        await wait_until("the turn ends", lambda: desk.desk.router.running == 0)
        messages = [frame for frame in peer.events("msg.created") if frame["by"]["kind"] == "ai"]
    assert len(messages) == 1


async def test_a_transfer_is_one_event_for_the_customer_and_names_no_tool(
    backend: Backend, store: Store, live: Live, tmp_path: Path
) -> None:
    """openai/openai-agents-python#4144 "Streamed handoff calls are emitted as both tool_called and handoff_"..."""
    models: dict[str, Model] = {
        "triage": script([transfer("billing", reason="inside")]),
        "billing": script([says("Hi")]),
    }
    async with served(backend, store, live, tmp_path, models) as desk, desk.widget() as peer:
        await peer.write("an invoice")
        await peer.said("Hi")
        await wait_until("the turn ends", lambda: desk.desk.router.running == 0)
        frames = list(peer.frames)
    assert len([frame for frame in frames if frame.get("e") == "owner.changed"]) == 1
    assert "transfer_to_agent" not in str(frames) and "inside" not in str(frames)


async def test_a_second_person_is_told_who_has_it(backend: Backend, store: Store, live: Live, tmp_path: Path) -> None:
    """chatwoot/chatwoot#12079 "Prevent message sending by agents who are not assigned to a conversation": 409."""
    models: dict[str, Model] = {"triage": script([says("Hello")])}
    async with served(backend, store, live, tmp_path, models) as desk, desk.widget() as peer, desk.client() as client:
        await peer.write("hi")
        await peer.said("Hello")
        path = f"/v1/conversations/{peer.conversation}/take"
        first = await client.post(path, json=person())
        second = await client.post(path, json=person(Person("bob", "Bob")))
    assert (first.status_code, second.status_code) == (200, 409)
    assert "ann" in second.text


async def test_a_takeover_ends_what_the_socket_shows_of_a_draft(streaming: tuple[Served, GatedModel]) -> None:
    """botshot/botshot#37 "Human takeover": a person takes over in the middle of an answer, and the rest never comes."""
    desk, model = streaming
    async with desk.widget() as peer, desk.client() as client:
        await peer.write("hello")
        await peer.get("eph", e="msg.delta")
        await client.post(f"/v1/conversations/{peer.conversation}/take", json=person())
        model.gate.set()
        await peer.get("ev", e="owner.changed")
        await wait_until("the turn ends", lambda: desk.desk.router.running == 0)
        shown = "".join(frame["d"] for frame in peer.all("eph") if frame["e"] == "msg.delta")
        messages = [frame["d"]["text"] for frame in peer.events("msg.created") if frame["by"]["kind"] == "ai"]
    assert len(shown) < len(LONG) / 2 and messages == []


def test_an_encrypted_redis_address_is_understood() -> None:
    """openai/openai-agents-python#2081 "Redis SSL Connection Error with redis-py 7"."""
    found = parse_redis_url("rediss://user:secret@redis.example:6380/0")
    assert (found.tls, found.hosts, found.username) == (True, (("redis.example", 6380),), "user")
    assert "secret" not in str(found)


async def test_calls_before_a_transfer_are_recorded(stage: Stage) -> None:
    """openai/openai-agents-python#1909 (hooks are not called for agents with handoffs)."""

    @function_tool
    def look() -> str:
        """Look."""
        return "found"

    models: dict[str, Model] = {
        "triage": script([function_call("look", {}, call_id="c1")], [transfer("billing")]),
        "billing": script([says("Hi")]),
    }
    stage.open(models, tools={"triage": [look]})

    events = await stage.say("an invoice")

    assert [event.data["tool"] for event in of_type(events, "tool.called")] == ["look"]
