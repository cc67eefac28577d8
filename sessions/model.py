"""The plain data of the store. Frozen dataclasses, no I/O; every time is in milliseconds of Redis' clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Any  # a JSON value: None, bool, int, float, str, list or dict of these
Item = dict[str, Any]  # one input item of the OpenAI Agents SDK


class OwnerKind(StrEnum):
    """Who may speak: an AI agent, a human queue (nobody has accepted yet), one person, or nobody."""

    AI = "ai"
    QUEUE = "queue"
    HUMAN = "human"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who alone may speak to the customer. `id` is an agent id, a queue id or a person id."""

    kind: OwnerKind
    id: str

    @property
    def ref(self) -> str:
        """`kind:id`, the form used in events and logs."""
        return f"{self.kind.value}:{self.id}"

    @classmethod
    def parse(cls, ref: str) -> Owner:
        """The owner that `ref` (`ai:billing`) names; ValueError when it names none."""
        kind, _, id_ = ref.partition(":")
        return cls(OwnerKind(kind), id_)

    @classmethod
    def ai(cls, agent_id: str) -> Owner:
        return cls(OwnerKind.AI, agent_id)

    @classmethod
    def queue(cls, queue_id: str) -> Owner:
        return cls(OwnerKind.QUEUE, queue_id)

    @classmethod
    def human(cls, person_id: str) -> Owner:
        return cls(OwnerKind.HUMAN, person_id)


@dataclass(frozen=True, slots=True)
class Token:
    """The right to write: epoch (rises with every change of owner and every claim) and a 128-bit random fence.

    Both are compared by equality inside every writing script.
    """

    epoch: int
    fence: str

    def __str__(self) -> str:
        return f"{self.epoch}.{self.fence}"

    @classmethod
    def parse(cls, text: str) -> Token:
        """The token that `str(token)` gave; ValueError when the text is none."""
        epoch, dot, fence = text.partition(".")
        if not dot or not epoch.isascii() or not epoch.isdigit() or not fence:
            raise ValueError("a token looks like 1700000000000.9f8e7d..., got something else")
        return cls(int(epoch), fence)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a conversation's log. `seq` is gapless from 1; `by` is an owner ref, `customer` or `system`.

    `owner_from` and `owner_to` are set on `owner.changed` only, by the script that changed the owner. `run` is the run
    that ended with this event; empty for all others.
    """

    seq: int
    epoch: int
    type: str
    at: int
    by: str
    data: dict[str, Any]
    owner_from: str = ""
    owner_to: str = ""
    run: str = ""

    @property
    def id(self) -> str:
        return f"{self.epoch}-{self.seq}"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to be appended. `by` empty means the owner that the script finds."""

    type: str
    data: Mapping[str, Any]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a commit keeps of a run: `run` names it (the epoch of its claim), `text` is a JSON object or empty."""

    run: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Pending:
    """A customer message that nobody has answered yet. `seq` is its place in the log."""

    seq: int
    message_id: str
    data: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.data.get("text", ""))


@dataclass(frozen=True, slots=True)
class Value:
    """A shared value and its revision (1 after the first write)."""

    value: Json
    rev: int


@dataclass(frozen=True, slots=True)
class ValueWrite:
    """Set one shared value, only if its revision is still `expected_rev` (0: not set yet; None: whatever it is)."""

    key: str
    value: Json
    expected_rev: int | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is known about one conversation at one instant. `meta` is the router's own record, opaque to the store."""

    conversation_id: str
    owner: Owner
    epoch: int
    seq: int
    status: str = "open"
    worker: str = ""
    lease_until: int = 0
    attempts: int = 0
    draft: str = ""
    waiting: int = 0
    born: int = 0
    meta: dict[str, Any] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)
    offer: str = ""  # id of the pending offer
    tenure: int = 0  # the epoch in which the present owner became the owner
    asks: tuple[str, ...] = ()  # approvals that wait for a decision
    watched_until: int = 0  # somebody wants to see how agents work on it
    woken: tuple[str, ...] = ()  # approvals decided since the last commit: why a turn runs although nothing waits


