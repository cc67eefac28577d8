"""What a customer may see, where a client may go on, and how much one may do: decisions without I/O."""

from __future__ import annotations

from typing import Any

import pytest

from app.limits import Buckets, Places, TokenBucket
from app.lineage import MAX_REPLAY, Resume, decide_resume, lineage
from app.origins import allowed
from app.outbox import Outbox, SlowClient
from app.public_view import public_ephemeral, public_event, snapshot
from sessions.model import Conversation, Ephemeral, Event, Owner

NOW = 1_796_059_018_723


def name(ref: str) -> str:
    return ref.partition(":")[2].title()


def event(seq: int, type_: str, by: str = "ai:billing", **data: Any) -> Event:
    return Event(seq=seq, epoch=1, type=type_, at=NOW, by=by, data=data)


def change(seq: int, to: str, **data: Any) -> Event:
    return Event(seq, 1, "owner.changed", NOW, "ai:triage", data, owner_from="ai:triage", owner_to=to)


@pytest.mark.parametrize(
    "type_",
    ["handoff.requested", "handoff.refused", "handoff.completed", "tool.called", "turn.failed", "something.new"],
)
def test_internal_events_keep_only_their_number(type_: str) -> None:
    """A hidden event is its seq and nothing else, so that the wire stays gapless."""
    frame = public_event(event(5, type_, reason="angry customer", tool="issue_refund"), name)
    assert frame.model_dump(exclude_none=True) == {"t": "ev", "seq": 5, "e": "hidden"}


def test_a_change_of_owner_shows_names_and_the_sentence_only() -> None:
    """Reason, brief and who decided stay inside."""
    brief = {"goal": "refund", "facts": ["VIP"]}
    found = change(4, "ai:billing", text="You're now talking to Billing.", reason="r", brief=brief, decided_by="model")
    assert public_event(found, name).d == {
        "from": {"kind": "ai", "id": "triage", "name": "Triage"},
        "to": {"kind": "ai", "id": "billing", "name": "Billing"},
        "text": "You're now talking to Billing.",
    }


def test_a_persons_login_is_not_shown() -> None:
    """The customer reads a name; the login stays at the desk, also when the name is not known."""
    frame = public_event(event(3, "msg.created", by="human:ann.lee", id="m_1", text="hi", name="Ann"), name)
    assert frame.by is not None
    assert frame.by.model_dump(exclude_none=True) == {"kind": "human", "name": "Ann"}
    assert "ann.lee" not in public_event(change(4, "human:ann.lee"), name).model_dump_json()


def test_client_ids_are_echoed_for_customers_only() -> None:
    """Own bubbles are matched by cid in every tab; an agent cannot make its message look like one."""
    own = public_event(event(1, "msg.created", by="customer", id="m_1", text="hi", cid="cid-1"), name)
    other = public_event(event(2, "msg.created", id="m_2", text="hi", cid="cid-1"), name)
    assert (own.cid, other.cid) == ("cid-1", None)


def test_the_first_event_carries_the_epoch() -> None:
    """A client that saw the log begin learns what it is called."""
    assert public_event(event(1, "msg.created", by="customer", text="x"), name, lineage="e_1-a").epoch == "e_1-a"
    assert public_event(event(2, "msg.created", by="customer", text="x"), name, lineage="e_1-a").epoch is None


def test_ephemerals_show_no_tools_and_no_unknown_things() -> None:
    """Which tool runs is internal; an unknown kind is not passed on."""
    status = public_ephemeral(Ephemeral("run.status", {"state": "tool", "tool": "issue_refund"}), name)
    assert status is not None
    assert "issue_refund" not in status.model_dump_json()
    assert public_ephemeral(Ephemeral("debug", {"prompt": "secret"}), name) is None


def test_a_customers_own_typing_is_not_sent_back() -> None:
    """The widget shows who else types."""
    assert public_ephemeral(Ephemeral("typing", {"by": {"kind": "customer"}, "on": True}), name) is None


def test_a_snapshot_has_fifty_visible_events_and_where_older_ones_begin() -> None:
    """Hidden events do not use up the room; the rest is named by `before`."""
    events = [event(seq, "tool.called" if seq % 2 else "msg.created", id=f"m_{seq}", text="x") for seq in range(1, 201)]
    conversation = Conversation("c_1", Owner.ai("billing"), epoch=1, seq=200)
    frame = snapshot(conversation, events, [], "epoch", "e_1-a", name)
    assert len(frame.messages) == 50
    assert frame.before == frame.messages[0].seq == 102


