"""Approvals over REST and the command line, with a real server: listed, answered once, and said in words when not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.cli import run
from sessions.connect import Backend
from sessions.keys import Keys
from sessions.live import Live
from sessions.store import Store
from tests.app.served import API_KEY, Served, served
from tests.handoffs.approving import Counted, asked, calls, desk, team_for, write
from tests.handoffs.desks import says, script
from tests.support import wait_until

ANN = {"id": "ann", "name": "Ann"}
BOB = {"id": "bob", "name": "Bob"}


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


@pytest.fixture
async def desk_(backend: Backend, store: Store, live: Live, tmp_path: Path, counted: Counted) -> AsyncIterator[Served]:
    """A server whose billing agent wants a refund, then says `Done.`; then to close the account."""
    model = script([calls("refund", order="A-1")], [says("Done.")], [calls("close_account")], [says("Closed it.")])
    async with served(backend, store, live, tmp_path, {}, roster=desk()) as running:
        running.desk.router.team = team_for(desk(), counted, {"billing": model}, tmp_path)
        yield running


@pytest.fixture
async def api(desk_: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with desk_.client() as client:
        yield client


@pytest.fixture
async def waiting(desk_: Served, store: Store, conversation_id: str) -> str:
    """The id of an approval that waits in `conversation_id`."""
    await write(desk_.desk.router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)
    return approval.approval_id


async def answer(
    api: httpx2.AsyncClient, conversation_id: str, approval_id: str, **body: Any
) -> tuple[int, dict[str, Any]]:
    path = f"/v1/conversations/{conversation_id}/approvals/{approval_id}"
    done = await api.post(path, json={"verdict": "granted", "by": ANN, **body})
    found: dict[str, Any] = done.json()
    return done.status_code, found


async def test_waiting_approvals_are_listed_over_all_and_for_one(
    api: httpx2.AsyncClient, waiting: str, conversation_id: str
) -> None:
    """handoffs.md 8: who decides sees the call, its arguments, until when, and what counts after that."""
    (over_all,) = (await api.get("/v1/approvals")).json()["approvals"]
    (of_one,) = (await api.get(f"/v1/conversations/{conversation_id}/approvals")).json()["approvals"]

    assert over_all == of_one
    assert over_all["deadline"] > "2026"
    del over_all["deadline"]
    assert over_all == {
        "id": waiting,
        "conversation": conversation_id,
        "state": "asked",
        "void": False,
        "agent": "billing",
        "tool": "refund",
        "arguments": {"order": "A-1"},
        "approver": "people",
        "default": "refused",
        "verdict": None,
        "by": None,
        "note": None,
        "at": None,
    }


async def test_answer_lets_the_conversation_go_on(
    api: httpx2.AsyncClient, desk_: Served, waiting: str, conversation_id: str, counted: Counted
) -> None:
    """handoffs.md 8: a person at the desk grants; the call is made and the agent answers."""
    status, found = await answer(api, conversation_id, waiting, note="fine")

    assert (status, found["state"], found["by"], found["note"]) == (200, "granted", "human:ann", "fine")
    await wait_until("the call is made", lambda: counted.executions == ["refund A-1"])
    await wait_until("no turn runs", lambda: desk_.desk.router.running == 0)
    assert (await api.get("/v1/approvals")).json() == {"approvals": []}


async def test_second_answer_gets_409_with_the_first(
    api: httpx2.AsyncClient, waiting: str, conversation_id: str
) -> None:
    """handoffs.md 8: single use; who comes second reads who decided what."""
    await answer(api, conversation_id, waiting, verdict="refused", note="no")

    status, found = await answer(api, conversation_id, waiting, by=BOB)

    assert (status, found["error"]["code"]) == (409, "already_decided")
    first = found["approval"]
    assert (first["verdict"], first["by"], first["note"]) == ("refused", "human:ann", "no")


async def test_answer_after_the_time_gets_409_with_the_default(
    api: httpx2.AsyncClient, store: Store, waiting: str, conversation_id: str
) -> None:
    """handoffs.md 8: too late is no answer, and it is said."""
    keys = Keys.of(conversation_id)
    await store.backend.cmd.hset(keys.approval(waiting), "deadline", 1)

    status, found = await answer(api, conversation_id, waiting)

    assert (status, found["approval"]["verdict"], found["approval"]["by"]) == (409, "refused", "system")
    assert "nobody decided in time" in found["error"]["message"]


async def test_answer_after_a_takeover_is_409_and_says_who_owns(
    api: httpx2.AsyncClient, waiting: str, conversation_id: str, counted: Counted
) -> None:
    """handoffs.md 8: bound to the agent and its ownership; a person who took over does it themselves."""
    await api.post(f"/v1/conversations/{conversation_id}/take", json={"person": BOB})

    status, found = await answer(api, conversation_id, waiting)

    assert (status, found["error"]["code"], found["error"]["owner"]) == (409, "approval_void", "human:bob")
    assert counted.executions == []
    (seen,) = (await api.get(f"/v1/conversations/{conversation_id}/approvals")).json()["approvals"]
    assert seen["void"]


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"verdict": "perhaps"}, 422, "invalid_request", "verdict"),
        ({"by": "nobody"}, 422, "invalid_request", None),
        ({"by": "customer"}, 403, "not_theirs", "by"),
        ({"reason": "x"}, 422, "invalid_request", "reason"),
    ],
)
async def test_wrong_answer_names_the_field(
    api: httpx2.AsyncClient,
    waiting: str,
    conversation_id: str,
    body: dict[str, Any],
    status: int,
    code: str,
    field: str,
) -> None:
    """Nobody's approval is used up by a mistake."""
    got, found = await answer(api, conversation_id, waiting, **body)

    assert (got, found["error"]["code"]) == (status, code)
    assert field is None or found["error"]["field"] == field
    assert len((await api.get("/v1/approvals")).json()["approvals"]) == 1


