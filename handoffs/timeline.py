"""Who owned a conversation, one stay after the other, told from its log alone. Plain data in, plain data out.

The log may have lost its oldest events (`log_keep`); then the first tenure begins where the log begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handoffs.record import RunRecord, usage_of
from handoffs.roster import HUMAN
from sessions.model import Conversation, Event

FIRST = "the conversation began here"
UNKNOWN = "older than what the log still has"


@dataclass(frozen=True, slots=True)
class Usage:
    """What one part of a run cost. `run` is the epoch of the claim that began the run, `owner` who ran in this part."""

    owner: str
    run: int
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Spent:
    """The sum over the parts of runs in one tenure. `seconds` is the time that they took, not how long it owned."""

    runs: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    def add(self, usage: Usage) -> None:
        """One more run."""
        self.runs += 1
        self.model_calls += usage.model_calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.seconds += usage.seconds


@dataclass(slots=True)
class Tenure:
    """One stay of one owner. `since` and `until` are ms; `until` None: still the owner.

    `seed` are the texts and `values` the names of the shared values that it was shown when it took over; `by` is who
    decided (an owner ref or `system`). `received` counts the customer's messages that came, `answered` those that it
    answered. `spent` is None where no run was recorded: people, and turns before there were records.
    """

    owner: str
    since: int
    epoch: int
    seq: int
    previous: str = ""
    name: str = ""
    reason: str = ""
    decided_by: str = "system"
    by: str = "system"
    brief: Mapping[str, Any] = field(default_factory=dict)
    seed: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    until: int | None = None
    received: int = 0
    answered: int = 0
    wrote: int = 0
    refused: int = 0
    spent: Spent | None = None


def tenures(conversation: Conversation, events: Sequence[Event], usage: Iterable[Usage] = ()) -> list[Tenure]:
    """Every stay, oldest first; none when nothing is in the log (a conversation that was forgotten)."""
    if not events:
        return []
    reader = _Reader(conversation, events)
    for event in events:
        reader.read(event)
    _charge(reader.found, usage)
    return reader.found


def usage_of_runs(runs: Iterable[RunRecord]) -> list[Usage]:
    """What the recorded runs of a conversation cost, part by part. Agents that an owner asked are in its part."""
    return [
        Usage(
            owner=str(part.get("owner", "")),
            run=int(run.run or 0),
            model_calls=len(part.get("calls", ())),
            input_tokens=tokens["in"],
            output_tokens=tokens["out"],
            seconds=max(0, int(part.get("ended", 0)) - int(part.get("began", 0))) / 1000,
        )
        for run in runs
        for part in run.parts
        for tokens in (usage_of(part.get("calls", ())),)
    ]


def _charge(found: list[Tenure], usage: Iterable[Usage]) -> None:
    """Give each part to its tenure. Epochs say it, never clocks: a run begins in the tenure that its claim found, and
    goes through the tenures in their order."""
    run, place = -1, 0
    for used in usage:
        if used.run != run:
            run, place = used.run, sum(tenure.epoch <= used.run for tenure in found) - 1
        here = next((n for n in range(max(place, 0), len(found)) if found[n].owner == used.owner), None)
        if here is None:
            continue  # its tenure is not in the log any more
        place, tenure = here, found[here]
        tenure.spent = tenure.spent or Spent()
        tenure.spent.add(used)


class _Reader:
    """Walks the log once. `_waiting` are the customer's messages that nobody has answered at that point."""

    def __init__(self, conversation: Conversation, events: Sequence[Event]) -> None:
        first = events[0]
        change = next((event for event in events if event.type == "owner.changed"), None)
        owner = change.owner_from if change else conversation.owner.ref
        why = FIRST if first.seq == 1 else UNKNOWN
        self.found = [Tenure(owner, first.at, first.epoch, first.seq, reason=why)]
        self._waiting = 0
        self._credited = 0  # what the last message of the owner answered, for the case that it only said goodbye
        self._credited_at = -1
        self._failed_at = -1

    def read(self, event: Event) -> None:
        """Take one event into account, in the order of the log."""
        now = self.found[-1]
        match event.type:
            case "msg.created":
                self._message(now, event)
            case "handoff.requested":
                self._goodbye(now, event)
            case "handoff.refused":
                now.refused += 1
            case "turn.failed":
                self._failed_at = event.at
            case "notice" if event.at == self._failed_at:
                self._waiting = 0  # the customer was told that there is no answer
            case "owner.changed":
                now.until = event.at
                self.found.append(_begun(event))
            case "handoff.completed" if now.owner == event_target(event):
                now.seed = tuple(str(text) for text in event.data.get("seed", ()))
                now.values = tuple(str(key) for key in event.data.get("values", ()))
            case "status.changed" if event.data.get("status") == "closed":
                now.until = event.at

    def _message(self, now: Tenure, event: Event) -> None:
        if event.by == "customer":
            now.received += 1
            self._waiting += 1
            return
        now.wrote += 1
        now.answered += self._waiting
        self._credited, self._credited_at, self._waiting = self._waiting, event.at, 0

    def _goodbye(self, now: Tenure, event: Event) -> None:
        """What is said in the commit of a transfer answers nothing: the messages wait for the next owner.

        A plan that ends with people is the exception: the agent did answer.
        """
        ends_plan = event.data.get("decided_by") == "rule" and str(event.data.get("to", "")).startswith(HUMAN)
        if event.at != self._credited_at or not event.by.startswith("ai:") or ends_plan:
            return
        now.answered -= self._credited
        self._waiting += self._credited
        self._credited = 0


def _begun(event: Event) -> Tenure:
    data = event.data
    return Tenure(
        owner=event.owner_to,
        since=event.at,
        epoch=event.epoch,
        seq=event.seq,
        previous=event.owner_from,
        name=str(data.get("to_name") or ""),
        reason=str(data.get("reason") or ""),
        decided_by=str(data.get("decided_by") or "system"),
        by=event.by,
        brief=dict(data.get("brief") or {}),
    )


def event_target(event: Event) -> str:
    """The owner ref that a handoff record is about: its `to` is an agent's id, or `human:` and a queue."""
    to = str(event.data.get("to", ""))
    return f"queue:{to.removeprefix(HUMAN)}" if to.startswith(HUMAN) else f"ai:{to}"
