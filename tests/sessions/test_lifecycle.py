"""The end of conversations over a real Valkey: closed ones go together, forgotten ones never come back."""

from __future__ import annotations

import asyncio

import pytest

from sessions.approvals import arguments_hash
from sessions.errors import Conflict, ConversationClosed, ConversationForgotten, StaleOwner, UnknownConversation
from sessions.keys import Keys
from sessions.model import Ephemeral, Grant, NewEvent, Owner, Position, Recorded, Token, ValueWrite
from sessions.store import Store
from tests.sessions.test_store import TRIAGE, granted


async def busy(store: Store, conversation_id: str) -> Grant:
    """A conversation that has every kind of key."""
    grant = await granted(store, conversation_id, "my name is Ada")
    token = grant.token
    await store.ask_approval(
        conversation_id, token, "a1", arguments=arguments_hash("refund", {}), call={"for": "Ada"}, valid_ms=60_000
    )
    await store.commit(
        conversation_id,
        token,
        "r1",
        agent_id="triage",
        items=[{"role": "user", "content": "my name is Ada"}],
        values=[ValueWrite("name", "Ada", 0)],
        record=Recorded("1", '{"text":"Dear Ada"}'),
    )
    await store.begin_call(conversation_id, token, "k1")
    await store.offer(conversation_id, token, "o1", to=Owner.queue("support"), valid_ms=60_000, brief={"who": "Ada"})
    await store.relay(conversation_id, token, Ephemeral("msg.delta", {}), message_id="m_d", piece="Dear Ada")
    await store.advance_cursor(conversation_id, "desk", Position(grant.conversation.epoch, 1))
    return grant


async def keys_of(store: Store, conversation_id: str) -> dict[str, int]:
    """Every key of the conversation with its time to live in seconds (-1: none)."""
    redis, base = store.backend.cmd, Keys.of(conversation_id).base
    return {str(key)[len(base) :]: int(await redis.ttl(key)) async for key in redis.scan_iter(match=base + "*")}


async def test_closed_conversation_takes_nothing_more(store: Store, conversation_id: str) -> None:
    """Closing fences the owner, voids the offer, takes back the draft and refuses new messages; reading goes on."""
    grant = await busy(store, conversation_id)

    seq = await store.close(conversation_id, by="human:ann")

    with pytest.raises(StaleOwner):
        await store.commit(conversation_id, grant.token, "r2")
    with pytest.raises(ConversationClosed):
        await store.enqueue(conversation_id, "m2", {"text": "hello?"}, start=TRIAGE)
    with pytest.raises(ConversationClosed):
        await store.takeover(conversation_id, "ann", change={})
    with pytest.raises(ConversationClosed):
        await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    last = (await store.read(conversation_id))[-1]
    assert (last.seq, last.type, last.by, last.data) == (seq, "status.changed", "human:ann", {"status": "closed"})
    assert (await store.get(conversation_id)).status == "closed"
    assert conversation_id not in await store.due()
    assert await store.draft(conversation_id) == ("", "")


async def test_closed_conversation_goes_away_together(store: Store, conversation_id: str) -> None:
    """Every key gets the retention time in the same call, those that come later included; none is left for ever."""
    await busy(store, conversation_id)

    await store.close(conversation_id, retention_s=3600)
    await store.advance_cursor(conversation_id, "late", Position(1, 2))

    ttls = await keys_of(store, conversation_id)
    assert {"own", "in", "log", "vars", "tj", "h:triage", "ap:a1", "cur:desk", "cur:late", "runs"} <= ttls.keys()
    assert "xfer" not in ttls
    lasting = {name: ttl for name, ttl in ttls.items() if not name.startswith("i:")}
    assert all(3500 < ttl <= 3600 for ttl in lasting.values()), lasting
    assert all(ttl > 0 for ttl in ttls.values())


async def test_expired_conversation_leaves_the_list(store: Store, conversation_id: str) -> None:
    """When the retention time is over the desk's list does not stumble over it, and forgets it."""
    await granted(store, conversation_id)
    await store.close(conversation_id)
    await store.backend.cmd.delete(*Keys.of(conversation_id).common[:4])  # what expiry does

    assert await store.recent() == []
    assert await store.backend.cmd.zcard(Keys.of(conversation_id).common[5]) == 0


async def test_closing_again_changes_nothing(store: Store, conversation_id: str) -> None:
    """The second call gets the first answer, whoever makes it."""
    await granted(store, conversation_id)
    seq = await store.close(conversation_id)

    assert await store.close(conversation_id, by="human:bob") == seq


async def test_closing_with_a_stale_view_is_refused(store: Store, conversation_id: str) -> None:
    """A stale token or a passed epoch closes nothing; the holder of the token does."""
    grant = await granted(store, conversation_id)

    with pytest.raises(StaleOwner):
        await store.close(conversation_id, token=Token(grant.token.epoch, "f" * 32))
    with pytest.raises(Conflict, match="epoch has moved on"):
        await store.close(conversation_id, expected_epoch=1)
    await store.close(conversation_id, token=grant.token)

    assert (await store.read(conversation_id))[-1].by == "ai:triage"


