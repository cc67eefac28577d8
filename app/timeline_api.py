"""`GET /v1/conversations/{id}/timeline`: who owned a conversation, since when, why, and what it took."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Depends

from app.api import TheDesk, need_key
from app.api_errors import responses
from app.api_models import Answer, OwnerView
from app.desk import Desk
from app.desk_view import owner_view, values_of
from app.masking import Masker
from app.public_view import iso
from handoffs.record import joined
from handoffs.roster import Roster
from handoffs.timeline import Spent, Tenure, tenures, usage_of_runs
from sessions.model import Owner, OwnerKind

MAX_EVENTS: Final = 50_000  # a log keeps 10,000, and more only while a sink is behind

router = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))


class SpentView(Answer):
    """What the recorded runs of a tenure took: `seconds` is the time in them, tokens are as the models counted them."""

    runs: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    seconds: float


class TenureView(Answer):
    """One stay of one owner. `until` is null while it lasts; `previous` is null for the first one.

    `seed` is what it was shown when it took over, `values` the names of the shared values that came with it. `spent`
    is null where no run was recorded.
    """

    owner: OwnerView
    previous: OwnerView | None
    since: str
    until: str | None
    seconds: float
    reason: str
    decided_by: str
    by: str
    epoch: int
    seq: int
    brief: dict[str, Any]
    seed: list[str]
    values: list[str]
    received: int
    answered: int
    wrote: int
    refused: int
    spent: SpentView | None


class TimelineView(Answer):
    """Every owner of a conversation, oldest first. `complete` is false when the log has lost its beginning."""

    id: str
    status: str
    complete: bool
    tenures: list[TenureView]


@router.get("/conversations/{conversation_id}/timeline", responses=responses(404))
async def timeline_of(conversation_id: str, desk: TheDesk) -> TimelineView:
    """Who owned, since when, why, by whose decision, what they were shown, what it took. Nothing sensitive."""
    return await timeline_view(desk, conversation_id)


async def timeline_view(desk: Desk, conversation_id: str) -> TimelineView:
    """The timeline now; UnknownConversation when there is no such conversation."""
    conversation = await desk.store.get(conversation_id)
    events, values, (records,), now = await asyncio.gather(
        desk.store.read(conversation_id, 0, MAX_EVENTS),
        values_of(desk, conversation),
        desk.store.run_records([conversation_id]),
        desk.store.now(),
    )
    usage = usage_of_runs(joined(conversation_id, records))
    mask = Masker(desk.roster.desk.values, values)
    names = _Names(desk.roster)
    return TimelineView(
        id=conversation_id,
        status=conversation.status,
        complete=not events or events[0].seq == 1,
        tenures=[_view(tenure, now, names, mask) for tenure in tenures(conversation, events, usage)],
    )


class _Names:
    """Owners with the names that people read; a person is called as was announced when they took over."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._people: dict[str, str] = {}

    def view(self, ref: str, name: str = "") -> OwnerView:
        owner = Owner.parse(ref)
        if owner.kind is OwnerKind.HUMAN and name:
            self._people[ref] = name
        return owner_view(owner, self._roster, self._people.get(ref))


def _view(tenure: Tenure, now: int, names: _Names, mask: Masker) -> TenureView:
    return TenureView(
        previous=names.view(tenure.previous) if tenure.previous else None,
        owner=names.view(tenure.owner, tenure.name),
        since=iso(tenure.since),
        until=iso(tenure.until) if tenure.until is not None else None,
        seconds=round(((now if tenure.until is None else tenure.until) - tenure.since) / 1000, 3),
        reason=mask.text(tenure.reason),
        decided_by=tenure.decided_by,
        by=tenure.by,
        epoch=tenure.epoch,
        seq=tenure.seq,
        brief=mask.deep(tenure.brief),
        seed=[mask.text(text) for text in tenure.seed],
        values=list(tenure.values),
        received=tenure.received,
        answered=tenure.answered,
        wrote=tenure.wrote,
        refused=tenure.refused,
        spent=_spent(tenure.spent),
    )


def _spent(spent: Spent | None) -> SpentView | None:
    if spent is None:
        return None
    return SpentView(
        runs=spent.runs,
        model_calls=spent.model_calls,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        seconds=round(spent.seconds, 3),
    )
