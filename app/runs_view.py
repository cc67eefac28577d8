"""Records of runs as the API shows them: in lists and whole, without sensitive values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from app.api_errors import Refused
from app.api_models import Answer
from app.desk import Desk
from app.masking import HIDDEN, Masker
from app.public_view import iso
from handoffs.record import Part, RunRecord, joined, newest_first, split_id, tool_calls
from sessions.model import Value
from sessions.store import Store

STATE: Final = ("language", "transfers", "trail", "plan", "labels")  # of the router's memory: what decides
BATCH: Final = 50  # conversations whose records are read at once for a list over all of them


class UsageView(Answer):
    """Tokens, as the models counted them; zeros when they did not."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


class RunTransfer(Answer):
    """One change of owner in a run."""

    owner_from: str
    owner_to: str
    decided_by: str


class RunSummary(Answer):
    """One run: what a worker did between taking a turn and giving it back. Owners are refs such as `ai:billing`.

    `outcome` is that of the last part; `broken` means that it was given up and nothing of that part took effect.
    """

    id: str
    conversation: str
    began: str
    seconds: float
    outcome: str = Field(description="answered, transferred, failed, waiting or broken")
    owner: str
    owner_after: str
    messages: int
    model_calls: int
    tool_calls: int
    transfers: list[RunTransfer]
    refusals: int
    usage: UsageView
    error: str | None
    whole: bool = Field(description="False: something is missing or was cut, and the run cannot be replayed")


class RunList(Answer):
    """Newest first. `next` is what to send as `after` for the following ones; null at the end."""

    runs: list[RunSummary]
    next: str | None


class CallView(Answer):
    """One call of a model. `input` and `instructions` are hashes; `items` counts what went in."""

    at: str
    ms: float
    path: list[str] = Field(description="from the owner to an agent that was asked as a tool; empty: the owner's own")
    dropped: bool = Field(description="the owner began again, and nothing of it was used")
    items: int
    input: str
    instructions: str
    output: list[dict[str, Any]]
    usage: UsageView
    error: str | None


class ToolView(Answer):
    """One call of a tool. `result` is null when there was none."""

    call_id: str
    name: str
    arguments: str
    result: Any


class StepView(Answer):
    """What one owner did, up to its commit."""

    owner: str
    owner_after: str
    outcome: str
    model: str
    began: str
    ended: str
    messages: list[dict[str, Any]]
    calls: list[CallView]
    tools: list[ToolView]
    refusals: list[dict[str, Any]]
    transfer: dict[str, Any] | None
    text: str
    values: dict[str, Any] = Field(description="shared values that it set")
    error: dict[str, str] | None
    cut: list[str] = Field(description="places of this record that were too long to be kept whole")


class RunView(RunSummary):
    """A run whole. `state` (of the router) and `values` are what was there when it began."""

    turn: str
    attempt: int
    roster: str
    worker: str
    resumed: bool = Field(description="it went on after an approval was decided")
    state: dict[str, Any]
    values: dict[str, Any]
    lasting: list[str] = Field(description="names of the customer's own values that were set; they are not recorded")
    steps: list[StepView]


async def run_list(desk: Desk, conversation_id: str | None, after: str | None, limit: int) -> RunList:
    """Runs of one conversation, or of all. Raises Refused (`after` is no id), UnknownConversation."""
    before = _place(after)
    if conversation_id is not None:
        await desk.store.get(conversation_id)
        (rows,) = await desk.store.run_records([conversation_id])
        found = [run for run in newest_first(joined(conversation_id, rows)) if before is None or _key(run) > before]
    else:
        found = await newest(desk.store, limit + 1, before)
    shown = found[:limit]
    following = shown[-1].id if shown and len(found) > limit else None
    return RunList(runs=[summary(run, await _mask(desk, run)) for run in shown], next=following)


async def run_view(desk: Desk, run_id: str) -> RunView:
    """One run whole; Refused (404) when there is no record of it."""
    conversation_id, run = split_id(run_id)
    (rows,) = await desk.store.run_records([conversation_id]) if conversation_id else [[]]
    found = next((one for one in joined(conversation_id, rows) if one.run == run), None)
    if found is None:
        raise Refused(404, "unknown_run", f"there is no record of a run {run_id!r}", field="run_id")
    return view(found, await _mask(desk, found, whole=True))


async def newest(store: Store, limit: int, before: tuple[int, str] | None) -> list[RunRecord]:
    """The `limit` newest runs of all conversations behind the place `before`.

    A run begins before its conversation's last change, so that list says when nothing newer can come.
    """
    found: list[RunRecord] = []
    changed = await store.changed()
    for start in range(0, len(changed), BATCH):
        batch = changed[start : start + BATCH]
        if len(found) >= limit and int(found[limit - 1].run) > batch[0][1]:
            break
        ids = [conversation_id for conversation_id, _ in batch]
        for conversation_id, rows in zip(ids, await store.run_records(ids), strict=True):
            found += [run for run in joined(conversation_id, rows) if before is None or _key(run) > before]
        found = newest_first(found)
    return found[:limit]


