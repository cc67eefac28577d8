"""From person to person over REST: pass a conversation on directly, or offer it and wait for a yes."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends
from pydantic import Field, StringConstraints

from app import desk_view
from app.api import TheDesk, need_key
from app.api_errors import Refused, responses
from app.api_models import MAX_NOTE_CHARS, Answer, HeldToken, OwnerView, PersonRef, ReleaseAnswer, Request, TakeAnswer
from app.identity import new_id
from app.public_view import iso
from handoffs.router import Person
from sessions.model import Offer, Owner, OwnerKind, Token

VALID_S: Final = 120  # an offer without a time of its own: long enough to read the conversation
LONGEST_S: Final = 86_400  # what nobody accepts within a day is asked again

router = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))

Note = Annotated[str, Field(max_length=MAX_NOTE_CHARS, description="the next owner reads it, the customer does not")]
OwnId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$")]


class PeopleRef(Request):
    """A queue of the desk, or a person by their login."""

    kind: Literal["queue", "human"]
    id: OwnId


class TargetRef(Request):
    """A queue, a person by their login, or an agent. `name` is what the customer reads of a person, who needs one."""

    kind: Literal["queue", "human", "ai"]
    id: OwnId
    name: Annotated[str, StringConstraints(max_length=80)] = ""


class PassRequest(Request):
    token: HeldToken
    person: PersonRef
    to: TargetRef
    note: Note = ""


class OfferRequest(Request):
    """`id` is your own id of the offer: the same one again is the same offer."""

    token: HeldToken
    person: PersonRef
    to: PeopleRef
    note: Note = ""
    valid_s: Annotated[int, Field(ge=1, le=LONGEST_S, description="seconds until it runs out")] = VALID_S
    id: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{7,63}$")] = None


class AcceptRequest(Request):
    person: PersonRef


class DeclineRequest(Request):
    person: PersonRef
    reason: Note = ""


class CancelRequest(Request):
    token: HeldToken
    person: PersonRef


class OfferView(Answer):
    """An offer that waits for an answer. `by` owns the conversation until somebody accepts."""

    id: str
    conversation: str
    by: OwnerView
    to: OwnerView
    note: str
    deadline: str


class OfferList(Answer):
    offers: list[OfferView]


class OfferEnded(Answer):
    state: Literal["declined", "cancelled"]
    seq: int


def offer_view(conversation_id: str, offer: Offer, desk: TheDesk) -> OfferView:
    """An offer as the desk sees it."""
    by = desk_view.owner_view(offer.offered_by, desk.roster, str(offer.brief.get("from_name", "")))
    return OfferView(
        id=offer.offer_id,
        conversation=conversation_id,
        by=by,
        to=desk_view.owner_view(offer.to, desk.roster, offer.to.id if offer.to.kind is OwnerKind.HUMAN else None),
        note=str(offer.brief.get("reason", "")),
        deadline=iso(offer.deadline),
    )


def _token(text: str) -> Token:
    try:
        return Token.parse(text)
    except ValueError as error:
        raise Refused(422, "invalid_request", str(error), field="token") from None


def _person(ref: PersonRef) -> Person:
    return Person(ref.id, ref.name)


@router.post("/conversations/{conversation_id}/pass", responses=responses(404, 409, 422))
async def pass_on(conversation_id: str, body: PassRequest, desk: TheDesk) -> ReleaseAnswer:
    """The person passes the conversation on, now: to a queue, another person or an agent. A person who does not take it
    within three minutes loses it to a queue."""
    to = Owner(OwnerKind(body.to.kind), body.to.id)
    done = await desk.router.pass_on(
        conversation_id, _token(body.token), _person(body.person), to, body.note, body.to.name
    )
    name = body.to.name if to.kind is OwnerKind.HUMAN else None
    return ReleaseAnswer(owner=desk_view.owner_view(to, desk.roster, name), seq=done.seq)


@router.get("/conversations/{conversation_id}/offers", responses=responses(404))
async def offers(conversation_id: str, desk: TheDesk) -> OfferList:
    """The offer that waits for an answer: one or none."""
    await desk.store.get(conversation_id)
    found = await desk.store.pending_offer(conversation_id)
    return OfferList(offers=[offer_view(conversation_id, found, desk)] if found else [])


@router.post("/conversations/{conversation_id}/offers", responses=responses(404, 409, 422))
async def offer(conversation_id: str, body: OfferRequest, desk: TheDesk) -> OfferView:
    """Ask a queue or another person to take the conversation. Who asks goes on as the owner until somebody accepts;
    one offer at a time."""
    made = await desk.router.offer(
        conversation_id,
        _token(body.token),
        _person(body.person),
        body.id or new_id("o"),
        Owner(OwnerKind(body.to.kind), body.to.id),
        body.valid_s * 1000,
        body.note,
    )
    return offer_view(conversation_id, made, desk)


@router.post("/conversations/{conversation_id}/offers/{offer_id}/accept", responses=responses(403, 404, 409, 422))
async def accept(conversation_id: str, offer_id: str, body: AcceptRequest, desk: TheDesk) -> TakeAnswer:
    """Take what was offered: the answer's token is needed to write. Too late, or answered by somebody else: 409."""
    taken = await desk.router.accept(conversation_id, offer_id, _person(body.person))
    return TakeAnswer(token=str(taken.token), previous=desk_view.owner_view(taken.previous, desk.roster), seq=taken.seq)


@router.post("/conversations/{conversation_id}/offers/{offer_id}/decline", responses=responses(403, 404, 409, 422))
async def decline(conversation_id: str, offer_id: str, body: DeclineRequest, desk: TheDesk) -> OfferEnded:
    """Say no; the owner stays."""
    seq = await desk.router.decline(conversation_id, offer_id, _person(body.person), body.reason)
    return OfferEnded(state="declined", seq=seq)


@router.post("/conversations/{conversation_id}/offers/{offer_id}/cancel", responses=responses(404, 409, 422))
async def cancel(conversation_id: str, offer_id: str, body: CancelRequest, desk: TheDesk) -> OfferEnded:
    """The owner takes the offer back."""
    seq = await desk.router.cancel(conversation_id, _token(body.token), _person(body.person), offer_id)
    return OfferEnded(state="cancelled", seq=seq)
