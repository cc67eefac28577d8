"""A hosted model behind the real router and a real Valkey: it hands over, streams, and each fault has a next owner."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.models import choose_models
from app.settings import load_settings
from handoffs.roster import AgentSpec, DeskSpec, Roster
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.live import Live
from sessions.model import Ephemeral, Event
from sessions.store import Store
from tests.fakes.openai_server import (
    Call,
    Calls,
    Cut,
    Empty,
    Fail,
    FakeOpenAI,
    Hang,
    RateLimit,
    Raw,
    Say,
    Step,
    fake_openai,
)
from tests.support import wait_until

TRANSFER = Call(
    "transfer_to_agent",
    {
        "agent_id": "billing",
        "reason": "charged twice",
        "brief": {"goal": "get the money back", "facts": ["paid twice"]},
    },
)


@pytest.fixture(params=["responses", "chat_completions"])
def api(request: pytest.FixtureRequest) -> str:
    """Each claim holds for both of OpenAI's APIs."""
    return str(request.param)


def agent(agent_id: str, **fields: Any) -> AgentSpec:
    return AgentSpec.model_validate(
        {"id": agent_id, "intended_use": f"Everything about {agent_id}.", "instructions": f"You are {agent_id}."}
        | fields
    )


def desk() -> Roster:
    """Triage and billing, which may hand over to each other, and people for what fails."""
    spec = {"name": "Shop", "start": "triage", "queues": {"support": {"name": "Support"}}, "on_error": "human:support"}
    agents = [
        agent("triage", transfer_to=["billing"], model="small-model"),
        agent("billing", transfer_to=["triage", "human:support"]),
    ]
    return Roster(desk=DeskSpec.model_validate(spec), agents={spec.id: spec for spec in agents}, version="v1")


@dataclass
class Desk:
    """A router whose model is the scripted server."""

    router: Router
    store: Store
    live: Live
    server: FakeOpenAI
    cid: str

    async def send(self, text: str) -> list[Event]:
        """Send a customer message; the whole log when the turn is over."""
        await self.router.receive(self.cid, CustomerMessage(f"in{len(self.server.requests)}", text, "en"))
        await wait_until("the turn is over", lambda: self.router.running == 0)
        return await self.store.read(self.cid, 0)

    async def owner(self) -> str:
        return (await self.store.get(self.cid)).owner.ref


@asynccontextmanager
async def running(
    script: Sequence[Step], api: str, store: Store, live: Live, cid: str, data_dir: Path, **overrides: Any
) -> AsyncIterator[Desk]:
    roster = desk()
    async with fake_openai(script) as server:
        values = {"model": "test-model", "model_retries": 0, "model_timeout_s": 5.0} | overrides
        settings = load_settings(env_file=None, openai_base_url=server.base_url, openai_api=api, **values)
        models = choose_models(settings, roster, lambda: None)  # type: ignore[arg-type, return-value]  # never asked for
        router = Router(store, live, Team.load(roster, models, data_dir=data_dir))
        await router.start()
        try:
            yield Desk(router, store, live, server, cid)
        finally:
            await router.stop(1)
            await models.provider.aclose()


def texts(events: Sequence[Event], by: str) -> list[str]:
    return [str(event.data["text"]) for event in events if event.type == "msg.created" and event.by == by]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


