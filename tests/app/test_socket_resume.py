"""A widget that comes back: nothing is missing, nothing comes twice, and what cannot be replayed is told whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sessions.connect import Backend
from sessions.keys import Keys
from sessions.live import Live
from sessions.store import Store
from tests.app.served import SITE, Served, served
from tests.handoffs.desks import says, script
from tests.support import wait_until


@pytest.fixture
async def desk(backend: Backend, store: Store, live: Live, tmp_path: Path) -> AsyncIterator[Served]:
    """A server whose triage agent answers `Hello.` as often as it is asked."""
    models: dict[str, Any] = {"triage": script(*[[says("Hello.")] for _ in range(30)])}
    async with served(backend, store, live, tmp_path, models, allowed_origins=(SITE,)) as running:
        yield running


async def say_hello(desk: Served, session: dict[str, Any]) -> tuple[str, int]:
    """One message and its answer; the position after it."""
    async with desk.widget(session) as peer:
        await peer.write("hello")
        await peer.said("Hello.")
        await wait_until("no turn runs", lambda: desk.desk.router.running == 0)
        epoch = next(frame["epoch"] for frame in peer.all("ev") if "epoch" in frame)
        return epoch, max(frame["seq"] for frame in peer.all("ev"))


async def test_a_client_that_saw_the_log_begin_resumes_in_it(desk: Served) -> None:
    """The epoch that came with the first event is the one to come back with: nothing is sent again."""
    session = await desk.session()
    epoch, seq = await say_hello(desk, session)
    async with desk.widget(session, epoch=epoch, seq=seq) as peer:
        welcome = await peer.get("welcome")
        await peer.get("live")
    assert (welcome["recovered"], welcome["replay"], welcome["epoch"]) == (True, 0, epoch)
    assert peer.all("ev") == []
    assert peer.all("snapshot") == []


async def test_missed_events_are_replayed_without_a_gap(desk: Served) -> None:
    """What happened meanwhile comes in order, hidden ones as numbers, and then `live`."""
    session = await desk.session()
    epoch, seq = await say_hello(desk, session)
    async with desk.widget(session, epoch=epoch, seq=1) as peer:
        welcome = await peer.get("welcome")
        await peer.get("live")
    assert welcome["replay"] == seq - 1
    assert [frame["seq"] for frame in peer.all("ev")] == list(range(2, seq + 1))
    assert [frame["t"] for frame in peer.frames] == ["welcome", *["ev"] * (seq - 1), "live"]


@pytest.mark.parametrize(("epoch", "seq", "reason"), [(None, 0, "epoch"), ("e_1-x", 1, "epoch"), ("", 99, "ahead")])
async def test_a_position_that_does_not_fit_gets_a_snapshot(
    desk: Served, epoch: str | None, seq: int, reason: str
) -> None:
    """Never a part: the whole state, with the reason why."""
    session = await desk.session()
    known, top = await say_hello(desk, session)
    async with desk.widget(session, epoch=known if epoch == "" else epoch, seq=seq) as peer:
        welcome = await peer.get("welcome")
        snapshot = await peer.get("snapshot")
        await peer.get("live")
    assert (welcome["recovered"], snapshot["reason"], snapshot["seq"]) == (False, reason, top)
    assert [frame["d"]["text"] for frame in snapshot["messages"] if frame["e"] == "msg.created"] == ["hello", "Hello."]
    assert peer.all("ev") == []


async def test_a_log_that_was_cut_gets_a_snapshot(desk: Served, backend: Backend) -> None:
    """When the beginning of what was missed is gone, no part of it is replayed."""
    session = await desk.session()
    epoch, _ = await say_hello(desk, session)
    await backend.cmd.xtrim(Keys.of(session["conversation"]).log, maxlen=1, approximate=False)
    async with desk.widget(session, epoch=epoch, seq=0) as peer:
        assert (await peer.get("snapshot"))["reason"] == "trimmed"
        await peer.get("live")
    assert peer.all("ev") == []


async def test_another_redis_history_forces_a_snapshot(desk: Served) -> None:
    """After a failover or restart numbers may have been used again, so the position is not believed."""
    session = await desk.session()
    epoch, seq = await say_hello(desk, session)
    before = epoch.rpartition("-")[0]
    async with desk.widget(session, epoch=f"{before}-00000000", seq=seq) as peer:
        assert (await peer.get("snapshot"))["reason"] == "epoch"


async def test_two_tabs_see_the_same(desk: Served) -> None:
    """Both tabs of a visitor get the same events, each with the other's client ids."""
    session = await desk.session()
    async with desk.widget(session) as one, desk.widget(session) as two:
        await one.write("from one", cid="client-id-1")
        await two.write("from two", cid="client-id-2")
        for peer in (one, two):
            await peer.said("from one")
            await peer.said("from two")
        await wait_until("no turn runs", lambda: desk.desk.router.running == 0)
        await wait_until("both are level", lambda: len(one.all("ev")) == len(two.all("ev")))
    assert one.all("ev") == two.all("ev")
