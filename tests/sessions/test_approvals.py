"""Approvals over a real Valkey: asked once, decided once, used once, by the owner who asked, for these arguments."""

from __future__ import annotations

import pytest

from sessions.approvals import arguments_hash
from sessions.errors import ApprovalUsed, ApprovalVoid, Conflict, StaleOwner, UnknownApproval
from sessions.keys import Keys
from sessions.model import Approval, Owner, Token, What
from sessions.store import Store
from tests.sessions.test_store import granted

REFUND = arguments_hash("refund", {"order": "A-1", "amount": 20})
HOUR_MS = 3_600_000


async def asked(store: Store, conversation_id: str, *, default: str = "refused") -> Token:
    """A conversation in which triage has asked `a1` and waits."""
    grant = await granted(store, conversation_id)
    await ask(store, conversation_id, grant.token, default=default)
    return grant.token


async def ask(
    store: Store, conversation_id: str, token: Token, *, default: str = "refused", rebind: bool = False
) -> Approval:
    return await store.ask_approval(
        conversation_id,
        token,
        "a1",
        arguments=REFUND,
        call={"tool": "refund"},
        valid_ms=HOUR_MS,
        default="granted" if default == "granted" else "refused",
        rebind=rebind,
    )


async def use(store: Store, conversation_id: str, token: Token, *, arguments: str = REFUND, by: str = "u1") -> Approval:
    return await store.use_approval(conversation_id, token, "a1", arguments=arguments, use=by)


def test_hash_knows_the_tool_and_its_arguments_not_their_order() -> None:
    """The same call is the same call however it is written; another amount is another call."""
    assert arguments_hash("refund", {"amount": 20, "order": "A-1"}) == REFUND
    assert arguments_hash("refund", {"amount": 21, "order": "A-1"}) != REFUND
    assert arguments_hash("cancel", {"amount": 20, "order": "A-1"}) != REFUND


async def test_decision_wakes_the_turn_up_and_is_used_once(store: Store, conversation_id: str) -> None:
    """After the turn ended without an answer, a decision makes the conversation claimable; the call runs once."""
    token = await asked(store, conversation_id)
    await store.commit(conversation_id, token, "r1", answered=1)
    assert conversation_id not in await store.due()

    decided = await store.decide_approval(conversation_id, "a1", "granted", by="human:ann", note="fine")
    assert conversation_id in await store.due()
    grant = await store.claim(conversation_id)
    used = await use(store, conversation_id, grant.token)

    assert (decided.state, decided.by, decided.duplicate) == ("granted", "human:ann", False)
    assert grant.conversation.woken == ("a1",)
    assert used.state == "used"
    with pytest.raises(ApprovalUsed, match="was used for u1"):
        await use(store, conversation_id, grant.token, by="u2")
    await store.commit(conversation_id, grant.token, "r2")
    assert conversation_id not in await store.due()


async def test_second_decision_gets_the_first_answer(store: Store, conversation_id: str) -> None:
    """Two people decide: the second one reads what the first one decided, and nothing changes."""
    await asked(store, conversation_id)
    await store.decide_approval(conversation_id, "a1", "refused", by="human:ann", note="no")

    second = await store.decide_approval(conversation_id, "a1", "granted", by="human:bob")

    assert (second.state, second.by, second.note, second.duplicate) == ("refused", "human:ann", "no", True)


async def test_use_before_the_decision_and_after_a_refusal_runs_nothing(store: Store, conversation_id: str) -> None:
    """The state says what to do: asked means wait, refused means no."""
    token = await asked(store, conversation_id)
    assert (await use(store, conversation_id, token)).state == "asked"

    await store.decide_approval(conversation_id, "a1", "refused", by="human:ann")

    assert (await use(store, conversation_id, token)).state == "refused"


