"""The plain data of the store. Frozen dataclasses, no I/O; every time is in milliseconds of Redis' clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    `owner_from` and `owner_to` are set on `owner.changed` only, by the script that changed the owner.
    """

    seq: int
    epoch: int
    type: str
    at: int
    by: str
    data: dict[str, Any]
    owner_from: str = ""
    owner_to: str = ""

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


@dataclass(frozen=True, slots=True)
class Grant:
    """A worker's right to run a turn, with all it needs: one script call gives it.

    `history` is the owner's isolated history (the newest items, oldest first). `log` gives the newest events, oldest
    first, and reads them out of the reply only when asked: a plain turn never does.
    """

    conversation: Conversation
    token: Token
    pending: tuple[Pending, ...]
    values: Mapping[str, Value]
    history: tuple[Item, ...]
    log: Callable[[], tuple[Event, ...]] = tuple

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
