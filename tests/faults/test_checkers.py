"""The checkers, checked: a good history passes, and each way in which a promise can break is noticed by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sessions.model import Ephemeral, Event
from tests.faults.checkers import known_order, linear, screens
from tests.faults.checkers.evidence import Evidence, Record
from tests.faults.harness.history import UNKNOWN, Journal, Operation, load
from tests.faults.harness.recorded import TAG

C = "c1"
Change = Callable[[Evidence], Evidence]


def event(seq: int, epoch: int, type_: str, by: str, owners: tuple[str, str] = ("", ""), **data: Any) -> Event:
    return Event(seq, epoch, type_, seq, by, data, *owners)


def piece(message_id: str, offset: int, text: str, agent: str = "triage") -> Ephemeral:
    by = {"kind": "ai", "id": agent, "name": agent}
    return Ephemeral("msg.delta", {"mid": message_id, "off": offset, "d": text, "by": by})


def tag(request: str, epoch: int, count: int = 0, saw: list[int] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"rid": request, "e": epoch, "n": count}
    return found if saw is None else {**found, "saw": saw}


EVENTS = (
    event(1, 10, "msg.created", "customer", id="m1", proof={"rid": "msg:1"}),
    event(2, 11, "msg.created", "ai:triage", id="a1", text="Hello.", proof=tag("turn:11:1", 11, 1, [1])),
    event(3, 11, "msg.created", "customer", id="m2", proof={"rid": "msg:2"}),
    event(4, 12, "handoff.requested", "ai:triage"),
    event(5, 13, "owner.changed", "ai:triage", ("ai:triage", "ai:billing"), proof=tag("turn:12:1", 12, 0, [])),
    event(6, 14, "msg.retracted", "system", id="d1"),
    event(7, 14, "owner.changed", "human:ann", ("ai:billing", "human:ann"), proof={"rid": "take:1"}),
    event(8, 14, "msg.created", "human:ann", id="h1", proof=tag("say:1", 14, 1)),
    event(9, 15, "owner.changed", "human:ann", ("human:ann", "ai:triage"), proof=tag("back:14", 14)),
    event(10, 15, "msg.created", "customer", id="m3", proof={"rid": "msg:3"}),
    event(11, 16, "msg.created", "ai:triage", id="a2", proof=tag("turn:16:1", 16, 1, [10])),
)


def op(at: int, kind: str, request: str = "", outcome: str = "ok", asked: Any = None, **answer: Any) -> Operation:
    """An operation from `at` to `at + 5`."""
    returned = None if outcome == UNKNOWN else at + 5
    return Operation("w1", kind, C, request, at, returned, outcome, asked or {}, answer)


def grant(fence: str, seq: int) -> dict[str, Any]:
    return {"fence": fence, "seq": seq}


OPERATIONS = (
    op(10, "client.send", "msg:1", ids=["10-1"]),
    op(11, "enqueue", "msg:1", asked={"claim": True}, ids=["10-1"], **grant("f11", 1)),
    op(20, "relay", asked={"fence": "f11", "message": "a1"}),
    op(25, "renew", asked={"fence": "f11"}),
    op(30, "commit", "turn:11:1", asked={"fence": "f11", "answered": 1, "events": 1}, ids=["11-2"], seq=2),
    op(40, "enqueue", "msg:2", asked={"claim": True}, ids=["11-3"], **grant("f12", 3)),
    op(50, "claim", outcome="busy", asked={"fence": "x"}),
    op(
        60,
        "transfer",
        "turn:12:1",
        asked={"fence": "f12", "to": "ai:billing", "go_on": True, "answered": 0, "events": 2},
        ids=["12-4", "13-5"],
        seq=5,
        fence="f13",
    ),
    op(70, "relay", asked={"fence": "f13", "message": "d1"}),
    op(80, "takeover", "take:1", asked={"person": "ann"}, ids=["14-7"], previous="ai:billing", **grant("f14", 7)),
    op(86, "get", owner="human:ann", seq=7),
    op(87, "commit", "turn:13:2", "stale", asked={"fence": "f13", "answered": 1, "events": 1}),
    op(90, "commit", "say:1", asked={"fence": "f14", "answered": 1, "events": 1}, ids=["14-8"], seq=8),
    op(
        100,
        "transfer",
        "back:14",
        asked={"fence": "f14", "to": "ai:triage", "go_on": False, "answered": 0, "events": 1},
        ids=["15-9"],
        seq=9,
        fence="",
    ),
    op(110, "enqueue", "msg:3", asked={"claim": False}, ids=["15-10"]),
    op(120, "claim", asked={"fence": "f16"}, owner="ai:triage", **grant("f16", 10)),
    op(130, "commit", "turn:16:1", asked={"fence": "f16", "answered": 1, "events": 1}, ids=["16-11"], seq=11),
)
RECORD = Record(C, "ai:triage", "ai:triage", 16, 11, "", (), EVENTS)
GOOD = Evidence(OPERATIONS, {C: RECORD})


def kinds(evidence: Evidence) -> set[str]:
    return {violation.kind for violation in known_order.check(evidence)}


def verdict(evidence: Evidence) -> bool | None:
    return linear.check(evidence)[0].linear


def with_event(seq: int, *, data: dict[str, Any] | None = None, **changes: Any) -> Change:
    """The same history with one event changed; `data` is added to what it has."""

    def change(evidence: Evidence) -> Evidence:
        record = evidence.records[C]
        merged = record.events[seq - 1].data | (data or {})
        changed = replace(record.events[seq - 1], data=merged, **changes)
        events = (*record.events[: seq - 1], changed, *record.events[seq:])
        return replace(evidence, records={C: replace(record, events=events)})

    return change


def with_record(**changes: Any) -> Change:
    return lambda evidence: replace(evidence, records={C: replace(evidence.records[C], **changes)})


def with_op(
    index: int, *, asked: dict[str, Any] | None = None, answer: dict[str, Any] | None = None, **changes: Any
) -> Change:
    """The same history with one operation changed; `answer` and `asked` are added to what it has."""

    def change(evidence: Evidence) -> Evidence:
        old = evidence.operations[index]
        operations = list(evidence.operations)
        operations[index] = replace(old, asked=old.asked | (asked or {}), answer=old.answer | (answer or {}), **changes)
        return replace(evidence, operations=tuple(operations))

    return change


def and_op(extra: Operation) -> Change:
    return lambda evidence: replace(evidence, operations=(*evidence.operations, extra))


def index(request: str) -> int:
    return next(
        n
        for n, operation in enumerate(OPERATIONS)
        if operation.request == request and not operation.kind.startswith("client")
    )


BAD: dict[str, tuple[Change, str]] = {
    "an event is missing": (with_record(events=(*EVENTS[:3], *EVENTS[4:])), "gap in the log"),
    "the epoch falls": (with_event(11, epoch=9), "epoch went back"),
    "a change of owner starts from somebody else": (with_event(7, owner_from="ai:triage"), "owner chain is broken"),
    "a takeover keeps the epoch": (
        lambda e: with_event(6, epoch=13)(with_event(7, epoch=13)(e)),
        "owner changed in the same epoch",
    ),
    "an agent speaks after a takeover": (with_event(8, by="ai:billing"), "spoke without owning"),
    "a person speaks after handing back": (with_event(11, by="human:ann"), "spoke without owning"),
    "a customer's message is stored twice": (with_event(10, data={"id": "m1"}), "message is there twice"),
    "a request takes effect twice": (
        with_event(11, data={TAG: tag("turn:11:1", 16, 1, [10])}),
        "request took effect twice",
    ),
    "a message is answered twice": (with_event(11, data={TAG: tag("turn:16:1", 16, 1, [1])}), "message answered twice"),
    "a turn answers what does not wait": (
        with_event(2, data={TAG: tag("turn:11:1", 11, 2, [1, 9])}),
        "answered what does not wait",
    ),
    "a stale token commits": (with_event(11, data={TAG: tag("turn:16:1", 13, 1, [10])}), "stale token was accepted"),
    "a stale token transfers": (with_event(5, data={TAG: tag("turn:12:1", 9, 0, [])}), "stale token was accepted"),
    "a retracted draft becomes a message": (with_event(8, data={"id": "d1"}), "retracted draft became a message"),
    "a message is taken back": (with_event(6, data={"id": "a1"}), "message was taken back"),
    "the owner record is another": (with_record(owner="ai:orders"), "record differs from the log"),
    "the seq record is another": (with_record(seq=12), "record differs from the log"),
    "the inbox forgot a message": (
        lambda e: with_record(waiting=())(with_event(11, data={TAG: tag("turn:16:1", 16, 0, [])})(e)),
        "record differs from the log",
    ),
    "a message waits for an agent for ever": (
        lambda e: with_record(waiting=(10,))(with_event(11, data={TAG: tag("turn:16:1", 16, 0, [])})(e)),
        "message waits for ever",
    ),
    "an acknowledged message is lost": (
        with_op(index("msg:3"), answer={"ids": ["15-99"]}),
        "acknowledged write is lost",
    ),
    "an acknowledged conversation is lost": (lambda e: replace(e, records={}), "acknowledged write is lost"),
    "an acknowledged write is another one": (
        with_op(index("turn:16:1"), answer={"ids": ["15-10"]}),
        "acknowledged write is another",
    ),
    "one request gets two answers": (
        and_op(op(140, "commit", "say:1", "dup", ids=["16-11"])),
        "one request, two answers",
    ),
    "a refused write took effect": (
        with_op(index("turn:16:1"), outcome="refused", answer={"ids": []}),
        "refused write took effect",
    ),
    "a later request stands before an earlier one": (
        with_op(index("msg:3"), invoked=1, returned=2),
        "real-time order is broken",
    ),
    "a read does not see what is done": (with_op(10, answer={"seq": 5}), "read shows the past"),
    "a read sees what nobody has asked for": (with_op(10, answer={"seq": 11}), "read shows the future"),
    "a draft is left behind": (
        and_op(op(140, "relay", asked={"fence": "f16", "message": "lost"})),
        "draft was left behind",
    ),
}


def test_good_history_has_no_violation() -> None:
    """Both checkers accept a history in which every promise was kept."""
    assert known_order.check(GOOD) == []
    assert verdict(GOOD) is True


@pytest.mark.parametrize(("change", "kind"), BAD.values(), ids=BAD.keys())
def test_bad_history_is_caught_by_the_known_order(change: Change, kind: str) -> None:
    """One broken promise in an otherwise good history is reported, under its own name."""
    assert kind in kinds(change(GOOD))


NOT_LINEAR: dict[str, Change] = {
    "a stale token commits": with_op(11, outcome="ok", returned=92, answer={"ids": ["14-8"], "seq": 8}),
    "a token is called stale while it holds": with_op(index("say:1"), outcome="stale"),
    "two places for one seq": with_op(index("msg:3"), answer={"ids": ["15-9"]}),
    "a claim while another worker's grant is used later": lambda e: replace(
        e, operations=(*e.operations[:4], op(26, "claim", asked={"fence": "f9"}, seq=1), *e.operations[4:])
    ),
    "a claim while a person owns": and_op(op(88, "claim", asked={"fence": "f9"}, seq=7)),
    "a claim of nothing": and_op(op(140, "claim", asked={"fence": "f9"}, seq=11)),
    "idle while a message waits": and_op(op(116, "claim", outcome="idle", asked={"fence": "f9"})),
    "busy while nobody works": and_op(op(114, "claim", outcome="busy", asked={"fence": "f9"})),
    "a takeover from somebody who did not own": with_op(index("take:1"), answer={"previous": "ai:orders"}),
    "a read of a past owner": with_op(10, answer={"owner": "ai:billing"}),
    "a piece shown after the takeover": with_op(8, invoked=86, returned=89),
    "a renewal after the takeover": and_op(op(87, "renew", asked={"fence": "f13"})),
    "an order against real time": with_op(index("msg:3"), invoked=1, returned=2),
    "an answer to more than waits": with_op(index("turn:16:1"), asked={"answered": 2}),
}


@pytest.mark.parametrize("change", NOT_LINEAR.values(), ids=NOT_LINEAR.keys())
def test_bad_history_has_no_linear_order(change: Change) -> None:
    """The search finds no order that explains an impossible answer."""
    assert verdict(change(GOOD)) is False


SHOWN: tuple[Event | Ephemeral, ...] = (
    EVENTS[0],
    piece("a1", 0, "Hel"),
    piece("a1", 3, "lo"),
    *EVENTS[1:5],
    piece("d1", 0, "I thi", "billing"),
    *EVENTS[5:],
)
WATCHED = replace(GOOD, screens={C: SHOWN})
BAD_SCREENS: dict[str, tuple[tuple[Event | Ephemeral, ...], str]] = {
    "an event is missing in the middle": ((*SHOWN[:4], *SHOWN[5:]), "screen shows another log"),
    "the last event never comes": (SHOWN[:-1], "screen misses events"),
    "an event comes twice": ((*SHOWN[:4], SHOWN[3], *SHOWN[4:]), "screen shows another log"),
    "a piece follows its whole message": ((*SHOWN[:4], piece("a1", 5, "!"), *SHOWN[4:]), "stray piece on a screen"),
    "an agent that does not own begins to write": ((*SHOWN, piece("x", 0, "Me", "orders")), "stray piece on a screen"),
    "a piece follows a takeover": ((*SHOWN, piece("d1", 5, "nk")), "stray piece on a screen"),
    "a message is not what was streamed": (
        (*SHOWN[:1], piece("a1", 0, "Bye"), *SHOWN[3:]),
        "message differs from its draft",
    ),
}


def test_good_screen_has_no_violation() -> None:
    """A screen that shows the log, with the pieces of each draft before its end, is accepted."""
    assert screens.check(WATCHED) == []


@pytest.mark.parametrize(("shown", "kind"), BAD_SCREENS.values(), ids=BAD_SCREENS.keys())
def test_bad_screen_is_caught(shown: tuple[Event | Ephemeral, ...], kind: str) -> None:
    """What a customer must never be shown is reported by name."""
    assert kind in {violation.kind for violation in screens.check(replace(GOOD, screens={C: shown}))}


def test_unknown_outcome_may_have_happened_or_not() -> None:
    """A lost reply is explained both ways: the later answers say which one it was."""
    lost = with_op(index("turn:16:1"), outcome=UNKNOWN, returned=None, answer={"ids": [], "seq": None})(GOOD)
    done = and_op(op(140, "get", owner="ai:triage", seq=11))(lost)
    not_done = and_op(op(140, "get", owner="ai:triage", seq=10))(lost)

    assert [verdict(lost), verdict(done), verdict(not_done)] == [True, True, True]
    assert verdict(and_op(op(140, "get", owner="ai:triage", seq=12))(lost)) is False


def test_lost_reply_and_its_repetition_are_one_request() -> None:
    """A request that took effect at its first, unanswered attempt is not out of order when it is answered later."""
    number = index("msg:3")
    early = with_op(number, outcome=UNKNOWN, returned=None, answer={"ids": []})(GOOD)
    again = and_op(op(140, "enqueue", "msg:3", "dup", asked={"claim": False}, ids=["15-10"]))(early)

    assert known_order.check(again) == []
    assert verdict(again) is True


def test_turn_that_was_granted_with_a_lost_reply_is_possible() -> None:
    """The first attempt of a message got the turn and its reply was lost; the repetition, which asked for none, is told
    that the message is there. Whoever worked before was fenced by a grant that nobody knows of."""
    before = replace(GOOD, operations=GOOD.operations[:7])  # f12 works on message 2
    lost = op(50, "enqueue", "msg:9", UNKNOWN, asked={"claim": True})
    again = op(60, "enqueue", "msg:9", "dup", asked={"claim": False}, ids=["12-4"])
    fenced = op(70, "renew", outcome="stale", asked={"fence": "f12"})

    assert verdict(replace(before, operations=(*before.operations, lost, again, fenced))) is True


def test_repetition_may_differ_from_the_attempt_that_took_effect() -> None:
    """A person's answer took effect with one message waiting, and its repetition, which saw none, is told so."""
    number = index("say:1")
    lost = with_op(number, outcome=UNKNOWN, returned=None, answer={"ids": [], "seq": None})(GOOD)
    again = op(96, "commit", "say:1", "dup", asked={"fence": "f14", "answered": 0, "events": 1}, ids=["14-8"], seq=8)
    idle = op(116, "claim", outcome="idle", asked={"fence": "f9"})
    before = replace(lost, operations=(*lost.operations[: number + 1], again, lost.operations[number + 1]))

    assert verdict(before) is True
    assert verdict(and_op(replace(idle, invoked=106, returned=108))(before)) is True


def test_search_gives_up_instead_of_running_for_ever() -> None:
    """Past its limit the search has no verdict."""
    assert linear.check(GOOD, limit=3)[0].linear is None


def test_killed_process_leaves_operations_without_an_outcome(tmp_path: Any) -> None:
    """What was begun and never ended is unknown; a line that was cut off in the middle is left out."""
    journal = Journal(tmp_path / "w1.jsonl", "w1")
    first = journal.begin("enqueue", C, "msg:1")
    journal.end(first, "ok", ids=["1-1"])
    journal.begin("commit", C, "turn:1:1")
    journal.close()
    with (tmp_path / "w1.jsonl").open("a") as file:
        file.write('{"n": 3, "kind": "comm')

    done, open_ = load([tmp_path / "w1.jsonl"])

    assert (done.outcome, done.answer, open_.outcome, open_.returned) == ("ok", {"ids": ["1-1"]}, UNKNOWN, None)