async def test_a_hosted_model_hands_over_and_the_specialist_answers(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The model's transfer_to_agent call moves the conversation; the brief reaches the next agent's prompt as data."""
    script: list[Step] = [TRANSFER, Say("You were charged twice; I can refund it.")]
    async with running(script, api, store, live, conversation_id, tmp_path) as it:
        events = await it.send("I was charged twice")
        assert await it.owner() == "ai:billing"
        assert texts(events, "ai:billing") == ["You were charged twice; I can refund it."]
        prompts = [json.dumps(request.body, ensure_ascii=False) for request in it.server.requests]
    assert "handoff-note" in prompts[1] and "get the money back" in prompts[1] and "You are billing." in prompts[1]
    assert "get the money back" not in prompts[0]


async def test_each_agent_asks_for_its_own_model(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """`model:` of an agent file goes out on the wire; the others use FRONTDESK_MODEL."""
    async with running([TRANSFER, Say("Yes.")], api, store, live, conversation_id, tmp_path) as it:
        await it.send("I was charged twice")
        assert [request.body["model"] for request in it.server.requests] == ["small-model", "test-model"]


async def test_the_specialist_keeps_the_conversation(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The next message goes to the owner, who sees what it said before, and not to triage."""
    script: list[Step] = [TRANSFER, Say("You were charged twice."), Say("In five days.")]
    async with running(script, api, store, live, conversation_id, tmp_path) as it:
        await it.send("I was charged twice")
        events = await it.send("and when do I get it back?")
        assert texts(events, "ai:billing") == ["You were charged twice.", "In five days."]
        assert "You were charged twice." in json.dumps(it.server.requests[2].body)


async def test_the_customer_sees_the_answer_while_it_is_written(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The pieces of the hosted stream are relayed as drafts that add up to the final message."""
    answer = "Your parcel is out for delivery and arrives today."
    async with running([Say(answer, pace_s=0.03)], api, store, live, conversation_id, tmp_path) as it:
        pieces: list[str] = []
        async with live.follow(conversation_id, 0) as feed:
            await it.router.receive(conversation_id, CustomerMessage("in1", "where is my parcel", "en"))
            async for item in feed:
                if isinstance(item, Ephemeral) and item.type == "msg.delta":
                    pieces.append(item.data["d"])
                if isinstance(item, Event) and item.type == "msg.created" and item.by == "ai:triage":
                    break
        await wait_until("the turn is over", lambda: it.router.running == 0)
    assert item.data["text"] == answer and pieces and answer.startswith("".join(pieces))


async def test_a_forbidden_target_is_told_to_the_model_which_corrects_itself(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A transfer that is not allowed changes nothing; the refusal names who is."""
    wrong = Call("transfer_to_agent", {"agent_id": "warehouse", "reason": "parcel", "brief": {}})
    async with running([wrong, TRANSFER, Say("Yes.")], api, store, live, conversation_id, tmp_path) as it:
        events = await it.send("I was charged twice")
        assert await it.owner() == "ai:billing" and "handoff.refused" in kinds(events)
        assert "billing" in json.dumps(it.server.requests[1].body["input" if api == "responses" else "messages"][-1])


async def test_two_transfers_in_one_answer_move_the_conversation_once(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """The first call wins."""
    async with running([Calls([TRANSFER, TRANSFER]), Say("Yes.")], api, store, live, conversation_id, tmp_path) as it:
        events = await it.send("I was charged twice")
        assert [(e.owner_from, e.owner_to) for e in events if e.type == "owner.changed"] == [
            ("ai:triage", "ai:billing")
        ]


async def test_a_rate_limit_is_invisible(
    api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """429 with a short retry-after costs the customer a moment and nothing else."""
    script: list[Step] = [RateLimit("0.05"), Say("Hello.")]
    async with running(script, api, store, live, conversation_id, tmp_path, model_retries=1) as it:
        events = await it.send("hello")
        assert texts(events, "ai:triage") == ["Hello."] and "turn.failed" not in kinds(events)


FAULTS: dict[str, Step] = {
    "500": Fail(500),
    "wrong key": Fail(401),
    "unknown model": Fail(404),
    "hangs": Hang(),
    "cut": Cut("Your parcel is now in"),
    "stops without an end": Cut("Your parcel is now in", clean=True),
    "garbage": Raw(b"\x00\xff garbage"),
    "half json": Raw(b"data: {not json\n\n"),
    "empty answer": Empty(),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_fault_gives_the_conversation_to_people_and_tells_the_customer(
    fault: Step, api: str, store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """Whatever a model server does, there is a next owner, one sentence for the customer, and the reason in the log."""
    script = [fault, Say("never sent")]
    patience_s = 0.5 if isinstance(fault, Hang) else 30.0  # a busy machine must not look like the fault
    async with running(script, api, store, live, conversation_id, tmp_path, model_timeout_s=patience_s) as it:
        events = await it.send("where is my parcel?")
        assert await it.owner() == "queue:support"
        (failed,) = [event for event in events if event.type == "turn.failed"]
        assert failed.data["agent"] == "triage" and "model" in failed.data["why"].lower()
        assert any("person" in str(event.data.get("text", "")) for event in events if event.by != "customer")
        assert texts(events, "ai:triage") == [] and len(it.server.requests) == 1
        assert "Your parcel is now in" not in [str(event.data.get("text")) for event in events]
