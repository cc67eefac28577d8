"""The widget's wire protocol, `chat.v1`: one JSON object per WebSocket text frame, its kind in `t`.

Only data and parsing, no I/O. Unknown fields are ignored, an unknown `t` is an `err` frame and never a close, so that
old and new clients and servers can talk. What a client says about sender, owner, role or history is not in the models,
so it cannot be believed by mistake.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

SUBPROTOCOL: Final = "chat.v1"
VERSION: Final = 1
MAX_FRAME_BYTES: Final = 32 * 1024  # 8,000 characters of 4 bytes fit; the server itself cuts at 64 KiB with 1009
MAX_TEXT_CHARS: Final = 8000  # one customer message
MAX_SEQ: Final = 2**53 - 1  # what a browser can hold as an exact integer


class CloseCode(IntEnum):
    """Why a socket was closed. 4000-4499: the client reconnects. 4500-4999: it stops and shows a text."""

    GENERIC = 4000
    PONG_TIMEOUT = 4001
    SEQ_GAP = 4002
    SLOW = 4008
    RATE = 4009
    DRAIN = 4010
    REPLACED = 4011
    TOKEN_EXPIRED = 4012
    BAD_FRAME = 4500
    AUTH = 4501
    FORBIDDEN = 4503
    GONE = 4504
    VERSION = 4505
    LIMIT = 4506
    BLOCKED = 4507


class ErrCode(StrEnum):
    """What `err.code` can be. The widget has a sentence for each of them in its own language."""

    BAD_JSON = "bad_json"
    BAD_FRAME = "bad_frame"
    UNKNOWN_TYPE = "unknown_type"
    TOO_LARGE = "too_large"
    TEXT_TOO_LONG = "text_too_long"
    RATE_LIMITED = "rate_limited"
    CID_CONFLICT = "cid_conflict"
    CLOSED = "closed"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"
    AUTH = "auth"
    INTERNAL = "internal"


class Frame(BaseModel):
    """Base of all frames: unknown fields are ignored, types are not bent (`"7"` is not 7)."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


# --- what a client may send -----------------------------------------------------------------------------------------

RequestNumber = Annotated[
    int, Field(ge=0, le=MAX_SEQ, description="number of the request, repeated in ack.re / err.re")
]
Seq = Annotated[int, Field(ge=0, le=MAX_SEQ, description="place in the conversation's log; 0: before the first event")]
ClientId = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_-]{8,64}$", description="the client's own id of a message, the key of idempotency")
]
MessageId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,80}$")]
Jwt = Annotated[str, Field(min_length=1, max_length=4096)]


class Hello(Frame):
    """The first frame of a socket: who I am and up to where I have the log."""

    t: Literal["hello"]
    v: int
    token: Jwt
    conv: Annotated[str | None, Field(max_length=80)] = None
    epoch: Annotated[str | None, Field(max_length=120)] = None
    seq: Seq = 0
    tab: Annotated[str | None, Field(max_length=64)] = None
    lang: Annotated[str | None, Field(max_length=35, pattern=r"^[A-Za-z0-9-]*$")] = None
    caps: Annotated[list[Annotated[str, Field(max_length=32)]], Field(max_length=16)] = []
    client: Annotated[str | None, Field(max_length=64)] = None


class Send(Frame):
    """One customer message. `cid` makes a repeat harmless."""

    t: Literal["send"]
    id: RequestNumber
    cid: ClientId
    text: Annotated[str, Field(max_length=MAX_TEXT_CHARS, pattern=r"\S")]
    ack: Seq | None = None


class ClientTyping(Frame):
    t: Literal["typing"]
    on: bool


class Human(Frame):
    """The customer asks for a person."""

    t: Literal["human"]
    id: RequestNumber
    cid: ClientId


class Stop(Frame):
    """The customer does not want to hear the rest of an answer."""

    t: Literal["stop"]
    id: RequestNumber
    mid: MessageId


class Auth(Frame):
    """A fresh token for the same visitor and conversation, before the old one runs out."""

    t: Literal["auth"]
    token: Jwt


class Sync(Frame):
    """The client missed a piece of this draft and wants all of its text so far."""

    t: Literal["sync"]
    mid: MessageId


class Ping(Frame):
    t: Literal["ping"]
    n: Annotated[int, Field(ge=0, le=MAX_SEQ)] | None = None


class Pong(Frame):
    t: Literal["pong"]
    ack: Seq | None = None


ClientFrame = Hello | Send | ClientTyping | Human | Stop | Auth | Sync | Ping | Pong

CLIENT_FRAMES: Final[dict[str, type[ClientFrame]]] = {
    "hello": Hello,
    "send": Send,
    "typing": ClientTyping,
    "human": Human,
    "stop": Stop,
    "auth": Auth,
    "sync": Sync,
    "ping": Ping,
    "pong": Pong,
}


