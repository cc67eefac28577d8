"""Approvals over REST: what waits, in one conversation or in all of them, and the answer to it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from app.api import TheDesk, need_key
from app.api_errors import responses
from app.api_models import MAX_NOTE_CHARS, Answer, ErrorBody, ErrorDetail, PersonRef, Request
from app.public_view import iso
from handoffs.approvals import CUSTOMER, PEOPLE, decide
from handoffs.errors import ApprovalDecided
from sessions.model import Approval

MOST: Final = 200  # waiting approvals in one answer

router = APIRouter(prefix="/v1", tags=["desk"], dependencies=[Depends(need_key)], responses=responses(401, 503))


class ApprovalView(Answer):
    """A call that waits, or waited, for somebody's word. `verdict` is what was decided, `default` what counts after
    `deadline`; `by` is `human:<id>`, `customer` or `system` (nobody decided in time).

    `void`: the conversation has another owner now, so nobody can decide it and the call is not made.
    """

    id: str
    conversation: str
    state: Literal["asked", "granted", "refused", "used"]
    void: bool
    agent: str
    tool: str
    arguments: dict[str, Any]
    approver: Literal["people", "customer"]
    deadline: str
    default: Literal["granted", "refused"]
    verdict: Literal["granted", "refused"] | None
    by: str | None
    note: str | None
    at: str | None


class ApprovalList(Answer):
    approvals: list[ApprovalView]


class VerdictRequest(Request):
    """The answer. It counts once; `by` is a person at the desk, or `customer` for a call that asks for their word."""

    verdict: Literal["granted", "refused"]
    by: PersonRef | Literal["customer"]
    note: Annotated[str, Field(max_length=MAX_NOTE_CHARS, description="the agent reads it, as data")] = ""


class DecidedBody(ErrorBody):
    """Somebody was first: `approval` has their answer."""

    approval: ApprovalView


def approval_view(conversation_id: str, approval: Approval) -> ApprovalView:
    """An approval as the desk sees it."""
    call = approval.call
    arguments = call.get("arguments")
    return ApprovalView.model_validate(
        {
            "id": approval.approval_id,
            "conversation": conversation_id,
            "state": approval.state,
            "void": approval.void,
            "agent": str(call.get("agent", approval.agent_id)),
            "tool": str(call.get("tool", "")),
            "arguments": arguments if isinstance(arguments, dict) else {},
            "approver": CUSTOMER if call.get("approver") == CUSTOMER else PEOPLE,
            "deadline": iso(approval.deadline),
            "default": approval.default,
            "verdict": approval.verdict or None,
            "by": approval.by or None,
            "note": approval.note or None,
            "at": iso(approval.at) if approval.at else None,
        }
    )


@router.get("/approvals")
async def waiting(desk: TheDesk, limit: Annotated[int, Query(ge=1, le=MOST)] = MOST) -> ApprovalList:
    """Every call that waits for somebody's word, the nearest deadline first."""
    found = await desk.store.waiting_approvals(limit)
    return ApprovalList(approvals=[approval_view(where, approval) for where, approval in found])


@router.get("/conversations/{conversation_id}/approvals", responses=responses(404))
async def of_conversation(conversation_id: str, desk: TheDesk) -> ApprovalList:
    """Every approval of one conversation, decided ones too, the newest deadline first."""
    await desk.store.get(conversation_id)
    found = await desk.store.approvals(conversation_id)
    return ApprovalList(approvals=[approval_view(conversation_id, approval) for approval in found])


@router.post(
    "/conversations/{conversation_id}/approvals/{approval_id}",
    responses={**responses(403, 404, 422), 409: {"model": DecidedBody | ErrorBody, "description": "Conflict"}},
    response_model=ApprovalView,
)
async def answer(
    conversation_id: str, approval_id: str, body: VerdictRequest, desk: TheDesk
) -> ApprovalView | JSONResponse:
    """Grant or refuse one call. The conversation goes on at once; a second answer gets 409 with the first one."""
    by = "customer" if body.by == "customer" else f"human:{body.by.id}"
    try:
        approval = await decide(desk.store, conversation_id, approval_id, body.verdict, by=by, note=body.note.strip())
    except ApprovalDecided as error:
        detail = ErrorDetail(code="already_decided", message=str(error))
        first = DecidedBody(error=detail, approval=approval_view(conversation_id, error.approval))
        return JSONResponse(first.model_dump(exclude_none=True), status_code=409)
    return approval_view(conversation_id, approval)
