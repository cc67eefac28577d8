"""The main check. Every accepted write returns its place in the log, so nothing has to be searched.

Unknown outcomes need no search either: the request is in the log, or it is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.faults.checkers.evidence import Evidence, Record, Violation
from tests.faults.checkers.replay import Replay
from tests.faults.harness.history import UNKNOWN, Operation

DONE = ("ok", "dup")
NEVER = 1 << 63
WRITES = frozenset(
    ("enqueue", "commit", "transfer", "takeover", "client.send", "client.say", "client.take", "client.back")
)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A request that somebody was told is done: its first invocation, its first answer, and its places in the log."""

    request: str
    invoked: int
    returned: int
    first: int
    last: int


def check(evidence: Evidence) -> list[Violation]:
    """All broken promises of a run, conversation by conversation."""
    violations: list[Violation] = []
    for conversation_id, operations in evidence.by_conversation().items():
        record = evidence.records.get(conversation_id)
        if record is None:
            violations += _lost_whole(conversation_id, operations)
            continue
        replay = Replay.run(record)
        violations += replay.violations
        violations += _answers_differ(conversation_id, operations)
        violations += _missing(record, replay, operations)
        violations += _refused_and_done(record, replay, operations)
        violations += _out_of_order(conversation_id, operations)
        violations += _drafts_left(record, replay, operations)
        violations += _waits_for_ever(record)
    return violations


def acknowledged(operations: Iterable[Operation]) -> list[Acknowledged]:
    """Every request that was acknowledged, with all its repetitions as one."""
    groups: dict[str, list[Operation]] = {}
    for number, operation in enumerate(operations):
        if operation.kind in WRITES:
            groups.setdefault(operation.request or f"\x00{number}", []).append(operation)
    return [found for request, group in groups.items() if (found := _merged(request, group))]


def _merged(request: str, group: Sequence[Operation]) -> Acknowledged | None:
    answered = [op for op in group if op.outcome in DONE and op.returned is not None and op.answer.get("ids")]
    if not answered:
        return None
    places = [_place(event_id) for op in answered for event_id in op.answer["ids"]]
    return Acknowledged(
        request=request,
        invoked=min(op.invoked for op in group),
        returned=min(op.returned or NEVER for op in answered),
        first=min(places),
        last=max(places),
    )


def _place(event_id: str) -> int:
    return int(event_id.partition("-")[2])


def _lost_whole(conversation_id: str, operations: Iterable[Operation]) -> list[Violation]:
    lost = [op for op in operations if op.kind in WRITES and op.outcome in DONE]
    text = f"the whole conversation, with {len(lost)} acknowledged writes"
    return [Violation("acknowledged write is lost", conversation_id, text)] if lost else []


def _answers_differ(conversation_id: str, operations: Iterable[Operation]) -> list[Violation]:
    """A repeated request gets the first answer again."""
    first: dict[str, list[str]] = {}
    out = []
    for op in operations:
        if op.request and op.kind in WRITES and op.outcome in DONE:
            ids = first.setdefault(op.request, op.answer["ids"])
            if ids != op.answer["ids"]:
                out.append(
                    Violation(
                        "one request, two answers", conversation_id, f"{op.request}: {ids}, then {op.answer['ids']}"
                    )
                )
    return out


def _missing(record: Record, replay: Replay, operations: Iterable[Operation]) -> list[Violation]:
    """What was acknowledged is in the log, and it is what was asked for."""
    there = {event.id for event in record.events}
    out = []
    for op in operations:
        if op.kind not in WRITES or op.outcome not in DONE:
            continue
        ids = op.answer.get("ids", [])
        lost = [event_id for event_id in ids if event_id not in there]
        if lost:
            text = f"{op.process} was told {lost} for {op.kind} {op.request}"
            out.append(Violation("acknowledged write is lost", record.conversation_id, text))
        elif op.request and replay.places.get(op.request) not in [_place(event_id) for event_id in ids]:
            text = f"{op.request} is at {replay.places.get(op.request)}, {op.process} was told {ids}"
            out.append(Violation("acknowledged write is another", record.conversation_id, text))
    return out


def _refused_and_done(record: Record, replay: Replay, operations: Iterable[Operation]) -> list[Violation]:
    """What was refused, each time that it was asked, did not happen."""
    outcomes: dict[str, set[str]] = {}
    for op in operations:
        if op.request and op.kind in WRITES:
            outcomes.setdefault(op.request, set()).add(op.outcome)
    return [
        Violation("refused write took effect", record.conversation_id, f"{request}: {sorted(said)}", place)
        for request, said in outcomes.items()
        if not said & {*DONE, UNKNOWN} and (place := replay.places.get(request, 0))
    ]


def _out_of_order(conversation_id: str, operations: Sequence[Operation]) -> list[Violation]:
    """Real time: what was answered before something else was asked stands before it; a read shows what is before it."""
    writes = acknowledged(operations)
    by_return = sorted(writes, key=lambda write: write.returned)
    returns = [write.returned for write in by_return]
    highest = _running(max, [write.last for write in by_return])
    out = []
    for write in writes:
        earlier = bisect_left(returns, write.invoked)
        if earlier and highest[earlier - 1] > write.first:
            text = f"{write.request} stands at {write.first}, after {highest[earlier - 1]} was answered"
            out.append(Violation("real-time order is broken", conversation_id, text, write.first))
    by_call = sorted(writes, key=lambda write: write.invoked, reverse=True)
    calls = [-write.invoked for write in by_call]
    lowest = _running(min, [write.first for write in by_call])
    for op in operations:
        if op.kind != "get" or op.outcome != "ok" or op.returned is None:
            continue
        seq = int(op.answer["seq"])
        earlier, later = bisect_left(returns, op.invoked), bisect_right(calls, -op.returned - 1)
        if earlier and highest[earlier - 1] > seq:
            out.append(Violation("read shows the past", conversation_id, f"{seq} after {highest[earlier - 1]}", seq))
        if later and lowest[later - 1] <= seq:
            out.append(Violation("read shows the future", conversation_id, f"{seq} before {lowest[later - 1]}", seq))
    return out


def _running(choose: object, numbers: Sequence[int]) -> list[int]:
    assert choose in (max, min)
    out: list[int] = []
    for number in numbers:
        out.append(number if not out else (max if choose is max else min)(out[-1], number))
    return out


def _drafts_left(record: Record, replay: Replay, operations: Iterable[Operation]) -> list[Violation]:
    """What was shown to the customer piece by piece became a message, or was taken back, or is still being written."""
    shown = {
        op.asked["message"] for op in operations if op.kind == "relay" and op.outcome == "ok" and op.asked["message"]
    }
    settled = replay.created.keys() | replay.retracted.keys() | {record.draft}
    return [Violation("draft was left behind", record.conversation_id, mid) for mid in sorted(shown - settled)]


def _waits_for_ever(record: Record) -> list[Violation]:
    """Liveness: at the end nothing waits for an AI agent (I12)."""
    if record.waiting and record.owner.startswith("ai:"):
        text = f"{len(record.waiting)} messages wait for {record.owner}"
        return [Violation("message waits for ever", record.conversation_id, text, record.waiting[0])]
    return []