async def test_forgotten_customer_leaves_nothing_but_a_tombstone(store: Store, conversation_id: str) -> None:
    """All keys are gone, requests included; the tombstone has an end and no word of the customer."""
    await busy(store, conversation_id)

    await store.forget(conversation_id)

    ttls = await keys_of(store, conversation_id)
    assert list(ttls) == ["own"]
    assert ttls["own"] > 300 * 86_400
    stone = await store.backend.cmd.hgetall(Keys.of(conversation_id).own)
    assert "Ada" not in str(stone) and "triage" not in str(stone)
    assert await store.recent() == []
    assert conversation_id not in await store.due()


async def test_late_writes_do_not_bring_a_forgotten_customer_back(store: Store, conversation_id: str) -> None:
    """A worker in the middle of a turn and a widget that resends are refused, and no key appears again."""
    grant = await busy(store, conversation_id)
    await store.forget(conversation_id)

    late = await asyncio.gather(
        store.commit(conversation_id, grant.token, "r1", agent_id="triage", items=[{"n": 1}]),
        store.append(conversation_id, grant.token, "r3", NewEvent("tool.called", {})),
        store.transfer(conversation_id, grant.token, "t1", to=Owner.ai("billing"), change={}),
        store.relay(conversation_id, grant.token, Ephemeral("msg.delta", {}), message_id="m_e", piece="x"),
        store.finish_call(conversation_id, grant.token, "k1", "done"),
        return_exceptions=True,
    )
    again = await asyncio.gather(
        store.enqueue(conversation_id, "m1", {"text": "my name is Ada"}, start=TRIAGE),
        store.claim(conversation_id),
        store.takeover(conversation_id, "ann", change={}),
        store.set_values(conversation_id, "r4", [ValueWrite("name", "Ada")], by="human:ann"),
        store.advance_cursor(conversation_id, "desk", Position(1, 1)),
        store.resume(conversation_id, Position(0, 0)),
        store.close(conversation_id),
        return_exceptions=True,
    )

    assert {type(refusal) for refusal in late} == {StaleOwner}
    assert {type(refusal) for refusal in again} == {ConversationForgotten}
    assert list(await keys_of(store, conversation_id)) == ["own"]
    await store.forget(conversation_id)


async def test_key_that_appears_while_closing_is_not_left_behind(store: Store, conversation_id: str) -> None:
    """The script refuses a list of keys that is not whole, so the caller reads it again."""
    grant = await granted(store, conversation_id)
    keys = Keys.of(conversation_id)
    await store.commit(conversation_id, grant.token, "r1", agent_id="triage", items=[{"n": 1}])

    reply = await store._call("close", keys, [0, "", "", 60, "system", "{}", 0])

    assert reply == ["AGAIN"]
    assert (await store.get(conversation_id)).status == "open"


async def test_values_are_set_outside_a_turn_all_or_none(store: Store, conversation_id: str) -> None:
    """Compare-and-set for the desk: once per request id, and a stale revision sets nothing at all."""
    await granted(store, conversation_id)
    seq, _ = await store.set_values(conversation_id, "r1", [ValueWrite("plan", "gold", 0)], by="human:ann")

    assert await store.set_values(conversation_id, "r1", [ValueWrite("plan", "x", 0)], by="human:ann") == (seq, True)
    with pytest.raises(Conflict, match="value plan has moved on"):
        writes = [ValueWrite("name", "Ada", 0), ValueWrite("plan", "silver", 0)]
        await store.set_values(conversation_id, "r2", writes, by="human:bob")

    assert {key: found.value for key, found in (await store.values(conversation_id)).items()} == {"plan": "gold"}
    last = (await store.read(conversation_id))[-1]
    assert (last.type, last.by, last.data) == ("values.changed", "human:ann", {"keys": ["plan"]})


async def test_turn_that_read_an_older_value_is_refused(store: Store, conversation_id: str) -> None:
    """The desk sets a value while an agent works with the old one: the agent's commit is refused whole."""
    grant = await granted(store, conversation_id)
    await store.set_values(conversation_id, "r1", [ValueWrite("plan", "gold", 0)], by="human:ann")

    with pytest.raises(Conflict, match="value plan"):
        await store.commit(conversation_id, grant.token, "t1", answered=1, values=[ValueWrite("plan", "none", 0)])


async def test_ending_what_never_was_is_said_so(store: Store) -> None:
    """Closing and forgetting an unknown conversation give one clear error."""
    for call in (store.close("c_none"), store.forget("c_none")):
        with pytest.raises(UnknownConversation):
            await call
