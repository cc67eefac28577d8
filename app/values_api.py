"""`/v1/conversations/{id}/values`: the shared values, read and set by the desk under their contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import Field, model_validator

from app.api import TheDesk, need_key
from app.api_errors import Refused, responses
from app.api_models import Answer, PersonRef, Request
from app.desk import Desk
from app.desk_view import values_of
from app.identity import new_id
from handoffs.roster import ValueContract
from handoffs.state import RouterState
from sessions.errors import Conflict
from sessions.model import Conversation, Owner, Value, ValueWrite

router = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))


class SharedValue(Answer):
    """One shared value. `rev` counts its changes. `hidden`: it is sensitive, or not in desk.yaml, and `value` null."""

    value: Any
    rev: int
    lifetime: Literal["turn", "conversation", "customer"]
    hidden: bool


class ValuesView(Answer):
    """The values that are set. Those of a turn that runs are not among them."""

    values: dict[str, SharedValue]


class ValueChange(Request):
    """Set a value, or count a number up with `add` (others who count at the same time are not lost).

    `rev` is the revision that you read: with another one now, 409. 0: it must not be set yet. Without it: any.
    """

    value: Any = None
    add: int | float | None = None
    rev: Annotated[int | None, Field(ge=0)] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ValueChange:
        if ("value" in self.model_fields_set) is (self.add is not None):
            raise ValueError("either `value` or `add`")
        return self


class ValuesRequest(Request):
    """All of them are set, or none. The same `request_id` again changes nothing."""

    values: Annotated[dict[str, ValueChange], Field(min_length=1, max_length=100)]
    person: PersonRef | None = None
    request_id: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{7,63}$")] = None


@router.get("/conversations/{conversation_id}/values", responses=responses(404))
async def read_values(conversation_id: str, desk: TheDesk) -> ValuesView:
    """The shared values with their revisions. Sensitive ones are named and not shown."""
    return _view(desk, await values_of(desk, await desk.store.get(conversation_id)))


@router.put("/conversations/{conversation_id}/values", responses=responses(404, 409, 422))
async def set_values(conversation_id: str, body: ValuesRequest, desk: TheDesk) -> ValuesView:
    """Set shared values, compare-and-set: what comes back is what is stored now."""
    conversation = await desk.store.get(conversation_id)
    lifetimes = {_lifetime(key, desk.roster.desk.values) for key in body.values}
    if len(lifetimes) > 1:
        why = "values of the conversation and of the customer cannot be set together, all or none; send two requests"
        raise Refused(422, "invalid_request", why, field="values")
    try:
        await _write(desk, conversation, body, lifetimes.pop())
    except Conflict as conflict:
        raise Refused(409, "conflict", str(conflict), field=conflict.field.replace("value ", "values.", 1)) from None
    return _view(desk, await values_of(desk, conversation))


async def _write(desk: Desk, conversation: Conversation, body: ValuesRequest, lifetime: str) -> None:
    request_id = f"values:{body.request_id or new_id('r')}"
    cid, customer_id = conversation.conversation_id, RouterState.of(conversation.meta).customer

    def change(now: Mapping[str, Value]) -> list[ValueWrite]:
        return [_made(cid, key, wish, now.get(key, Value(None, 0)), desk) for key, wish in body.values.items()]

    if lifetime == "customer" and customer_id:
        await desk.store.change_customer_values(customer_id, f"{cid}:{request_id}", change)
        return
    by = Owner.human(body.person.id).ref if body.person else "system"
    await desk.store.change_values(cid, request_id, change, by=by)


def _made(conversation_id: str, key: str, wish: ValueChange, now: Value, desk: Desk) -> ValueWrite:
    """What a change makes of the value that is stored now. Refused: it does not fit; Conflict: another revision."""
    if wish.rev is not None and wish.rev != now.rev:
        raise Conflict(conversation_id, field=f"value {key}", current=str(now.rev))
    contract = desk.roster.desk.values[key]
    if wish.add is not None and contract.type not in ("integer", "number"):
        why: str | None = f"only an integer or a number can be counted up, and it is a {contract.type}"
    else:
        value = wish.value if wish.add is None else (now.value or 0) + wish.add
        why = contract.why_not(value)
    if why:
        raise Refused(422, "value_invalid", f"value {key!r}: {why}", field=f"values.{key}")
    return ValueWrite(key, value, now.rev if wish.add is not None or wish.rev is not None else None)


def _lifetime(key: str, contracts: Mapping[str, ValueContract]) -> str:
    """How long a value lives; Refused (422) when there is none of that name, or nobody may set it here."""
    contract = contracts.get(key)
    if contract is None:
        why = f"desk.yaml has no value {key!r}; it has: {', '.join(contracts) or 'none'}"
        raise Refused(422, "value_invalid", why, field=f"values.{key}")
    if contract.lifetime == "turn":
        why = f"value {key!r} lives as long as a turn of the agents; only their tools set it"
        raise Refused(422, "value_invalid", why, field=f"values.{key}")
    return contract.lifetime


def _view(desk: Desk, values: Mapping[str, Value]) -> ValuesView:
    return ValuesView(values={key: _shown(found, desk.roster.desk.values.get(key)) for key, found in values.items()})


def _shown(found: Value, contract: ValueContract | None) -> SharedValue:
    hidden = contract is None or contract.sensitive
    lifetime = contract.lifetime if contract else "conversation"
    return SharedValue(value=None if hidden else found.value, rev=found.rev, lifetime=lifetime, hidden=hidden)
