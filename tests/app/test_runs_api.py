"""`GET /v1/runs`: what agents did, over a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from agents import Usage
from agents.testing import ModelStep

from app.building import open_desk
from app.settings import Settings
from handoffs.router import CustomerMessage
from sessions.connect import Backend
from sessions.live import Live
from sessions.model import ValueWrite
from sessions.store import Store
from tests.app.served import Served, served
from tests.handoffs.desks import says, script, shop, transfer
from tests.handoffs.folders import write
from tests.support import wait_until

CARD = "4111-1111"


@pytest.fixture
async def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[Served]:
    """triage refuses once, hands on to billing, and writes a card number into its reason; billing then fails once."""
    first = ModelStep(output=[transfer("nobody")], usage=Usage(requests=1, input_tokens=40, output_tokens=4))
    moves = ModelStep(
        output=[transfer("billing", reason=f"charge on {CARD}")],
        usage=Usage(requests=1, input_tokens=60, output_tokens=6),
    )
    models: dict[str, Any] = {
        "triage": script(first, moves, *[[says("Triage here.")] for _ in range(5)]),
        "billing": script([says("Billing here.")], RuntimeError(f"no answer about {CARD}")),
    }
    values = {"card": {"sensitive": True}, "order": {}}
    async with served(backend, store, live, tmp_path, models, roster=shop(values=values)) as running:
        yield running


@pytest.fixture
async def api(desk: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that holds the API key."""
    async with desk.client() as client:
        yield client


async def say(desk: Served, conversation_id: str, number: int = 1) -> None:
    """A customer's message, answered."""
    await desk.desk.router.receive(conversation_id, CustomerMessage(f"m{number}", "I was charged twice"))
    await wait_until("no turn runs", lambda: desk.desk.router.running == 0)


async def test_a_run_is_listed_with_what_it_came_to(
    desk: Served, api: httpx2.AsyncClient, conversation_id: str
) -> None:
    """handoffs.md 2.5: who had the conversation before and after, who decided it, what it took."""
    await say(desk, conversation_id)

    answer = (await api.get("/v1/runs", params={"conversation": conversation_id})).json()

    (run,) = answer["runs"]
    assert answer["next"] is None
    assert (run["conversation"], run["outcome"], run["owner"], run["owner_after"]) == (
        conversation_id,
        "answered",
        "ai:triage",
        "ai:billing",
    )
    assert run["transfers"] == [{"owner_from": "ai:triage", "owner_to": "ai:billing", "decided_by": "model"}]
    assert (run["messages"], run["model_calls"], run["tool_calls"], run["refusals"]) == (1, 3, 2, 1)
    assert run["usage"] == {"input": 100, "output": 10, "cached": 0, "reasoning": 0}
    assert run["error"] is None and run["whole"] is True


async def test_a_run_is_shown_call_by_call(desk: Served, api: httpx2.AsyncClient, conversation_id: str) -> None:
    """handoffs.md 2.2: the refusal that the model was told, in the step of its owner, before the transfer."""
    await say(desk, conversation_id)
    (listed,) = (await api.get("/v1/runs")).json()["runs"]

    run = (await api.get(f"/v1/runs/{listed['id']}")).json()

    triage, billing = run["steps"]
    assert run["id"] == listed["id"] and run["roster"] == "test" and run["turn"] == "1"
    assert [message["text"] for message in triage["messages"]] == ["I was charged twice"]
    assert [tool["name"] for tool in triage["tools"]] == ["transfer_to_agent"] * 2
    assert "Not transferred" in triage["tools"][0]["result"]
    assert triage["refusals"][0]["to"] == "nobody"
    assert (triage["transfer"]["to"], billing["text"], billing["owner_after"]) == (
        "billing",
        "Billing here.",
        "ai:billing",
    )
    assert triage["calls"][0]["usage"]["input"] == 40
    assert [call["items"] for call in triage["calls"]] == [1, 3]


