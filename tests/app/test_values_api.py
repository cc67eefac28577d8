"""`/v1/conversations/{id}/values` over a real server: the contract, revisions, and nobody's change lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sessions.connect import Backend
from sessions.live import Live
from sessions.model import Value, ValueWrite
from sessions.store import Store
from tests.app.served import Served, served
from tests.app.test_api import ANN
from tests.handoffs.desks import says, script, shop
from tests.support import SCALE, wait_until

CARD = "4111-1111"


@pytest.fixture
async def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[Served]:
    """A server whose desk declares values of every kind."""
    values = {
        "order": {"pattern": "A-[0-9]{5}"},
        "counted": {"type": "integer"},
        "card": {"sensitive": True},
        "code": {"lifetime": "turn"},
        "plan": {"lifetime": "customer", "allowed": ["gold", "silver"]},
    }
    models: dict[str, Any] = {"triage": script(*[[says("Hello.")] for _ in range(4)])}
    async with served(backend, store, live, tmp_path, models, roster=shop(values=values)) as running:
        yield running


@pytest.fixture
async def api(desk: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that holds the API key, and waits: a hundred requests at the same time take a slow machine seconds."""
    async with desk.client() as client:
        client.timeout = httpx2.Timeout(30 * SCALE)
        yield client


async def written_to(desk: Served, session: dict[str, Any] | None = None) -> str:
    """A conversation in which a visitor has been answered."""
    async with desk.widget(session) as peer:
        await peer.write("hello")
        await peer.said("Hello.")
        await wait_until("no turn runs", lambda: desk.desk.router.running == 0)
        return peer.conversation


@pytest.fixture
async def cid(desk: Served) -> str:
    return await written_to(desk)


async def put(api: httpx2.AsyncClient, cid: str, values: dict[str, Any], **more: Any) -> tuple[int, dict[str, Any]]:
    """Set values; status and body."""
    answer = await api.put(f"/v1/conversations/{cid}/values", json={"values": values, **more})
    found: dict[str, Any] = answer.json()
    return answer.status_code, found


async def test_desk_sets_a_value_and_reads_it_with_its_revision(
    api: httpx2.AsyncClient, store: Store, cid: str
) -> None:
    """handoffs.md 4: what is set under the contract is there for the agents, and the log says who changed which key."""
    status, body = await put(api, cid, {"order": {"value": "A-10023", "rev": 0}}, person=ANN)

    assert (status, (await api.get(f"/v1/conversations/{cid}/values")).json()) == (200, body)
    assert body["values"]["order"] == {"value": "A-10023", "rev": 1, "lifetime": "conversation", "hidden": False}
    assert (await store.values(cid))["order"] == Value("A-10023", 1)
    last = (await store.read(cid))[-1]
    assert (last.type, last.by, last.data) == ("values.changed", "human:ann", {"keys": ["order"]})


