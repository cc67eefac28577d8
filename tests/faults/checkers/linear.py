"""The second check: is there an order of all operations, true to real time, in which each could answer what it did?

Search after Wing and Gong, with the memory of visited states of Lowe ("Testing for linearizability", 2017). It does not
look into the log: the only evidence is what callers saw. Operations without an answer may have happened at any later
time, or never, so long runs with many faults can exceed the limit: then there is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.faults.checkers.evidence import Evidence
from tests.faults.harness.history import UNKNOWN, Operation

LIMIT = 300_000  # states per conversation: some seconds
STEPS = 3  # records of a handoff beside `owner.changed`: requested, accepted, completed
NEVER = float("inf")
DECISIVE = ("ok", "dup", UNKNOWN)  # of a request that may be repeated; the outcomes of others are their rules'
QUEUE = "queue:support"  # where the desk of the harness sends conversations whose turn never ends


class State(NamedTuple):
    """One conversation, as far as the answers depend on it. None stands for: there is no conversation."""

    owner: str
    fence: str  # of the token that may write; empty: nobody's
    seq: int
    waiting: int
    draft: str


Next = Callable[["State | None"], Sequence["State | None"]]


@dataclass(frozen=True, slots=True)
class Step:
    """An operation for the search: when it was asked, when answered (NEVER: unknown), and what it does to a state."""

    invoked: float
    returned: float
    apply: Next
    name: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`linear` is None when the search gave up, or met an operation that it has no rule for."""

    conversation_id: str
    linear: bool | None
    steps: int
    states: int


def check(evidence: Evidence, limit: int = LIMIT) -> list[Verdict]:
    """One verdict per conversation."""
    out = []
    for conversation_id, operations in evidence.by_conversation().items():
        record = evidence.records.get(conversation_id)
        steps = steps_of(operations, record.start if record else "")
        linear, states = search(steps, limit)
        out.append(Verdict(conversation_id, linear, len(steps), states))
    return out


def search(steps: Iterable[Step], limit: int = LIMIT) -> tuple[bool | None, int]:
    """Whether an order exists (None: more than `limit` states), and how many states were looked at."""
    ordered = sorted(steps, key=lambda step: step.invoked)
    seen: set[tuple[int, frozenset[int], State | None]] = set()
    stack: list[tuple[int, frozenset[int], State | None]] = [(0, frozenset(), None)]
    looked = 0
    while stack:
        base, done, state = stack.pop()
        looked += 1
        if looked > limit:
            return None, looked
        candidates, finished = _candidates(ordered, base, done)
        if finished:
            return True, looked
        for index in reversed(candidates):
            for after in ordered[index].apply(state):
                key = (*_advance(base, done | {index}), after)
                if key not in seen:
                    seen.add(key)
                    stack.append(key)
    return False, looked


def _candidates(steps: Sequence[Step], base: int, done: frozenset[int]) -> tuple[list[int], bool]:
    """Steps that may come next: asked before any open one was answered. True when only optional ones are left."""
    found, open_until, finished = [], NEVER, True
    for index in range(base, len(steps)):
        if index in done:
            continue
        step = steps[index]
        if step.invoked > open_until:
            break
        found.append(index)
        open_until = min(open_until, step.returned)
        finished = finished and step.returned == NEVER
    return found, finished


def _advance(base: int, done: frozenset[int]) -> tuple[int, frozenset[int]]:
    """Every step below the base is done; only those above it need remembering."""
    while base in done:
        done -= {base}
        base += 1
    return base, done


# -- what each operation does --------------------------------------------------------------------------------------


def steps_of(operations: Iterable[Operation], start: str) -> list[Step]:
    """The steps of one conversation. Repetitions of a request are one step; what cannot change anything is left out."""
    out = []
    for group in _requests(operations):
        if group[0].kind not in RULES:
            continue
        out += [step for each in group if each.outcome not in DECISIVE and (step := _step(each, start))]
        decisive = next((op for outcome in DECISIVE for op in group if op.outcome == outcome), None)
        if decisive is not None and (step := _step_of_request(decisive, group, start)):
            out.append(step)
    return out