async def test_unknown_approval_is_404(api: httpx2.AsyncClient, waiting: str, conversation_id: str) -> None:
    """Its own code, so that a wrong link is not taken for a decision."""
    status, found = await answer(api, conversation_id, "ap_none")
    assert (status, found["error"]["code"]) == (404, "unknown_approval")


async def test_customers_word_is_not_the_desks_to_give(
    api: httpx2.AsyncClient, desk_: Served, store: Store, waiting: str, conversation_id: str, counted: Counted
) -> None:
    """handoffs.md 8: approver customer (`confirm:`): a channel passes the customer's word on; a person may not."""
    await answer(api, conversation_id, waiting)
    await wait_until("the refund is made", lambda: counted.executions == ["refund A-1"])
    await wait_until("no turn runs", lambda: desk_.desk.router.running == 0)
    await write(desk_.desk.router, conversation_id, "and close my account", "m2")
    (confirm,) = await asked(store, conversation_id)

    refused, _ = await answer(api, conversation_id, confirm.approval_id)
    status, found = await answer(api, conversation_id, confirm.approval_id, by="customer")

    assert (confirm.call["approver"], refused, status, found["by"]) == ("customer", 403, 200, "customer")
    await wait_until("the account is closed", lambda: counted.executions[-1] == "close_account")


async def test_command_line_lists_approves_and_says_who_was_first(
    desk_: Served, waiting: str, conversation_id: str, counted: Counted, capsys: pytest.CaptureFixture[str]
) -> None:
    """`frontdesk approvals`, `approve`, `deny`: the same by hand; a second answer ends with exit code 8."""
    at = ["--url", desk_.http, "--key", API_KEY]

    assert await asyncio.to_thread(run, ["approvals", *at]) == 0
    listed = capsys.readouterr().out
    assert await asyncio.to_thread(run, ["approve", conversation_id, waiting, "--as", "", *at]) != 0
    capsys.readouterr()
    assert await asyncio.to_thread(run, ["approve", conversation_id, waiting, "--as", "ann", *at]) == 0
    approved = capsys.readouterr().out
    assert await asyncio.to_thread(run, ["deny", conversation_id, waiting, "--as", "bob", *at]) == 8
    denied = capsys.readouterr().err

    assert await asyncio.to_thread(run, ["show", conversation_id, *at]) == 0
    shown = capsys.readouterr().out

    assert 'billing wants refund {"order": "A-1"}' in shown and "granted (by human:ann)" in shown
    assert waiting in listed and 'refund {"order": "A-1"}' in listed and "a person at the desk" in listed
    assert "refund is granted" in approved
    assert "human:ann" in denied
    await wait_until("the call is made", lambda: counted.executions == ["refund A-1"])