async def test_sensitive_values_are_hidden(
    desk: Served, api: httpx2.AsyncClient, store: Store, conversation_id: str
) -> None:
    """handoffs.md 5: neither the value nor its text in a reason, an argument or an error leaves the desk."""
    await say(desk, conversation_id)
    await store.set_values(
        conversation_id, "v1", [ValueWrite("card", CARD), ValueWrite("order", "A-1")], by="human:ann"
    )
    await say(desk, conversation_id, 2)

    listed = await api.get("/v1/runs")
    newest = await api.get(f"/v1/runs/{listed.json()['runs'][0]['id']}")
    oldest = await api.get(f"/v1/runs/{listed.json()['runs'][1]['id']}")

    for answer in (listed, newest, oldest):
        assert answer.status_code == 200 and CARD not in answer.text
    assert newest.json()["values"] == {"card": "[hidden]", "order": "A-1"}
    assert newest.json()["error"] == "no answer about [hidden]"
    assert oldest.json()["steps"][0]["transfer"]["reason"] == "charge on [hidden]"


async def test_the_list_goes_over_all_conversations_newest_first(
    desk: Served, api: httpx2.AsyncClient, conversation_id: str
) -> None:
    """Page by page, each run once, in the order in which they began, whichever conversation they belong to."""
    await say(desk, conversation_id)
    await say(desk, f"{conversation_id}a")
    await say(desk, f"{conversation_id}b")
    await say(desk, f"{conversation_id}a", 2)

    pages: list[list[str]] = []
    after: str | None = None
    while after is not None or not pages:
        query: dict[str, Any] = {"limit": 2} if after is None else {"limit": 2, "after": after}
        answer = (await api.get("/v1/runs", params=query)).json()
        pages.append([run["conversation"].removeprefix(conversation_id) for run in answer["runs"]])
        after = answer["next"]

    assert pages == [["a", "b"], ["a", ""]]


@pytest.mark.parametrize("run_id", ["c_x~1", "c_x", "~", "a b~1", "c_x~" + "9" * 200])
async def test_an_unknown_run_is_404(api: httpx2.AsyncClient, run_id: str) -> None:
    """No record, no conversation, and no id at all answer alike."""
    answer = await api.get(f"/v1/runs/{run_id}")
    assert (answer.status_code, answer.json()["error"]["code"]) in [
        (404, "unknown_run"),
        (404, "unknown_conversation"),
    ]


async def test_a_wrong_question_names_the_field(api: httpx2.AsyncClient) -> None:
    """`after` is the id of a run; a conversation that is not there is said to be unknown."""
    wrong = await api.get("/v1/runs", params={"after": "yesterday"})
    unknown = await api.get("/v1/runs", params={"conversation": "c_nobody"})
    assert (wrong.status_code, wrong.json()["error"]["field"]) == (422, "after")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_conversation")


async def test_runs_are_closed_without_the_key(desk: Served) -> None:
    """What agents did is for the desk."""
    async with httpx2.AsyncClient(base_url=desk.http) as client:
        for path in ("/v1/runs", "/v1/runs/c_x~1"):
            assert (await client.get(path)).status_code == 401


async def test_the_number_of_records_is_a_setting(tmp_path: Path) -> None:
    """FRONTDESK_RUNS_KEPT reaches the store that writes them."""
    folder = write(tmp_path / "agents")
    async with open_desk(Settings(data_dir=tmp_path, agents=folder, runs_kept=3), works=False) as opened:
        assert opened.store.runs_keep == 3


async def test_a_forgotten_customer_has_no_runs(
    desk: Served, api: httpx2.AsyncClient, store: Store, conversation_id: str
) -> None:
    """What was recorded goes with everything else."""
    await say(desk, conversation_id)
    await store.forget(conversation_id)

    assert (await api.get("/v1/runs")).json() == {"runs": [], "next": None}
