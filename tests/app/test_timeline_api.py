"""`GET /v1/conversations/{id}/timeline`: the export of who owned, over a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sessions.connect import Backend
from sessions.live import Live
from sessions.model import ValueWrite
from sessions.store import Store
from tests.app.served import Served, served
from tests.app.test_api import ANN, post, take
from tests.handoffs.desks import says, script, shop, transfer
from tests.support import wait_until

CARD = "4111-1111"


@pytest.fixture
async def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[Served]:
    """triage hands on to billing, and writes a card number into its reason and its brief."""
    asked = transfer("billing", reason=f"charge on {CARD}", goal="a refund", facts=[f"card {CARD}"])
    models: dict[str, Any] = {"triage": script([asked]), "billing": script([says("Billing here.")])}
    values = {"order_number": {}, "card": {"sensitive": True}}
    async with served(backend, store, live, tmp_path, models, roster=shop(values=values)) as running:
        yield running


@pytest.fixture
async def api(desk: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that holds the API key."""
    async with desk.client() as client:
        yield client


@pytest.fixture
async def cid(desk: Served) -> str:
    """A conversation that billing owns and has answered."""
    async with desk.widget() as peer:
        await peer.write("I was charged twice")
        await peer.said("Billing here.")
        await wait_until("no turn runs", lambda: desk.desk.router.running == 0)
        return peer.conversation


async def test_timeline_says_who_owned_and_why(api: httpx2.AsyncClient, cid: str) -> None:
    """handoffs.md 2.5: one entry per owner, with names, times, reason, decision and what was answered."""
    found = (await api.get(f"/v1/conversations/{cid}/timeline")).json()

    triage, billing = found["tenures"]
    assert (found["id"], found["status"], found["complete"]) == (cid, "open", True)
    assert billing["owner"] == {"kind": "ai", "id": "billing", "name": "Billing"}
    assert billing["previous"] == triage["owner"] and triage["previous"] is None
    assert (billing["decided_by"], billing["by"], billing["answered"]) == ("model", "ai:triage", 1)
    assert triage["until"] == billing["since"] and billing["until"] is None
    assert billing["brief"]["goal"] == "a refund"


async def test_sensitive_values_are_hidden_wherever_they_stand(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 5: the export has the text of a sensitive value nowhere, neither in the reason nor in the brief."""
    await store.set_values(cid, "r1", [ValueWrite("card", CARD)], by="system")

    answer = await api.get(f"/v1/conversations/{cid}/timeline")

    billing = answer.json()["tenures"][1]
    assert CARD not in answer.text
    assert (billing["reason"], billing["brief"]["facts"]) == ("charge on [hidden]", ["card [hidden]"])


async def test_person_is_called_by_the_announced_name(api: httpx2.AsyncClient, cid: str) -> None:
    """handoffs.md 10: a takeover and the hand back name the person, not only the login."""
    token = await take(api, cid)
    status, body = await post(
        api, f"/v1/conversations/{cid}/release", {"token": token, "person": ANN, "to": "billing", "note": "solved"}
    )
    assert status == 200, body

    found = (await api.get(f"/v1/conversations/{cid}/timeline")).json()

    person, back = found["tenures"][2:]
    assert person["owner"] == {"kind": "human", "id": "ann", "name": "Ann"}
    assert (back["previous"]["name"], back["reason"]) == ("Ann", "solved")


async def test_unknown_conversation_has_no_timeline(api: httpx2.AsyncClient) -> None:
    """handoffs.md 2.5: 404 in the shape of every error."""
    answer = await api.get("/v1/conversations/c_none/timeline")

    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_conversation")


async def test_timeline_needs_the_key(desk: Served, cid: str) -> None:
    """handoffs.md 2.5: who owned and why is for the desk only."""
    async with httpx2.AsyncClient(base_url=desk.http) as stranger:
        assert (await stranger.get(f"/v1/conversations/{cid}/timeline")).status_code == 401