@dataclass(frozen=True, slots=True)
class Grant:
    """A worker's right to run a turn, with all it needs: one script call gives it.

    `history` is the owner's isolated history (the newest items, oldest first). `log` gives the newest events, newest
    first, and reads each out of the reply only when it is asked for: a plain turn never does.
    """

    conversation: Conversation
    token: Token
    pending: tuple[Pending, ...]
    values: Mapping[str, Value]
    history: tuple[Item, ...]
    log: Callable[[], Iterable[Event]] = tuple
    log_from: int = 0  # the oldest event that `log` gives
    journal: Mapping[str, Json] = field(default_factory=dict)  # results of tool calls that earlier attempts finished
    unfinished: tuple[str, ...] = ()  # tool calls that earlier attempts began, and nobody knows whether they happened

    @property
    def conversation_id(self) -> str:
        return self.conversation.conversation_id


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a customer message. `grant` is set when the caller asked to claim and got the turn."""

    seq: int
    event_id: str
    message_id: str
    duplicate: bool
    owner: Owner
    grant: Grant | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit did. `pending` holds the messages that came meanwhile, when the lease was kept."""

    seq: int
    event_ids: tuple[str, ...]
    pending: tuple[Pending, ...]
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Transferred:
    """What a transfer did: the new token, and the new owner's own earlier history (before its seed)."""

    token: Token
    seq: int
    event_ids: tuple[str, ...]
    history: tuple[Item, ...]
    pending: tuple[Pending, ...]
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What a takeover did: the person's token and who owned before."""

    token: Token
    previous: Owner
    seq: int


@dataclass(frozen=True, slots=True)
class Ephemeral:
    """Something shown and not kept: a piece of a draft, typing. `data` is what the widget protocol calls `eph`."""

    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """A pending offer of the conversation to a queue or a person; `offered_by` stays the owner until `deadline`."""

    offer_id: str
    offered_by: Owner
    to: Owner
    deadline: int
    brief: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """An approval that a commit asks for. `arguments` is an `arguments_hash`; `call` is shown to who decides."""

    approval_id: str
    arguments: str
    call: Mapping[str, Any]
    valid_ms: int
    default: str = "refused"


@dataclass(frozen=True, slots=True)
class Approval:
    """A question whether an agent may make one call. `call` is what the agent showed, opaque to the store.

    `state` is asked, granted, refused or used; `verdict` stays what was decided. `void`: the owner changed since the
    agent asked; the approval counts for nothing until that agent, being the owner again, binds it again.
    """

    approval_id: str
    state: str
    agent_id: str
    epoch: int
    call: dict[str, Any]
    arguments_hash: str
    deadline: int
    default: str
    verdict: str = ""
    by: str = ""
    note: str = ""
    at: int = 0
    use: str = ""
    void: bool = False
    duplicate: bool = False


class What(StrEnum):
    """What `attend` found. READY: claim it. The others are settled, or are somebody else's."""

    READY = "ready"
    MOVED = "moved"
    OFFER_EXPIRED = "offer_expired"
    APPROVAL_EXPIRED = "approval_expired"
    LIVE = "live"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Attention:
    """What `attend` did. `why` is human_lost or poison when moved, else the id of the offer or approval.

    When moved: `epoch` is the new one, `previous` owned before, `rescue` is what was followed.
    """

    what: What
    why: str = ""
    retry_ms: int = 0
    epoch: int = 0
    previous: Owner | None = None
    rescue: Rescue | None = None


@dataclass(frozen=True, slots=True)
class Rescue:
    """Where a conversation goes that its owner has left: a human queue, and the data of `owner.changed`.

    `handing` is the data of the records of the handoff, without `from`; without it there are none.
    """

    queue_id: str
    change: Mapping[str, Any]
    handing: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a client stands in the log: the id of the last event that it has. `0-0`: it has none."""

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that an event's id names; ValueError when the text is none."""
        epoch, dash, seq = text.partition("-")
        if not (dash and epoch.isascii() and epoch.isdigit() and seq.isascii() and seq.isdigit()):
            raise ValueError("a position looks like 1700000000000-12, got something else")
        return cls(int(epoch), int(seq))


class ResumeState(StrEnum):
    """OK: `events` follow what the client has. Anything else: it must drop what it has and read from the start.

    TRIMMED: events in between are gone. ROLLED_BACK: the log has another event in that place (a failover lost the
    client's). AHEAD: the client has seen more than there is (the same, or another server).
    """

    OK = "ok"
    TRIMMED = "trimmed"
    ROLLED_BACK = "rolled_back"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class Resumed:
    """The answer to a client that comes back. `seq` and `epoch` are where the conversation is now."""

    state: ResumeState
    seq: int
    epoch: int
    events: tuple[Event, ...] = ()