class BadFrame(Exception):
    """A client frame that cannot be used. `re` is its request number where it had one; `field` is what is wrong."""

    def __init__(self, code: ErrCode, message: str, *, re: int | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.re = re
        self.field = field


def parse_client_frame(text: str) -> ClientFrame:
    """The frame in `text`; BadFrame says what is wrong with it (size, JSON, kind, field)."""
    if len(text) > MAX_FRAME_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_FRAME_BYTES:
        raise BadFrame(ErrCode.TOO_LARGE, f"a frame may have {MAX_FRAME_BYTES} bytes", re=None)
    try:
        raw = from_json(text)
    except ValueError as error:
        raise BadFrame(ErrCode.BAD_JSON, f"this is not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise BadFrame(ErrCode.BAD_JSON, "a frame is a JSON object")
    return _validated(raw)


def _validated(raw: dict[str, Any]) -> ClientFrame:
    number = raw.get("id")
    re = number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= MAX_SEQ else None
    kind = raw.get("t")
    model = CLIENT_FRAMES.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise BadFrame(ErrCode.UNKNOWN_TYPE, f"t is one of {', '.join(CLIENT_FRAMES)}", re=re, field="t")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _bad_field(error, re) from None


def _bad_field(error: ValidationError, re: int | None) -> BadFrame:
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    if field == "text" and first["type"] == "string_too_long":
        return BadFrame(ErrCode.TEXT_TOO_LONG, f"a message may have {MAX_TEXT_CHARS} characters", re=re, field=field)
    return BadFrame(ErrCode.BAD_FRAME, f"{field}: {first['msg']}", re=re, field=field)


# --- what the server sends ------------------------------------------------------------------------------------------


class Party(Frame):
    """Who said or owns something, as a customer may know it. A person's id stays inside; the name is what is shown."""

    kind: Literal["visitor", "ai", "human", "queue", "system", "nobody"]
    id: str | None = None
    name: str | None = None


class Limits(Frame):
    frame_bytes: int = MAX_FRAME_BYTES
    text_chars: int = MAX_TEXT_CHARS


class ModelInfo(Frame):
    """Which model answers. `offline` is shown to the customer: the built-in model is no large language model."""

    offline: bool
    name: str


class Welcome(Frame):
    """The answer to `hello`. `replay` events follow, then `live`; with recovered=false a `snapshot` comes instead."""

    t: Literal["welcome"] = "welcome"
    v: int = VERSION
    conn: str
    conv: str
    epoch: str
    seq: int
    recovered: bool
    replay: int
    ping: int
    owner: Party
    status: str
    limits: Limits = Limits()
    model: ModelInfo


class Ev(Frame):
    """One event of the log. `e` is `hidden` for what a customer does not see, so that seq stays gapless on the wire.

    `epoch` comes with seq 1 only: a conversation's epoch is made by its first event (see app/lineage.py).
    """

    t: Literal["ev"] = "ev"
    seq: int
    e: str
    id: str | None = None
    cid: str | None = None
    at: str | None = None
    by: Party | None = None
    d: dict[str, Any] | None = None
    epoch: str | None = None


class Draft(Frame):
    """A message that is still being written: all of its text so far."""

    mid: str
    text: str
    off: int
    by: Party | None = None


class Snapshot(Frame):
    """The state instead of a replay. `messages` are the newest visible events; `before` is where older ones begin."""

    t: Literal["snapshot"] = "snapshot"
    reason: Literal["epoch", "trimmed", "ahead", "too_far"]
    epoch: str
    seq: int
    messages: list[Ev]
    owner: Party
    status: str
    drafts: list[Draft] = []
    before: int | None = None


class Live(Frame):
    """The replay is finished; what follows happens now."""

    t: Literal["live"] = "live"


class Eph(Frame):
    """Something shown and never kept: a piece of a draft (`off` is the character offset of `d`), typing, what runs."""

    t: Literal["eph"] = "eph"
    e: str
    mid: str | None = None
    off: int | None = None
    d: str | None = None
    by: Party | None = None
    on: bool | None = None
    state: str | None = None


class Ack(Frame):
    """The store has the message. `dup`: it had it before, which is success too."""

    t: Literal["ack"] = "ack"
    re: int
    cid: str
    mid: str
    seq: int
    dup: bool


class Err(Frame):
    t: Literal["err"] = "err"
    re: int | None = None
    code: ErrCode
    message: str
    field: str | None = None
    retry: bool = False
    after_ms: int | None = None


class ServerPing(Frame):
    t: Literal["ping"] = "ping"


class ServerPong(Frame):
    t: Literal["pong"] = "pong"
    n: int | None = None


class Bye(Frame):
    """The server is about to go; reconnect at a random time inside the window."""

    t: Literal["bye"] = "bye"
    reason: str = "drain"
    reconnect_ms: tuple[int, int] = (0, 5000)


ServerFrame = Welcome | Snapshot | Ev | Live | Eph | Ack | Err | ServerPing | ServerPong | Bye


def encode(frame: ServerFrame) -> str:
    """The JSON text of a frame, without empty fields."""
    return frame.model_dump_json(exclude_none=True)


def json_schema() -> dict[str, Any]:
    """JSON Schema of every frame, by direction, for people who write another client."""
    server = (Welcome, Snapshot, Ev, Live, Eph, Ack, Err, ServerPing, ServerPong, Bye)
    return {
        "protocol": SUBPROTOCOL,
        "client": {kind: model.model_json_schema() for kind, model in CLIENT_FRAMES.items()},
        "server": {model.model_fields["t"].default: model.model_json_schema() for model in server},
    }