CURRENT = lineage(NOW, "0123456789abcdef")


@pytest.mark.parametrize(
    ("epoch", "seq", "top", "expected"),
    [
        (None, 0, 0, Resume(0, 0)),
        ("e_0-x", 0, 0, Resume(0, 0)),
        (CURRENT, 5, 5, Resume(5, 0)),
        (CURRENT, 5, 8, Resume(5, 3)),
        (CURRENT, 9, 8, Resume(8, 0, "ahead")),
        (CURRENT, 0, MAX_REPLAY + 1, Resume(MAX_REPLAY + 1, 0, "too_far")),
        (CURRENT, 1, MAX_REPLAY + 1, Resume(1, MAX_REPLAY)),
        (None, 0, 8, Resume(8, 0, "epoch")),
        ("e_1-01234567", 5, 8, Resume(8, 0, "epoch")),
        (lineage(NOW, "fedcba98"), 5, 8, Resume(8, 0, "epoch")),
        (CURRENT, 41, 0, Resume(0, 0, "ahead")),
    ],
)
def test_resume_is_whole_or_a_snapshot(epoch: str | None, seq: int, top: int, expected: Resume) -> None:
    """A client goes on only inside the same log, from a position that the log has; never with a part missing."""
    assert decide_resume(epoch, seq, current=CURRENT, top=top) == expected


@pytest.mark.parametrize(
    ("origin", "ok"),
    [
        ("https://shop.example", True),
        ("https://SHOP.example", True),
        ("http://desk.example:8000", True),
        ("https://desk.example:8000", True),
        ("http://shop.example", False),
        ("https://shop.example.evil.example", False),
        ("https://evil.example", False),
        ("http://desk.example", False),
        ("null", False),
        (None, False),
        ("", False),
    ],
)
def test_only_named_origins_and_our_own_pages_may_connect(origin: str | None, ok: bool) -> None:
    """Scheme, host and port are compared whole; nothing is a prefix match."""
    assert allowed(origin, "desk.example:8000", "ws", ["https://shop.example"]) is ok


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_ten_messages_at_once_then_one_a_second() -> None:
    """The bucket says how long to wait, and forgets nothing."""
    clock = Clock()
    bucket = TokenBucket(10, 1.0, clock)
    assert [bucket.take() for _ in range(11)] == [0] * 10 + [1000]
    clock.now += 0.5
    assert bucket.take() == 500
    clock.now += 0.5
    assert bucket.take() == 0


def test_buckets_are_apart_and_bounded() -> None:
    """One address does not use up another's; a million addresses do not use up the memory."""
    buckets = Buckets(1, 1.0, keep=2, clock=Clock())
    assert (buckets.take("a"), buckets.take("b"), buckets.take("a")) == (0, 0, 1000)
    buckets.take("c")
    assert len(buckets._buckets) == 2


def test_places_are_given_back() -> None:
    """Closing a window makes room for another one."""
    places = Places(1)
    assert places.enter("v")
    assert not places.enter("v")
    places.leave("v")
    assert places.enter("v")
    assert places.total == 1


async def test_a_slow_client_loses_ephemerals_first() -> None:
    """Pieces of a draft are dropped for events, which arrive in order."""
    outbox = Outbox(max_frames=3)
    outbox.show("d1")
    outbox.show("d2")
    await outbox.deliver("e1")
    outbox.show("d3")
    await outbox.deliver("e2")
    assert [await outbox.take(), await outbox.take()] == ["e1", "e2"]
    assert outbox.dropped == 3


async def test_a_client_that_takes_nothing_is_too_slow() -> None:
    """Events wait for room for a while, and no longer; answers have twice the room."""
    outbox = Outbox(max_frames=2)
    await outbox.deliver("e1")
    await outbox.deliver("e2")
    with pytest.raises(SlowClient):
        await outbox.deliver("e3", wait_s=0.01)
    outbox.answer("a1")
    outbox.answer("a2")
    with pytest.raises(SlowClient):
        outbox.answer("a3")
