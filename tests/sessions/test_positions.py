"""Positions in the log over a real Valkey: clients that come back, sinks that deliver, and what is trimmed."""

from __future__ import annotations

import pytest

from sessions.errors import Conflict
from sessions.keys import Keys
from sessions.model import NewEvent, Position, ResumeState, Token
from sessions.store import Store
from tests.sessions.test_store import granted


async def talk(store: Store, conversation_id: str, events: int) -> Token:
    """A conversation with one customer message and then `events` notices, one commit each; its token."""
    grant = await granted(store, conversation_id)
    for n in range(events):
        await store.commit(conversation_id, grant.token, f"r{n}", events=[NewEvent("notice", {"n": n})])
    return grant.token


async def position(store: Store, conversation_id: str, seq: int) -> Position:
    """Where a client stands that has everything up to `seq`."""
    event = next(event for event in await store.read(conversation_id) if event.seq == seq)
    return Position(event.epoch, event.seq)


async def test_client_gets_what_it_missed(store: Store, conversation_id: str) -> None:
    """From its last event on, from nothing, and from the newest: gapless, and nothing twice."""
    await talk(store, conversation_id, 3)

    middle = await store.resume(conversation_id, await position(store, conversation_id, 2))
    start = await store.resume(conversation_id, Position(0, 0))
    newest = await store.resume(conversation_id, await position(store, conversation_id, 4))

    assert [event.seq for event in middle.events] == [3, 4]
    assert [event.seq for event in start.events] == [1, 2, 3, 4]
    assert (newest.state, newest.events, newest.seq) == (ResumeState.OK, (), 4)


async def test_client_of_a_lost_history_is_told(store: Store, conversation_id: str) -> None:
    """A failover lost what the client saw: another event has its place, or there is less than it saw."""
    await talk(store, conversation_id, 3)
    there = await position(store, conversation_id, 3)

    replaced = await store.resume(conversation_id, Position(there.epoch + 1, 3))
    shorter = await store.resume(conversation_id, Position(there.epoch, 99))

    assert (replaced.state, replaced.events) == (ResumeState.ROLLED_BACK, ())
    assert (shorter.state, shorter.events, shorter.seq) == (ResumeState.AHEAD, (), 4)


async def test_log_keeps_its_newest_events(store: Store, conversation_id: str) -> None:
    """Beyond `log_keep` events the oldest go, with the commits; who was away longer is told to start over."""
    small = Store(store.backend, log_keep=3, scripts=store._scripts)
    await talk(small, conversation_id, 7)
    events = await small.read(conversation_id)
    epoch = events[0].epoch

    assert [event.seq for event in events] == [6, 7, 8]
    assert (await small.resume(conversation_id, Position(epoch, 2))).state is ResumeState.TRIMMED
    assert (await small.resume(conversation_id, Position(0, 0))).state is ResumeState.TRIMMED
    edge = await small.resume(conversation_id, Position(epoch, 5))
    assert (edge.state, [event.seq for event in edge.events]) == (ResumeState.OK, [6, 7, 8])
    assert (await small.resume(conversation_id, Position(epoch + 1, 5))).state is ResumeState.ROLLED_BACK


async def test_log_keeps_what_a_sink_has_not_read(store: Store, conversation_id: str) -> None:
    """A webhook that is behind loses nothing; when it is dropped, the log is trimmed again."""
    small = Store(store.backend, log_keep=3, scripts=store._scripts)
    token = await talk(small, conversation_id, 1)
    await small.advance_cursor(conversation_id, "webhook", await position(small, conversation_id, 2))
    for n in range(10, 16):
        await small.commit(conversation_id, token, f"r{n}", events=[NewEvent("notice", {})])

    assert [event.seq for event in await small.read(conversation_id)] == [3, 4, 5, 6, 7, 8]
    await small.drop_cursor(conversation_id, "webhook")
    await small.commit(conversation_id, token, "r99", events=[NewEvent("notice", {})])
    assert [event.seq for event in await small.read(conversation_id)] == [7, 8, 9]


async def test_cursor_only_moves_forward(store: Store, conversation_id: str) -> None:
    """A repeated or late acknowledgement changes nothing; one for an event that is not there is refused."""
    await talk(store, conversation_id, 3)
    second, third = [await position(store, conversation_id, seq) for seq in (2, 3)]
    assert await store.cursor(conversation_id, "desk") == Position(0, 0)

    assert await store.advance_cursor(conversation_id, "desk", third) == third
    assert await store.advance_cursor(conversation_id, "desk", second) == third
    with pytest.raises(Conflict, match="log has moved on"):
        await store.advance_cursor(conversation_id, "desk", Position(third.epoch, 99))

    assert await store.cursor(conversation_id, "desk") == third


async def test_living_conversation_has_no_time_to_live(store: Store, conversation_id: str) -> None:
    """No key of an open conversation expires but the requests: an expired owner would be a lost epoch."""
    await talk(store, conversation_id, 1)
    redis, base = store.backend.cmd, Keys.of(conversation_id).base

    ttls = {str(key)[len(base) :]: await redis.ttl(key) async for key in redis.scan_iter(match=base + "*")}

    assert {ttl for name, ttl in ttls.items() if not name.startswith("i:")} == {-1}
    assert all(ttl > 0 for name, ttl in ttls.items() if name.startswith("i:"))


@pytest.mark.parametrize("bad", ["", "12", "a-b", "1-", "-1", "1-2-3", "²-1"])
def test_text_that_is_no_position_is_refused(bad: str) -> None:
    """Only `<epoch>-<seq>` is a position."""
    with pytest.raises(ValueError, match="a position looks like"):
        Position.parse(bad)