def _step(op: Operation, start: str) -> Step | None:
    apply = RULES[op.kind](op, start) if op.outcome != "refused" else None
    returned = NEVER if op.outcome == UNKNOWN or op.returned is None else op.returned
    return Step(op.invoked, returned, apply, f"{op.kind} {op.request} {op.outcome}") if apply else None


def _step_of_request(op: Operation, group: Sequence[Operation], start: str) -> Step | None:
    """What became of a request, told by its decisive attempt: one that did it, else one told so, else a lost one.

    If that one did not do it itself, one of the lost attempts did, with its own arguments: a person who repeats an
    answer may see fewer messages waiting by then, and a gateway may ask for no turn where the first one did.
    """
    step = _step(op, start)
    if step is None or op.outcome == "ok":
        return step
    lost = [each for each in group if each.outcome == UNKNOWN]
    rules = [RULES[op.kind](replace(op, asked=each.asked), start) for each in (op, *lost)]

    def apply(state: State | None) -> Sequence[State | None]:
        return list(dict.fromkeys(after for rule in rules if rule for after in rule(state)))

    return replace(step, invoked=min(each.invoked for each in group), apply=apply)


def _requests(operations: Iterable[Operation]) -> list[list[Operation]]:
    groups: dict[str, list[Operation]] = {}
    for number, op in enumerate(operations):
        groups.setdefault(f"{op.kind} {op.request}" if op.request else f"\x00{number}", []).append(op)
    return list(groups.values())


def _retracted(state: State) -> State:
    """A draft that is left gets an event of its own."""
    return state._replace(seq=state.seq + 1, draft="") if state.draft else state


def _granted(state: State, fence: str) -> State:
    return _retracted(state)._replace(fence=fence)


def _sees(op: Operation, state: State) -> bool:
    """The answer's seq, when there is one, must be the state's."""
    return op.answer.get("seq") in (None, state.seq)


def _if(condition: bool, *states: State | None) -> Sequence[State | None]:
    return states if condition else ()


def _enqueue(op: Operation, start: str) -> Next | None:
    if op.outcome not in ("ok", "dup", UNKNOWN):
        return lambda state: (state,)
    place = int(op.answer["ids"][0].partition("-")[2]) if op.answer.get("ids") else None

    def apply(state: State | None) -> Sequence[State | None]:
        stored = state or State(start, "", 0, 0, "")
        stored = stored._replace(seq=stored.seq + 1, waiting=stored.waiting + 1)
        if place not in (None, stored.seq):
            return ()
        granted = _granted(stored, op.answer.get("fence") or f"?{op.invoked}")
        if op.outcome != UNKNOWN and not (op.outcome == "dup" and op.asked["claim"]):
            wanted = bool(op.answer.get("fence"))
            return _if(not wanted or (_ai(granted) and _sees(op, granted)), granted if wanted else stored)
        return (
            (stored, granted) if op.asked["claim"] and _ai(stored) else (stored,)
        )  # the grant may be lost with the reply

    return apply


def _claim(op: Operation, start: str) -> Next | None:
    def apply(state: State | None) -> Sequence[State | None]:
        if state is None:
            return _if(op.outcome == "UnknownConversation", state)
        match op.outcome:
            case "ok" | "unknown":
                granted = _granted(state, op.asked["fence"])
                return _if(_ai(state) and state.waiting > 0 and _sees(op, granted), granted)
            case "busy":
                return _if(_ai(state) and state.fence != "", state)
            case "idle":
                return _if(_ai(state) and state.waiting == 0, state)
            case "not_ai":
                return _if(not _ai(state) and state.owner == op.answer["owner"], state)
        return (state,)

    return apply


def _ai(state: State) -> bool:
    return state.owner.startswith("ai:")


def _under_token(op: Operation, change: Callable[[State], State]) -> Next:
    """What needs the token: done if the state's fence is the operation's, refused as stale if it is not."""

    def apply(state: State | None) -> Sequence[State | None]:
        holds = state is not None and state.fence == op.asked["fence"] != ""
        if op.outcome == "stale":
            return _if(not holds, state)
        if op.outcome == "conflict":
            return _if(holds, state)
        if state is None or not holds:
            return ()
        after = change(state)
        return _if(_sees(op, after), after)

    return apply


