"""Every refusal of the REST API in one shape: {"error": {"code", "message", "field"?, "owner"?, "epoch"?}}."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from app.api_models import ErrorBody, ErrorDetail
from handoffs.errors import MessageRejected, NotTheirs, UnknownTarget
from sessions.errors import (
    ApprovalVoid,
    Conflict,
    ConversationClosed,
    FrontdeskError,
    InvalidId,
    MessageIdReused,
    NotOffered,
    OfferGone,
    OfferPending,
    OwnerBusy,
    StaleOwner,
    StoreRefused,
    StoreUnavailable,
    UnknownApproval,
    UnknownConversation,
)

log = logging.getLogger("frontdesk.api")
RETRY_AFTER_S: Final = 2

STATUS: Final[Mapping[type[FrontdeskError], tuple[int, str]]] = {
    UnknownConversation: (404, "unknown_conversation"),
    InvalidId: (404, "unknown_conversation"),
    StaleOwner: (409, "stale_owner"),
    OwnerBusy: (409, "owner_busy"),
    Conflict: (409, "conflict"),
    ConversationClosed: (409, "conversation_closed"),
    MessageRejected: (422, "invalid_request"),
    UnknownTarget: (422, "unknown_agent"),
    UnknownApproval: (404, "unknown_approval"),
    OfferPending: (409, "offer_pending"),
    OfferGone: (409, "offer_gone"),
    NotOffered: (403, "not_offered"),
    ApprovalVoid: (409, "approval_void"),
    NotTheirs: (403, "not_theirs"),
    MessageIdReused: (409, "message_id_reused"),
    StoreUnavailable: (503, "store_unavailable"),
    StoreRefused: (503, "store_refused"),
}
CODES: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    422: "invalid_request",
    429: "rate_limited",
    503: "unavailable",
}


class Refused(Exception):
    """A request that is refused; `field` names the part of it that is wrong."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.retry_after_s = retry_after_s


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says about these statuses."""
    return {status: {"model": ErrorBody, "description": HTTPStatus(status).phrase} for status in statuses}


def answer(
    status: int,
    code: str,
    message: str,
    *,
    field: str | None = None,
    owner: str | None = None,
    epoch: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """An error in the API's shape."""
    detail = ErrorDetail(code=code, message=message, field=field, owner=owner, epoch=epoch)
    body = ErrorBody(error=detail).model_dump(exclude_none=True)
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


def of_frontdesk(error: FrontdeskError) -> JSONResponse:
    """The answer for one of our own errors."""
    status, code = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), (500, "internal"))
    if status == 500:
        log.error("a request failed: %s: %s", type(error).__name__, error)
        return answer(500, code, "the request failed; the server's log says why")
    owner, epoch = getattr(error, "owner", None), getattr(error, "epoch", None)
    field = error.field if isinstance(error, Conflict | MessageRejected) else None
    if isinstance(error, UnknownTarget):
        field = "to"
    if isinstance(error, NotTheirs):
        field = "by"
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
    return answer(status, code, str(error), field=field, owner=owner, epoch=epoch, headers=headers)


def install(app: FastAPI) -> None:
    """Answer every error of `app` in this shape; nobody sees a traceback."""

    @app.exception_handler(Refused)
    async def _refused(request: Request, error: Refused) -> JSONResponse:
        headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else None
        return answer(error.status, error.code, error.message, field=error.field, headers=headers)

    @app.exception_handler(FrontdeskError)
    async def _frontdesk(request: Request, error: FrontdeskError) -> JSONResponse:
        return of_frontdesk(error)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
        if first["type"] == "json_invalid":
            return answer(422, "invalid_json", f"the body is not JSON: {first.get('ctx', {}).get('error', '')}")
        return answer(422, "invalid_request", f"{'.'.join(where)}: {first['msg']}", field=".".join(where) or None)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        code = CODES.get(error.status_code, "error")
        return answer(error.status_code, code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> JSONResponse:
        return answer(500, "internal", "the request failed; the server's log says why")
