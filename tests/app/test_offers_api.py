"""Offers and passing on over REST, with a real server: asked, answered once, and said in words when too late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sessions.connect import Backend
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.app.served import served
from tests.handoffs.desks import shop

ANN = {"id": "ann", "name": "Ann"}
BEN = {"id": "ben", "name": "Ben"}
EVE = {"id": "eve", "name": "Eve"}


@pytest.fixture
async def api(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with served(backend, store, live, tmp_path, {}, roster=shop()) as running, running.client() as client:
        yield client


@pytest.fixture
async def here(store: Store, conversation_id: str) -> str:
    """The address of a conversation in the queue."""
    await store.enqueue(conversation_id, "m1", {"id": "m_1", "text": "hi"}, start=Owner.queue("support"))
    return f"/v1/conversations/{conversation_id}"


async def post(api: httpx2.AsyncClient, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.post(path, json=body)
    found: dict[str, Any] = answer.json()
    return answer.status_code, found


async def taken_by_ann(api: httpx2.AsyncClient, here: str) -> dict[str, Any]:
    """What Ann sends with each call: who she is, and her token."""
    _, taken = await post(api, f"{here}/take", person=ANN)
    return {"person": ANN, "token": taken["token"]}


async def test_an_offer_is_listed_and_accepting_it_gives_a_token(api: httpx2.AsyncClient, here: str) -> None:
    """handoffs.md 10: Ben sees who asks, why and until when; his yes gives him the token, and ends hers."""
    ann = await taken_by_ann(api, here)
    status, made = await post(api, f"{here}/offers", **ann, to={"kind": "human", "id": "ben"}, note="speaks French")
    (listed,) = (await api.get(f"{here}/offers")).json()["offers"]

    accepted, answer = await post(api, f"{here}/offers/{made['id']}/accept", person=BEN)

    assert (status, accepted) == (200, 200)
    assert listed == made
    assert (made["by"]["name"], made["to"]["id"], made["note"]) == ("Ann", "ben", "speaks French")
    assert (await post(api, f"{here}/messages", person=BEN, token=answer["token"], text="Bonjour"))[0] == 200
    assert (await post(api, f"{here}/messages", **ann, text="Me too"))[1]["error"]["code"] == "stale_owner"
    assert (await api.get(f"{here}/offers")).json() == {"offers": []}


async def test_refusals_say_why(api: httpx2.AsyncClient, here: str) -> None:
    """handoffs.md 10: a second offer, somebody who was not asked, and an answer that comes too late."""
    ann = await taken_by_ann(api, here)
    to_ben = {"kind": "human", "id": "ben"}
    _, made = await post(api, f"{here}/offers", **ann, to=to_ben)
    offer = f"{here}/offers/{made['id']}"

    second = await post(api, f"{here}/offers", **ann, to=to_ben)
    by_eve = [await post(api, f"{offer}/{word}", person=EVE) for word in ("accept", "decline")]
    declined = await post(api, f"{offer}/decline", person=BEN, reason="at lunch")
    late = [await post(api, f"{offer}/accept", person=BEN), await post(api, f"{offer}/cancel", **ann)]

    assert (second[0], second[1]["error"]["code"]) == (409, "offer_pending")
    assert [(status, body["error"]["code"]) for status, body in by_eve] == [(403, "not_offered")] * 2
    assert (declined[0], declined[1]["state"]) == (200, "declined")
    assert [(status, body["error"]["code"]) for status, body in late] == [(409, "offer_gone")] * 2


async def test_a_direct_pass_names_the_new_owner(api: httpx2.AsyncClient, here: str) -> None:
    """handoffs.md 10: to a person, who then takes it; an unknown queue is refused by field."""
    ann = await taken_by_ann(api, here)

    status, passed = await post(api, f"{here}/pass", **ann, to={"kind": "human", "id": "ben", "name": "Ben"})
    _, taken = await post(api, f"{here}/take", person=BEN)
    nowhere = await post(api, f"{here}/pass", person=BEN, token=taken["token"], to={"kind": "queue", "id": "moon"})

    assert (status, passed["owner"]) == (200, {"kind": "human", "id": "ben", "name": "Ben"})
    assert (nowhere[0], nowhere[1]["error"]["field"]) == (422, "to")