def _key(run: RunRecord) -> tuple[int, str]:
    return (-int(run.run or 0), run.conversation_id)


def _place(after: str | None) -> tuple[int, str] | None:
    if after is None:
        return None
    conversation_id, run = split_id(after)
    if not conversation_id:
        raise Refused(422, "invalid_request", f"after: expected the id of a run, got {after!r}", field="after")
    return (-int(run), conversation_id)


async def _mask(desk: Desk, run: RunRecord, *, whole: bool = False) -> Masker:
    """Hides the sensitive values of a conversation, those of now and those of the run. A list shows errors only."""
    if not whole and run.error is None:
        return Masker({}, {})
    held: dict[str, list[Any]] = {
        key: [value.value] for key, value in (await desk.store.values(run.conversation_id)).items()
    }
    passing = run.first.get("meta", {}).get("passing", {}).values()  # the values that live as long as a turn
    for then in (run.first.get("values", {}), *passing, *(part.get("writes", {}) for part in run.parts)):
        for key, value in then.items():
            held.setdefault(key, []).append(value)
    return Masker(desk.roster.desk.values, {key: Value(values, 0) for key, values in held.items()})


def summary(run: RunRecord, mask: Masker) -> RunSummary:
    """One line of a list."""
    return RunSummary(**_summary(run, mask))


def _summary(run: RunRecord, mask: Masker) -> dict[str, Any]:
    first, last = run.parts[0], run.parts[-1]
    began, ended = int(first.get("began", 0)), int(last.get("ended", 0))
    error = run.error
    return {
        "id": run.id,
        "conversation": run.conversation_id,
        "began": iso(began),
        "seconds": round(max(0, ended - began) / 1000, 3),
        "outcome": last.get("outcome", ""),
        "owner": first.get("owner", ""),
        "owner_after": last.get("after", ""),
        "messages": len(run.messages),
        "model_calls": len(run.calls),
        "tool_calls": sum(len(tool_calls(part)) for part in run.parts),
        "transfers": [
            RunTransfer(owner_from=moved["from"], owner_to=moved["to"], decided_by=moved["decided_by"])
            for moved in run.transfers
        ],
        "refusals": len(run.refusals),
        "usage": _usage(run.usage),
        "error": mask.text(str(error["text"])) if error else None,
        "whole": run.whole,
    }


def view(run: RunRecord, mask: Masker) -> RunView:
    """A run whole, without sensitive values."""
    first = run.first
    return RunView(
        **_summary(run, mask),
        turn=str(first.get("turn", "")),
        attempt=int(first.get("attempt", 0)),
        roster=str(first.get("roster", "")),
        worker=str(first.get("worker", "")),
        resumed=bool(first.get("meta", {}).get("rest")),
        state=mask.deep({key: value for key, value in first.get("meta", {}).items() if key in STATE}),
        lasting=list(first.get("lasting", ())),
        values=_values(first.get("values", {}), mask),
        steps=[_step(part, mask) for part in run.parts],
    )


def _step(part: Part, mask: Masker) -> StepView:
    return StepView(
        owner=part.get("owner", ""),
        owner_after=part.get("after", ""),
        outcome=part.get("outcome", ""),
        model=part.get("model", ""),
        began=iso(int(part.get("began", 0))),
        ended=iso(int(part.get("ended", 0))),
        messages=mask.deep(part.get("messages", [])),
        calls=[_call(call, mask) for call in part.get("calls", ())],
        tools=[
            ToolView(
                call_id=call["call_id"],
                name=call["name"],
                arguments=mask.text(call["arguments"]),
                result=mask.deep(call.get("result")),
            )
            for call in tool_calls(part)
        ],
        refusals=mask.deep(part.get("refusals", [])),
        transfer=mask.deep(part.get("transfer")),
        text=mask.text(part.get("text", "")),
        values=_values(part.get("writes", {}), mask),
        error=mask.deep(part.get("error")),
        cut=list(part.get("cut", ())),
    )


def _call(call: Part, mask: Masker) -> CallView:
    return CallView(
        at=iso(int(call["at"])),
        ms=call["ms"],
        path=list(call.get("path", ())),
        dropped=bool(call.get("dropped")),
        items=call["items"],
        input=call["input"],
        instructions=call["instructions"],
        output=mask.deep(call["output"]),
        usage=_usage(call.get("usage", {})),
        error=mask.text(call["error"]) if call.get("error") else None,
    )


def _usage(counts: Mapping[str, int]) -> UsageView:
    return UsageView(
        input=counts.get("in", 0),
        output=counts.get("out", 0),
        cached=counts.get("cached", 0),
        reasoning=counts.get("reasoning", 0),
    )


def _values(values: Mapping[str, Any], mask: Masker) -> dict[str, Any]:
    return {key: HIDDEN if mask.hides(key) else mask.deep(value) for key, value in values.items()}
