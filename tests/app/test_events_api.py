"""`GET /v1/conversations/{id}/events`: what observers see, over a real server; and what customers never do."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agents.testing import function_call

from app.desk import Times
from app.events_api import server_sent
from handoffs.router import CustomerMessage
from sessions.connect import Backend
from sessions.keys import Keys
from sessions.live import Live
from sessions.model import Ephemeral, Event
from sessions.store import Store
from tests.app.served import API_KEY, Served, served
from tests.handoffs.desks import agent, roster, says, script, transfer
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until


@dataclass
class Seen:
    """What one observer got: (event name, id or empty, data), in order."""

    events: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def names(self) -> list[str]:
        return [name for name, _, _ in self.events]

    def data(self, name: str) -> list[dict[str, Any]]:
        return [data for found, _, data in self.events if found == name]

    async def has(self, name: str, count: int = 1) -> None:
        await wait_until(f"{count} times {name}", lambda: self.names().count(name) >= count)


@asynccontextmanager
async def observing(desk: Served, cid: str, *, last_id: str = "", **query: Any) -> AsyncIterator[Seen]:
    """An observer who is there before anything else happens."""
    seen, ready = Seen(), asyncio.Event()
    headers = {"Last-Event-ID": last_id} if last_id else {}

    async def read() -> None:
        async with (
            desk.client(**headers) as client,
            client.stream("GET", f"/v1/conversations/{cid}/events", params=query, timeout=30) as answer,
        ):
            assert answer.status_code == 200, await answer.aread()
            name, id_ = "", ""
            async for line in answer.aiter_lines():
                key, _, value = line.partition(": ")
                if line == ": follow":
                    ready.set()
                elif key == "event":
                    name = value
                elif key == "id":
                    id_ = value
                elif key == "data":
                    seen.events.append((name, id_, json.loads(value)))
                    id_ = ""

    reading = asyncio.create_task(read())
    await wait_until("the stream is open", lambda: ready.is_set() or reading.done())
    yield seen
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


@pytest.fixture
async def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[Served]:
    """triage answers, then hands on to billing, who asks fraud before it answers."""
    models: dict[str, Any] = {
        "triage": script([says("Hello.")], [transfer("billing", reason="money")]),
        "billing": script(
            [function_call("ask_fraud", {"request": "Is A-1 fine?"}, call_id="c1")], [says("It is fine.")]
        ),
        "fraud": script([says("Nothing odd about A-1.")]),
    }
    people = roster(
        agent("triage", transfer_to=("billing", "human:support")),
        agent("billing", ask=("fraud",), transfer_to=("human:support",)),
        agent("fraud"),
    )
    async with served(backend, store, live, tmp_path, models, roster=people, times=Times(slow_s=0.5)) as running:
        yield running


async def say(desk: Served, cid: str, number: int = 1) -> None:
    """A customer's message, answered."""
    await desk.desk.router.receive(cid, CustomerMessage(f"m{number}", f"message {number}"))
    await wait_until("no turn runs", lambda: desk.desk.router.running == 0)


async def test_an_observer_sees_a_turn_from_its_start_to_its_end(desk: Served, conversation_id: str) -> None:
    """handoffs.md 2.5: who works, the handoff step by step, what was said, and the end with the id of its record."""
    await say(desk, conversation_id)
    async with observing(desk, conversation_id, after=2) as seen:
        await say(desk, conversation_id, 2)
        await seen.has("turn_end")

    order = [
        *("turn_start", "agent_start", "agent_end", "handoff_requested", "handoff_accepted", "owner_changed"),
        *("handoff_completed", "agent_start", "agent_end", "agent_message", "turn_end"),
    ]
    outer = [name for name, _, data in seen.events if len(data.get("path", [])) < 2 and name in order]
    assert outer == order
    assert seen.data("turn_start")[0]["owner"] == "ai:triage"
    (ended,) = seen.data("turn_end")
    async with desk.client() as api:
        run = (await api.get(f"/v1/runs/{ended['run']}")).json()
    assert run["owner_after"] == "ai:billing" and seen.data("turn_start")[0]["run"] == ended["run"]


async def test_observers_see_inside_an_agent_that_is_asked(desk: Served, conversation_id: str) -> None:
    """handoffs.md 6: its start, its words and its end come with the path that leads to it, and without an id."""
    await say(desk, conversation_id)
    async with observing(desk, conversation_id) as seen:
        await say(desk, conversation_id, 2)
        await seen.has("turn_end", 2)

    inner = [(name, id_, data) for name, id_, data in seen.events if data.get("path") == ["billing", "fraud"]]
    assert [name for name, _, _ in inner] == ["agent_start", "agent_message", "agent_end"]
    assert inner[1][2]["text"] == "Nothing odd about A-1."
    assert [id_ for _, id_, _ in inner] == ["", "", ""]


async def test_a_customer_never_gets_what_observers_see(desk: Served) -> None:
    """handoffs.md 4: with an observer at the desk, the widget still gets the owner's text and nothing else."""
    async with desk.widget() as peer:
        await peer.write("message 1")
        await peer.said("Hello.")
        async with observing(desk, peer.conversation) as seen:
            await peer.write("message 2", cid="client-id-2", number=2)
            await peer.said("It is fine.")
            await seen.has("agent_end", 3)
        told = json.dumps(peer.frames)

    assert seen.data("agent_start") and "Nothing odd" not in told
    assert not any(word in told for word in ("agent_start", "agent_end", "turn_start", "turn_end", "fraud", "path"))
    assert {frame["e"] for frame in peer.all("eph")} <= {"msg.delta", "typing", "run.status"}


