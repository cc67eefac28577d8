"""The REST door: tokens for widgets, the desk's calls, error shapes, health and pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.limits import Buckets
from app.pages import PAGE_CSP
from sessions.connect import Backend
from sessions.live import Live
from sessions.model import ValueWrite
from sessions.store import Store
from tests.app.served import API_KEY, SITE, Served, served
from tests.handoffs.desks import says, script, shop, transfer
from tests.support import wait_until

ANN = {"id": "ann", "name": "Ann"}
BOB = {"id": "bob", "name": "Bob"}


@pytest.fixture
async def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[Served]:
    """A server: triage hands on to billing, which answers `Billing here.`."""
    models: dict[str, Any] = {
        "triage": script([transfer("billing", reason="money", goal="a refund")], [says("Triage again.")]),
        "billing": script(*[[says("Billing here.")] for _ in range(10)]),
    }
    values = {"order_number": {"pattern": "A-[0-9]{5}"}, "card": {"sensitive": True}}
    async with served(
        backend, store, live, tmp_path, models, roster=shop(values=values), allowed_origins=(SITE,)
    ) as running:
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


async def post(api: httpx2.AsyncClient, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    answer = await api.post(path, json=body)
    found: dict[str, Any] = answer.json()
    return answer.status_code, found


async def take(api: httpx2.AsyncClient, cid: str, person: dict[str, str] = ANN, **more: Any) -> str:
    status, taken = await post(api, f"/v1/conversations/{cid}/take", {"person": person, **more})
    assert status == 200, taken
    return str(taken["token"])


# --- tokens for widgets ---------------------------------------------------------------------------------------------


async def test_a_new_visitor_gets_tokens_and_what_to_show_first(desk: Served) -> None:
    """A session names visitor and conversation, and what the empty widget shows."""
    session = await desk.session(lang="zh-CN")
    assert session["conversation"].startswith("c_")
    assert session["fresh"] is True
    assert session["expires_in"] == 900
    assert session["desk"] == {"name": "Test desk", "language": "zh", "offline_model": True, "suggestions": []}


async def test_a_refresh_goes_on_and_new_starts_over(desk: Served) -> None:
    """The same visitor comes back to the same conversation, or to a new one on wish."""
    first = await desk.session()
    again = await desk.session(refresh=first["refresh"])
    fresh = await desk.session(refresh=first["refresh"], new=True)
    assert (again["conversation"], again["fresh"]) == (first["conversation"], False)
    assert fresh["visitor"] == first["visitor"]
    assert fresh["conversation"] != first["conversation"]


@pytest.mark.parametrize("origin", [None, "null", "https://evil.example"])
async def test_pages_of_other_sites_get_no_tokens(desk: Served, origin: str | None) -> None:
    """The Origin is checked, and said in the error."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        headers = {"Origin": origin} if origin else {}
        answer = await client.post("/widget/session", json={"site_key": "demo"}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin_not_allowed")
    assert "access-control-allow-origin" not in answer.headers


async def test_an_allowed_site_passes_the_browsers_preflight(desk: Served) -> None:
    """Another site's page may post JSON when it is on the list, and read the answer."""
    async with httpx2.AsyncClient(base_url=desk.http, headers={"Origin": SITE}) as client:
        preflight = await client.options("/widget/session")
        answer = await client.post("/widget/session", json={"site_key": "demo"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-headers"] == "content-type"
    assert answer.headers["access-control-allow-origin"] == SITE


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"site_key": "other"}, 403, "unknown_site", "site_key"),
        ({}, 422, "invalid_request", "site_key"),
        ({"site_key": "demo", "conversation": "c_x"}, 422, "invalid_request", "conversation"),
        ({"site_key": "demo", "refresh": "forged"}, 401, "refresh_refused", "refresh"),
    ],
)
async def test_a_wrong_session_request_names_the_field(
    desk: Served, body: dict[str, Any], status: int, code: str, field: str
) -> None:
    """A visitor cannot name a conversation, only prove one."""
    async with httpx2.AsyncClient(base_url=desk.http, headers={"Origin": desk.http}) as client:
        answer = await client.post("/widget/session", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["field"]) == (status, code, field)