async def test_older_revision_is_refused_and_nothing_is_set(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 4: compare-and-set, all or none, and the error names the value."""
    await put(api, cid, {"order": {"value": "A-10023"}})

    status, body = await put(api, cid, {"counted": {"value": 1}, "order": {"value": "A-10024", "rev": 0}})

    assert (status, body["error"]["code"], body["error"]["field"]) == (409, "conflict", "values.order")
    assert await store.values(cid) == {"order": Value("A-10023", 1)}


async def test_hundred_clients_that_count_lose_none(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 4: 100 requests at the same time that add one make exactly 100, and none is refused."""
    answers = await asyncio.gather(*(put(api, cid, {"counted": {"add": 1}}) for _ in range(100)))

    assert {status for status, _ in answers} == {200}
    assert (await store.values(cid))["counted"] == Value(100, 100)


async def test_clients_that_count_by_revision_lose_none(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 4: clients that read, compute and write with the revision repeat after 409, and all count."""

    async def count() -> None:
        while True:
            now = (await api.get(f"/v1/conversations/{cid}/values")).json()["values"].get("counted", {})
            wish = {"value": now.get("value", 0) + 1, "rev": now.get("rev", 0)}
            status, body = await put(api, cid, {"counted": wish})
            if status == 200:
                return
            assert status == 409, body

    await asyncio.gather(*(count() for _ in range(8)))

    assert (await store.values(cid))["counted"] == Value(8, 8)


@pytest.mark.parametrize("change", [{}, {"value": 1, "add": 1}, {"value": 1, "revision": 1}])
async def test_change_that_says_nothing_clear_is_refused(
    api: httpx2.AsyncClient, cid: str, change: dict[str, Any]
) -> None:
    """handoffs.md 4: neither value nor add, both, or an unknown field: 422."""
    assert (await put(api, cid, {"counted": change}))[0] == 422


async def test_same_request_again_changes_nothing(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 4: a client that lost the answer repeats its request without harm."""
    for value in (1, 2):
        status, _ = await put(api, cid, {"counted": {"value": value}}, request_id="count-0001")
        assert status == 200

    assert (await store.values(cid))["counted"] == Value(1, 1)


async def test_sensitive_value_can_be_set_and_is_never_shown(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 5: the answers name the key and its revision, not the value; nor does the log."""
    status, body = await put(api, cid, {"card": {"value": CARD}})

    pages = [f"/v1/conversations/{cid}{part}" for part in ("/values", "", "/timeline")]
    shown = [(await api.get(page)).text for page in pages]
    assert (status, body["values"]["card"]["hidden"], body["values"]["card"]["value"]) == (200, True, None)
    assert CARD not in str(body) + "".join(shown)
    assert CARD not in str(await store.read(cid))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("order", "10023", "matches A-"),
        ("counted", "one", "expected integer, got str"),
        ("colour", "red", "desk.yaml has no value 'colour'; it has: order"),
        ("code", "77", "only their tools set it"),
        ("plan", "bronze", "expected one of gold, silver"),
    ],
)
async def test_value_outside_its_contract_is_refused(
    api: httpx2.AsyncClient, store: Store, cid: str, key: str, value: Any, why: str
) -> None:
    """handoffs.md 4: 422 names the value, what came and what is allowed."""
    status, body = await put(api, cid, {key: {"value": value}})

    assert (status, body["error"]["code"], body["error"]["field"]) == (422, "value_invalid", f"values.{key}")
    assert why in body["error"]["message"]
    assert await store.values(cid) == {}


async def test_only_numbers_are_counted_up(api: httpx2.AsyncClient, cid: str) -> None:
    """handoffs.md 4: `add` to a text is 422 and says why."""
    status, body = await put(api, cid, {"order": {"add": 1}})

    assert (status, body["error"]["field"]) == (422, "values.order")
    assert "only an integer or a number can be counted up" in body["error"]["message"]


async def test_value_of_the_customer_is_set_for_all_conversations_of_the_visitor(
    desk: Served, api: httpx2.AsyncClient
) -> None:
    """handoffs.md 4: a second conversation of the same visitor has it, another visitor's has not."""
    session = await desk.session()
    first = await written_to(desk, session)
    second = await written_to(desk, await desk.session(refresh=session["refresh"], new=True))
    other = await written_to(desk)

    status, _ = await put(api, first, {"plan": {"value": "gold", "rev": 0}})

    plans = [(await api.get(f"/v1/conversations/{cid}/values")).json()["values"].get("plan") for cid in (second, other)]
    assert (status, first != second) == (200, True)
    assert plans == [{"value": "gold", "rev": 1, "lifetime": "customer", "hidden": False}, None]
    assert (await api.get(f"/v1/conversations/{second}")).json()["values"] == {"plan": "gold"}


async def test_values_that_cannot_be_set_in_one_step_are_refused_together(
    api: httpx2.AsyncClient, store: Store, cid: str
) -> None:
    """handoffs.md 4: all or none holds, so a customer's and a conversation's values need two requests."""
    status, body = await put(api, cid, {"plan": {"value": "gold"}, "counted": {"value": 1}})

    assert (status, body["error"]["field"]) == (422, "values")
    assert await store.values(cid) == {}


async def test_conversation_that_is_closed_keeps_its_values(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """handoffs.md 4: 409 after the end, 404 where there is nothing."""
    await store.set_values(cid, "r1", [ValueWrite("counted", 1)], by="system")
    await store.close(cid)

    assert (await put(api, cid, {"counted": {"value": 2}}))[0] == 409
    assert (await put(api, "c_none", {"counted": {"value": 2}}))[0] == 404
    assert (await store.values(cid))["counted"] == Value(1, 1)