def _renew(op: Operation, start: str) -> Next | None:
    return None if op.outcome == UNKNOWN else _under_token(op, lambda state: state)


def _release(op: Operation, start: str) -> Next | None:
    return _under_token(op, lambda state: _retracted(state)._replace(fence=""))


def _relay(op: Operation, start: str) -> Next | None:
    message = op.asked["message"]

    def show(state: State) -> State:
        return state if message in ("", state.draft) else _retracted(state)._replace(draft=message)

    return _under_token(op, show)


def _commit(op: Operation, start: str) -> Next | None:
    def write(state: State) -> State:
        waiting = state.waiting - op.asked["answered"]
        fence = "" if _ai(state) and waiting == 0 else state.fence
        return State(state.owner, fence, state.seq + op.asked["events"], waiting, "")

    return _enough(op, _under_token(op, write))


def _transfer(op: Operation, start: str) -> Next | None:
    fence = op.answer["fence"] if "fence" in op.answer else (f"?{op.invoked}" if op.asked["go_on"] else "")

    def write(state: State) -> State:
        return State(op.asked["to"], fence, state.seq + op.asked["events"], state.waiting - op.asked["answered"], "")

    return _enough(op, _under_token(op, write if op.outcome != "stale" else lambda state: state))


def _enough(op: Operation, apply: Next) -> Next:
    """Only messages that wait can be answered."""

    def checked(state: State | None) -> Sequence[State | None]:
        return [after for after in apply(state) if after is None or after.waiting >= 0]

    return checked


def _takeover(op: Operation, start: str) -> Next | None:
    person = f"human:{op.asked['person']}"

    def apply(state: State | None) -> Sequence[State | None]:
        if state is None:
            return _if(op.outcome == "UnknownConversation", state)
        if op.outcome == "busy":
            return _if(state.owner.startswith("human:") and state.owner not in ("", person), state)
        if op.outcome not in ("ok", UNKNOWN):
            return (state,)
        before = _retracted(state)
        records = STEPS if op.asked.get("records") and state.owner != person else 0
        fence = op.answer.get("fence", f"?{op.invoked}")
        after = before._replace(owner=person, fence=fence, seq=before.seq + 1 + records)
        return _if(op.answer.get("previous") in (None, state.owner) and _sees(op, after), after)

    return apply


def _attend(op: Operation, start: str) -> Next | None:
    """The sweep settles what ran out: it moves hopeless turns, and what people left who are not heard of any more."""

    def apply(state: State | None) -> Sequence[State | None]:
        if state is None:
            return _if(op.outcome == "nothing", state)
        before = _retracted(state)
        records = STEPS if op.asked.get("records") else 0
        moved = before._replace(owner=QUEUE, fence="", seq=before.seq + 1 + records)
        match op.outcome:
            case "ready":
                return _if(_ai(state) and state.waiting > 0, state)
            case "moved" | "unknown":
                return _if((_ai(state) and state.waiting > 0) or state.owner.startswith("human:"), moved)
            case "live":
                return _if(state.fence != "", state)
        return (state,)

    return apply


def _get(op: Operation, start: str) -> Next | None:
    if op.outcome == UNKNOWN:
        return None

    def apply(state: State | None) -> Sequence[State | None]:
        if state is None:
            return _if(op.outcome == "UnknownConversation", state)
        return _if(op.outcome == "ok" and op.answer["owner"] == state.owner and op.answer["seq"] == state.seq, state)

    return apply


Rule = Callable[[Operation, str], "Next | None"]
RULES: dict[str, Rule] = {
    "enqueue": _enqueue,
    "claim": _claim,
    "renew": _renew,
    "release": _release,
    "relay": _relay,
    "commit": _commit,
    "transfer": _transfer,
    "takeover": _takeover,
    "attend": _attend,
    "get": _get,
}


def summary(verdicts: Iterable[Verdict]) -> str:
    """One line: how many conversations are linearizable, are not, or could not be decided."""
    found = list(verdicts)
    good, bad = sum(v.linear is True for v in found), sum(v.linear is False for v in found)
    most = max((v.states for v in found), default=0)
    unclear = len(found) - good - bad
    return f"{good} of {len(found)} conversations linearizable, {bad} not, {unclear} undecided (most states: {most})"