async def test_one_address_cannot_open_sessions_without_end(desk: Served) -> None:
    """The limit per address answers 429 with when to come back."""
    desk.desk.sessions = Buckets(1, 0.5)
    await desk.session()
    async with httpx2.AsyncClient(base_url=desk.http, headers={"Origin": desk.http}) as client:
        answer = await client.post("/widget/session", json={"site_key": "demo"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
    assert int(answer.headers["retry-after"]) >= 1


# --- the key --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {API_KEY}"}],
)
async def test_the_desk_is_closed_without_the_key(desk: Served, headers: dict[str, str]) -> None:
    """Every call under /v1 needs the key."""
    async with httpx2.AsyncClient(base_url=desk.http, headers=headers) as client:
        for path in ("/v1/conversations", "/v1/conversations/c_x", "/v1/conversations/c_x/events", "/v1/roster"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


async def test_a_visitors_token_is_no_key(desk: Served) -> None:
    """What opens a widget does not open the desk."""
    token = (await desk.session())["token"]
    async with httpx2.AsyncClient(base_url=desk.http, headers={"Authorization": f"Bearer {token}"}) as client:
        assert (await client.get("/v1/conversations")).status_code == 401


async def test_both_headers_open_it(desk: Served) -> None:
    """`Authorization: Bearer` and `X-API-Key` are the same key."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        for headers in ({"Authorization": f"Bearer {API_KEY}"}, {"X-API-Key": API_KEY}):
            assert (await client.get("/v1/conversations", headers=headers)).status_code == 200


# --- reading --------------------------------------------------------------------------------------------------------


async def test_a_conversation_is_shown_whole(api: httpx2.AsyncClient, cid: str) -> None:
    """Owner, transcript and every event with its brief: this is for the desk."""
    found = (await api.get(f"/v1/conversations/{cid}")).json()
    assert found["owner"] == {"kind": "ai", "id": "billing", "name": "Billing"}
    assert found["status"] == "open"
    assert [(line["by"], line["text"]) for line in found["transcript"]] == [
        ("customer", "I was charged twice"),
        ("ai:billing", "Billing here."),
    ]
    change = next(event for event in found["events"] if event["type"] == "owner.changed")
    assert change["data"]["brief"]["goal"] == "a refund"
    assert [event["seq"] for event in found["events"]] == list(range(1, found["seq"] + 1))


async def test_sensitive_values_are_named_and_not_shown(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """Values that desk.yaml calls sensitive, or does not know, stay inside."""
    taken = await store.takeover(cid, "ann", change={})
    writes = [ValueWrite("order_number", "A-10023"), ValueWrite("card", "4242"), ValueWrite("odd", "x")]
    await store.commit(cid, taken.token, "r-1", values=writes)
    answer = await api.get(f"/v1/conversations/{cid}")
    assert answer.json()["values"] == {"order_number": "A-10023"}
    assert answer.json()["hidden_values"] == ["card", "odd"]
    assert "4242" not in answer.text


async def test_the_list_says_who_owns_and_what_was_said_last(api: httpx2.AsyncClient, cid: str) -> None:
    """One line per conversation, newest first."""
    (line,) = (await api.get("/v1/conversations")).json()["conversations"]
    assert (line["id"], line["owner"]["id"], line["last_text"]) == (cid, "billing", "Billing here.")
    assert (line["last_by"], line["waiting"]) == ("ai:billing", 0)


@pytest.mark.parametrize("cid_", ["c_nobody", "a b", "x" * 300, "..%2f..%2fetc"])
async def test_an_unknown_conversation_is_404(api: httpx2.AsyncClient, cid_: str) -> None:
    """Nothing there, and ids that cannot be any, answer alike."""
    answer = await api.get(f"/v1/conversations/{cid_}")
    assert (answer.status_code, answer.json()["error"]["code"]) in [(404, "unknown_conversation"), (404, "not_found")]


async def test_the_event_stream_goes_on_from_where_it_was(desk: Served, api: httpx2.AsyncClient, cid: str) -> None:
    """Old events come first and new ones as they happen, each with its seq as id."""
    seen: list[dict[str, Any]] = []

    async def follow() -> None:
        async with api.stream("GET", f"/v1/conversations/{cid}/events?after=1", timeout=30) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: ")))

    following = asyncio.create_task(follow())
    await wait_until("the replay is there", lambda: any(e.get("type") == "msg.created" for e in seen))
    async with desk.client() as other:
        await take(other, cid)
    await wait_until("the takeover is there", lambda: any(e.get("owner_to") == "human:ann" for e in seen))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    seqs = [event["seq"] for event in seen if "seq" in event]
    assert seqs == list(range(2, seqs[-1] + 1))


async def test_event_streams_end_when_the_process_leaves(desk: Served, api: httpx2.AsyncClient, cid: str) -> None:
    """An open desk page does not hold up a shutdown; it comes back from its last seq."""
    async with api.stream("GET", f"/v1/conversations/{cid}/events", timeout=30) as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == ": follow"
        await desk.desk.drain()
        async with asyncio.timeout(10):
            rest = [line async for line in lines]
    assert rest


# --- taking, writing, handing back ----------------------------------------------------------------------------------


async def test_a_person_takes_writes_and_hands_back(
    desk: Served, api: httpx2.AsyncClient, store: Store, cid: str
) -> None:
    """The whole way of a person, seen by the customer, with the note in the log."""
    token = await take(api, cid)
    written = await post(api, f"/v1/conversations/{cid}/messages", {"token": token, "person": ANN, "text": "Ann here."})
    status, released = await post(
        api,
        f"/v1/conversations/{cid}/release",
        {"token": token, "person": ANN, "to": "billing", "note": "promised a refund"},
    )
    events = await store.read(cid)
    assert written[0] == 200
    assert (status, released["owner"]["id"]) == (200, "billing")
    said = next(event for event in events if event.by == "human:ann" and event.type == "msg.created")
    assert (said.data["text"], said.data["name"], said.data["id"]) == ("Ann here.", "Ann", written[1]["message_id"])
    assert events[-1].data["reason"] == "promised a refund"


async def test_a_message_id_makes_a_repeat_harmless(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """A lost answer is repeated without a second message."""
    token = await take(api, cid)
    body = {"token": token, "person": ANN, "text": "Once.", "message_id": "my-own-id-1"}
    first = await post(api, f"/v1/conversations/{cid}/messages", body)
    second = await post(api, f"/v1/conversations/{cid}/messages", body)
    assert (first[1]["duplicate"], second[1]["duplicate"]) == (False, True)
    assert first[1]["message_id"] == second[1]["message_id"]
    assert [e.data.get("text") for e in await store.read(cid) if e.by == "human:ann"].count("Once.") == 1


async def test_a_message_id_that_was_used_for_another_text_is_409(
    api: httpx2.AsyncClient, store: Store, cid: str
) -> None:
    """Another text under an old id is not swallowed: the person is told, and nothing is sent."""
    token = await take(api, cid)
    body = {"token": token, "person": ANN, "text": "Once.", "message_id": "my-own-id-1"}
    await post(api, f"/v1/conversations/{cid}/messages", body)
    status, answer = await post(api, f"/v1/conversations/{cid}/messages", {**body, "text": "Something else."})
    assert (status, answer["error"]["code"]) == (409, "message_id_reused")
    assert "Something else." not in [event.data.get("text") for event in await store.read(cid)]


async def test_a_stale_token_is_409_with_the_present_owner(api: httpx2.AsyncClient, store: Store, cid: str) -> None:
    """Who lost the conversation is told who has it, and nothing is written."""
    token = await take(api, cid)
    await take(api, cid, BOB, force=True)
    for path, body in (
        ("messages", {"token": token, "person": ANN, "text": "too late"}),
        ("release", {"token": token, "person": ANN}),
    ):
        status, answer = await post(api, f"/v1/conversations/{cid}/{path}", body)
        assert (status, answer["error"]["code"], answer["error"]["owner"]) == (409, "stale_owner", "human:bob")
        assert answer["error"]["epoch"] > 0
    assert "too late" not in [event.data.get("text") for event in await store.read(cid)]


async def test_another_person_is_not_pushed_aside_without_force(api: httpx2.AsyncClient, cid: str) -> None:
    """409 owner_busy names who has it; force takes it."""
    await take(api, cid)
    status, answer = await post(api, f"/v1/conversations/{cid}/take", {"person": BOB})
    assert (status, answer["error"]["code"], answer["error"]["owner"]) == (409, "owner_busy", "human:ann")
    await take(api, cid, BOB, force=True)


async def test_a_take_that_expects_another_epoch_is_a_conflict(api: httpx2.AsyncClient, cid: str) -> None:
    """Who looked at an old list is told to look again."""
    status, answer = await post(api, f"/v1/conversations/{cid}/take", {"person": ANN, "expected_epoch": 1})
    assert (status, answer["error"]["code"], answer["error"]["field"]) == (409, "conflict", "epoch")


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("messages", {"text": ""}, "text"),
        ("messages", {"text": "  "}, "text"),
        ("messages", {"text": "x" * 17_000}, "text"),
        ("messages", {"token": "nonsense"}, "token"),
        ("messages", {"person": {"id": "a b", "name": "A"}}, "person.id"),
        ("messages", {"person": {"id": "ann"}}, "person.name"),
        ("messages", {"texts": "typo"}, "texts"),
        ("release", {"to": "nobody"}, "to"),
        ("release", {"note": "x" * 5000}, "note"),
    ],
)
async def test_a_wrong_body_names_the_field(
    api: httpx2.AsyncClient, cid: str, path: str, change: dict[str, Any], field: str
) -> None:
    """422 with the field, and nothing happens."""
    token = await take(api, cid)
    body = {"token": token, "person": ANN, **({"text": "hi"} if path == "messages" else {}), **change}
    status, answer = await post(api, f"/v1/conversations/{cid}/{path}", body)
    assert (status, answer["error"]["field"]) == (422, field), answer


async def test_ten_megabytes_are_refused(api: httpx2.AsyncClient, cid: str) -> None:
    """A body over 64 KiB is 413, in the same error shape, before it is read whole."""
    answer = await api.post(f"/v1/conversations/{cid}/take", content=b"x" * 10_000_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_a_body_without_a_length_is_cut_too(api: httpx2.AsyncClient, cid: str) -> None:
    """A chunked flood is refused as soon as it is too long."""

    async def flood() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 10_000

    answer = await api.post(f"/v1/conversations/{cid}/take", content=flood())
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def test_a_body_that_is_no_json_says_so(api: httpx2.AsyncClient, cid: str) -> None:
    """Broken JSON is named as such."""
    headers = {"content-type": "application/json"}
    answer = await api.post(f"/v1/conversations/{cid}/take", content=b"{person", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_json")


# --- health, documents, pages ---------------------------------------------------------------------------------------


async def test_health_and_readiness(desk: Served) -> None:
    """A running desk is well, ready, and says with what."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["store"] == "ok"
    assert ready.json()["agents"] == 3
    assert ready.json()["alarms"] == {"loop_guard": 0, "announced_only": 0, "guardrail": 0}


async def test_a_deaf_process_is_not_ready(desk: Served, live: Live) -> None:
    """A process that cannot hear Redis gets no new visitors."""
    await live.stop()
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["ready"], answer.json()["live"]) == (503, False, False)


async def test_openapi_has_real_models_and_error_shapes(desk: Served) -> None:
    """Every call under /v1 documents its answer and its errors, and needs the key."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        document = (await client.get("/openapi.json")).json()
    release = document["paths"]["/v1/conversations/{conversation_id}/release"]["post"]
    schema = release["responses"]["409"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/ErrorBody"}
    assert {next(iter(way)) for way in release["security"]} == {"HTTPBearer", "APIKeyHeader"}
    assert "/" not in document["paths"]


async def test_unknown_paths_and_methods_have_the_same_error_shape(desk: Served) -> None:
    """404 and 405 are JSON like every other error."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        assert (await client.get("/nothing")).json()["error"]["code"] == "not_found"
        assert (await client.post("/healthz")).json()["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["/", "/desk"])
async def test_pages_have_a_strict_policy_and_nothing_inline(desk: Served, path: str) -> None:
    """No inline script or style, nothing of another host, and the headers that enforce it."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        page = await client.get(path)
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == PAGE_CSP
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "<style" not in page.text
    assert "style=" not in page.text
    assert "https://" not in page.text
    assert page.text.count("<script") == page.text.count('<script type="module" src="/static/')


async def test_the_widget_may_be_loaded_by_other_sites(desk: Served) -> None:
    """Modules of the widget carry CORS headers; the desk's files do not."""
    async with httpx2.AsyncClient(base_url=desk.http, headers={"Origin": SITE}) as client:
        widget = await client.get("/static/widget/frontdesk-chat.js")
        inside = await client.get("/static/desk.js")
        outside = await client.get("/static/../api.py")
    assert widget.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-origin" not in inside.headers
    assert outside.status_code == 404


def test_no_page_script_turns_text_into_markup() -> None:
    """innerHTML and its relatives are in no file of ours."""
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")
    for file in (Path(__file__).parents[2] / "app" / "static").rglob("*.js"):
        text = file.read_text()
        assert not [word for word in forbidden if word in text], file
