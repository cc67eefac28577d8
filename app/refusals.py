"""Why a customer's message was not taken, as the `err` frame that says so."""

from __future__ import annotations

from app.protocol import Err, ErrCode
from handoffs.errors import MessageRejected
from sessions.errors import ConversationClosed, FrontdeskError, MessageIdReused, StoreRefused, StoreUnavailable

AGAIN = "the message was not stored; send it again"


def refused(re: int, code: ErrCode, message: str, *, field: str | None = None, after_ms: int | None = None) -> Err:
    """An `err` frame; with `after_ms` the client sends the same message again after that time."""
    return Err(re=re, code=code, message=message, field=field, retry=after_ms is not None, after_ms=after_ms)


def of_error(re: int, error: FrontdeskError) -> Err:
    """The `err` frame for what the router or the store said. Nothing was stored, or the outcome is unknown."""
    match error:
        case MessageRejected():
            return refused(re, ErrCode.BAD_FRAME, str(error), field=error.field)
        case MessageIdReused():
            return refused(re, ErrCode.CID_CONFLICT, "this cid was used for another text", field="cid")
        case ConversationClosed():
            return refused(re, ErrCode.CLOSED, "the conversation is closed; begin a new one")
        case StoreUnavailable():
            return refused(re, ErrCode.UNAVAILABLE, AGAIN, after_ms=1000)
        case StoreRefused():
            return refused(re, ErrCode.UNAVAILABLE, AGAIN, after_ms=5000)
    return refused(re, ErrCode.INTERNAL, AGAIN, after_ms=2000)