async def test_approval_is_for_its_arguments(store: Store, conversation_id: str) -> None:
    """A granted refund of 20 does not refund 21, and the same id cannot ask for another call."""
    token = await asked(store, conversation_id)
    await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    other = arguments_hash("refund", {"order": "A-1", "amount": 21})

    with pytest.raises(Conflict, match="arguments has moved on"):
        await use(store, conversation_id, token, arguments=other)
    with pytest.raises(Conflict, match="arguments has moved on"):
        await store.ask_approval(conversation_id, token, "a1", arguments=other, call={}, valid_ms=1)


async def test_asking_again_asks_once(store: Store, conversation_id: str) -> None:
    """A turn that runs again asks under the same id and gets what became of it; people are asked once."""
    token = await asked(store, conversation_id)
    await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")

    again = await ask(store, conversation_id, token)

    assert (again.state, again.duplicate) == ("granted", True)
    types = [event.type for event in await store.read(conversation_id, 1)]
    assert types == ["approval.asked", "approval.decided"]


async def test_same_use_again_goes_on_after_a_crash(store: Store, conversation_id: str) -> None:
    """A worker that died between the approval and the call: the next one, with the same use, may make the call."""
    token = await asked(store, conversation_id)
    await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    await use(store, conversation_id, token)
    await store.backend.cmd.hset(Keys.of(conversation_id).own, "lease", 1)
    grant = await store.claim(conversation_id)

    assert (await use(store, conversation_id, grant.token)).state == "used"
    with pytest.raises(StaleOwner):
        await use(store, conversation_id, token)


async def test_approval_is_void_when_somebody_else_owned_meanwhile(store: Store, conversation_id: str) -> None:
    """A person took over: nobody decides or uses it, until the agent owns again and binds it again."""
    token = await asked(store, conversation_id)
    await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    taken = await store.takeover(conversation_id, "ann", change={})
    (seen,) = await store.approvals(conversation_id)
    back = await store.transfer(conversation_id, taken.token, "t1", to=Owner.ai("triage"), change={}, go_on=True)

    with pytest.raises(StaleOwner):
        await use(store, conversation_id, token)
    with pytest.raises(ApprovalVoid):
        await use(store, conversation_id, back.token)
    rebound = await ask(store, conversation_id, back.token, rebind=True)

    assert seen.void and not rebound.void
    assert (await use(store, conversation_id, back.token)).state == "used"


async def test_default_counts_when_nobody_decides_in_time(store: Store, conversation_id: str) -> None:
    """The sweep applies the default; a decision that comes after the deadline gets the default as well."""
    await asked(store, conversation_id, default="granted")
    keys = Keys.of(conversation_id)
    await store.backend.cmd.hset(keys.own, "asks", "a1=1 ")
    await store.backend.cmd.hset(keys.approval("a1"), "deadline", 1)

    late = await store.decide_approval(conversation_id, "a1", "refused", by="human:ann")

    assert (late.state, late.by, late.duplicate) == ("granted", "system", False)


async def test_sweep_applies_the_default(store: Store, conversation_id: str) -> None:
    """Without anybody, `attend` decides what was said when it was asked, and says so."""
    await asked(store, conversation_id)
    keys = Keys.of(conversation_id)
    await store.backend.cmd.hset(keys.own, "asks", "a1=1 ")
    await store.backend.cmd.hset(keys.approval("a1"), "deadline", 1)

    found = await store.attend(conversation_id)

    assert (found.what, found.why) == (What.APPROVAL_EXPIRED, "a1")
    assert [(a.state, a.by) for a in await store.approvals(conversation_id)] == [("refused", "system")]


async def test_unknown_approval_is_said_so(store: Store, conversation_id: str) -> None:
    """Deciding or using what nobody asked gives one clear error."""
    grant = await granted(store, conversation_id)

    with pytest.raises(UnknownApproval, match="has no approval 'a1'"):
        await store.decide_approval(conversation_id, "a1", "granted", by="human:ann")
    with pytest.raises(UnknownApproval):
        await use(store, conversation_id, grant.token)