async def test_deltas_of_the_owner_come_as_they_are_shown(
    backend: Backend, store: Store, live: Live, tmp_path: Path, conversation_id: str
) -> None:
    """handoffs.md 4: what the customer sees being written, the observer sees too, without an id."""
    model = GatedModel("One moment, I look.", hold_after=8)
    async with served(backend, store, live, tmp_path, {"triage": model}, roster=roster(agent("triage"))) as desk:
        await desk.desk.router.receive(conversation_id, CustomerMessage("m1", "hello"))
        await model.holding.wait()
        async with observing(desk, conversation_id) as seen:
            model.gate.set()
            await seen.has("turn_end")

    text = [data["d"] for data in seen.data("response_delta")]
    assert "".join(text) in "One moment, I look."
    assert {id_ for name, id_, _ in seen.events if name == "response_delta"} <= {""}
    assert [data["data"]["text"] for data in seen.data("agent_message")] == ["One moment, I look."]


async def test_a_stream_goes_on_behind_its_last_id(desk: Served, conversation_id: str) -> None:
    """handoffs.md 2.5: by Last-Event-ID or `after`, gapless and nothing twice; between message and `turn_end` too."""
    await say(desk, conversation_id)
    await say(desk, conversation_id, 2)
    async with observing(desk, conversation_id) as whole:
        await whole.has("turn_end", 2)
    durable = [(name, id_) for name, id_, _ in whole.events]

    assert all(id_ for _, id_ in durable)
    for place in (0, 1, 2, len(durable) - 2):
        async with observing(desk, conversation_id, last_id=durable[place][1]) as rest:
            await rest.has("turn_end", [name for name, _ in durable[place + 1 :]].count("turn_end"))
        assert [(name, id_) for name, id_, _ in rest.events] == durable[place + 1 :]
    async with observing(desk, conversation_id, after=2) as behind:
        await behind.has("turn_end")
    assert [(name, id_) for name, id_, _ in behind.events] == durable[3:]


async def test_nobody_watches_nothing_is_published(
    desk: Served, store: Store, backend: Backend, conversation_id: str
) -> None:
    """A turn without observers, or with one who does not watch, publishes only what is in the log."""
    await say(desk, conversation_id)
    async with await backend.pubsub() as pubsub:
        await pubsub.subscribe(Keys.of(conversation_id).watchers)
        await pubsub.get_message(timeout=1)
        async with observing(desk, conversation_id, watch=False) as seen:
            await say(desk, conversation_id, 2)
            await seen.has("turn_end", 2)
        assert await pubsub.get_message(timeout=0.1) is None
    assert "turn_start" not in seen.names()
    assert (await store.get(conversation_id)).watched_until == 0


async def test_a_reader_who_takes_nothing_is_cut(desk: Served, store: Store, live: Live, conversation_id: str) -> None:
    """What waits for a slow observer is bounded: the connection ends, and the desk goes on."""
    await say(desk, conversation_id)
    host, _, port = desk.address.partition(":")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, (host, int(port)))
    request = f"GET /v1/conversations/{conversation_id}/events HTTP/1.1\r\nHost: x\r\nX-API-Key: {API_KEY}\r\n\r\n"
    await loop.sock_sendall(raw, request.encode())
    channel = Keys.of(conversation_id).channel
    await wait_until("the observer follows", lambda: live._feeds.get(channel))

    async def flooded() -> bool:
        await store.publish(conversation_id, Ephemeral("typing", {"by": "customer", "x": "x" * 100_000}))
        return not live._feeds.get(channel)

    await wait_until("the slow observer is gone", flooded)
    raw.close()
    await say(desk, conversation_id, 2)


@pytest.mark.parametrize("last_id", ["x", "1-2", "1.1", "-1", "9" * 40])
async def test_an_id_that_no_stream_gave_is_refused(desk: Served, conversation_id: str, last_id: str) -> None:
    """Starting over silently would show everything twice."""
    await say(desk, conversation_id)
    async with desk.client(**{"Last-Event-ID": last_id}) as client:
        answer = await client.get(f"/v1/conversations/{conversation_id}/events")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


async def test_the_stream_is_closed_without_the_key(desk: Served, conversation_id: str) -> None:
    """What agents think is for the desk."""
    await say(desk, conversation_id)
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        answer = await client.get(f"/v1/conversations/{conversation_id}/events")
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("type_", "by", "name"),
    [
        ("msg.created", "customer", "customer_message"),
        ("msg.created", "human:ann", "person_message"),
        ("msg.created", "ai:billing", "agent_message"),
        ("handoff.refused", "ai:triage", "handoff_refused"),
        ("approval.asked", "ai:billing", "approval_asked"),
        ("approval.decided", "human:ann", "approval_decided"),
    ],
)
def test_every_event_of_the_log_has_a_name_for_observers(type_: str, by: str, name: str) -> None:
    """handoffs.md 2.5 and 8: handoffs and approvals step by step, each with the seq as its id."""
    (text,) = server_sent(Event(7, 1, type_, 0, by, {}), "c_x")
    assert text.splitlines()[:2] == ["id: 7", f"event: {name}"]
