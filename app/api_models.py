"""The bodies of the REST API, as OpenAPI shows them. Unknown fields in a request are errors: a typo is not ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_NOTE_CHARS = 4000

PersonId = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="login of a person, kept inside", examples=["ann"]),
]
MessageText = Annotated[str, StringConstraints(min_length=1, max_length=16_000, pattern=r"\S")]
HeldToken = Annotated[
    str, Field(min_length=3, max_length=200, description="what `take` gave; it is good until somebody else owns")
]


class Request(BaseModel):
    """Base of request bodies."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    """Base of answers."""

    model_config = ConfigDict(frozen=True)


class ErrorDetail(Answer):
    """What went wrong. `field` names the part of the request; owner and epoch say who holds the conversation."""

    code: str = Field(examples=["stale_owner"])
    message: str
    field: str | None = None
    owner: str | None = None
    epoch: int | None = None


class ErrorBody(Answer):
    error: ErrorDetail


class SessionRequest(Request):
    """A widget asks for tokens: for a new visitor, or with a refresh token for one who came back."""

    site_key: Annotated[str, Field(max_length=64)]
    refresh: Annotated[str | None, Field(max_length=4096)] = None
    new: Annotated[bool, Field(description="begin a new conversation")] = False
    lang: Annotated[str | None, Field(max_length=35, pattern=r"^[A-Za-z0-9-]*$")] = None


class DeskInfo(Answer):
    """What a widget shows before the first message."""

    name: str
    language: str
    offline_model: bool
    suggestions: list[str]


class SessionAnswer(Answer):
    token: str
    refresh: str
    expires_in: int = Field(description="seconds that `token` is good for")
    conversation: str
    visitor: str
    fresh: bool = Field(description="False: the conversation of the refresh token goes on")
    desk: DeskInfo


class OwnerView(Answer):
    kind: Literal["ai", "queue", "human", "nobody"]
    id: str
    name: str


class ConversationSummary(Answer):
    """One line of the list. `waiting` counts customer messages that nobody has answered, `approvals` calls that wait
    for somebody's word."""

    id: str
    status: str
    owner: OwnerView
    epoch: int
    seq: int
    waiting: int
    approvals: int
    born: str
    updated: str
    language: str | None = None
    last_text: str | None = None
    last_by: str | None = None


class ConversationList(Answer):
    conversations: list[ConversationSummary]


class EventView(Answer):
    """One entry of the log, whole: this is for the desk."""

    seq: int
    epoch: int
    type: str
    at: str
    by: str
    data: dict[str, Any]
    owner_from: str | None = None
    owner_to: str | None = None


class MessageView(Answer):
    """One message that the customer saw."""

    seq: int
    id: str
    at: str
    by: str
    name: str | None = None
    text: str


class DraftView(Answer):
    mid: str
    text: str


class ConversationView(ConversationSummary):
    """`values` are those that desk.yaml declares and does not call sensitive; `hidden_values` names the others."""

    values: dict[str, Any]
    hidden_values: list[str]
    draft: DraftView | None
    transcript: list[MessageView]
    events: list[EventView]


class PersonRef(Request):
    id: PersonId
    name: Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"\S")]


class TakeRequest(Request):
    person: PersonRef
    force: Annotated[bool, Field(description="also from another person who is here")] = False
    expected_epoch: Annotated[int | None, Field(ge=0, description="refuse when the owner changed since")] = None


class TakeAnswer(Answer):
    token: str
    previous: OwnerView
    seq: int


class PresenceRequest(Request):
    token: HeldToken


class PresenceAnswer(Answer):
    until: Annotated[int, Field(description="Unix time in milliseconds by the store's clock")]


class MessageRequest(Request):
    token: HeldToken
    person: PersonRef
    text: MessageText
    message_id: Annotated[
        str | None,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{7,63}$", description="your own id; a repeat with it is harmless"),
    ] = None


class MessageAnswer(Answer):
    message_id: str
    seq: int
    duplicate: bool


class ReleaseRequest(Request):
    token: HeldToken
    person: PersonRef
    to: Annotated[str | None, Field(max_length=80, description="an agent's id; without it the start agent")] = None
    note: Annotated[str | None, Field(max_length=MAX_NOTE_CHARS, description="goes into the brief")] = None


class ReleaseAnswer(Answer):
    owner: OwnerView
    seq: int


class AgentView(Answer):
    id: str
    name: str
    intended_use: str


class RosterView(Answer):
    desk: str
    start: str
    version: str
    agents: list[AgentView]
    queues: list[AgentView]
    model: str


class Health(Answer):
    status: Literal["ok"] = "ok"


class Readiness(Answer):
    """Why this process can (or cannot) take conversations. `alarms`: what happened since it started, by kind."""

    ready: bool
    store: str
    live: bool
    agents: int
    roster: str
    model: str
    alarms: dict[str, int]
