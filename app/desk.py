"""The parts of one running desk, as the doors (socket, REST, pages) use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from app.identity import Identity
from app.limits import Buckets, Places
from app.protocol import MAX_TEXT_CHARS, Limits, ModelInfo
from app.settings import Settings
from handoffs.roster import Roster
from handoffs.router import Router
from sessions.connect import Backend
from sessions.errors import UnknownConversation
from sessions.live import Live
from sessions.model import Conversation, Owner
from sessions.store import Store

SOCKETS_PER_VISITOR = 10  # tabs of one browser
SEND_BURST, SEND_PER_S = 10, 1.0  # messages of one visitor
SESSION_BURST, SESSION_PER_S = 60, 0.5  # new tokens for one address: an office behind one router must still get in


class Leaver(Protocol):
    """An open socket that can be told that the server goes."""

    async def say_goodbye(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Times:
    """How long a socket or a stream may be silent, in seconds. Tests make them shorter."""

    hello_s: float = 5.0
    ping_s: float = 25.0  # proxies cut idle connections after 30 to 60 s
    pong_s: float = 10.0
    slow_s: float = 20.0  # an event stream whose reader takes nothing for so long is cut


@dataclass
class Desk:
    """Everything one process has; made in app/building.py, kept in `app.state.desk`."""

    settings: Settings
    backend: Backend
    store: Store
    live: Live
    router: Router
    identity: Identity
    api_key: str
    model_description: str
    offline: bool
    times: Times = Times()
    sends: Buckets = field(default_factory=lambda: Buckets(SEND_BURST, SEND_PER_S))
    sessions: Buckets = field(default_factory=lambda: Buckets(SESSION_BURST, SESSION_PER_S))
    places: Places = field(default_factory=lambda: Places(SOCKETS_PER_VISITOR))
    sockets: set[Leaver] = field(default_factory=set)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def roster(self) -> Roster:
        """The agents in force now: those of the router's team."""
        return self.router.team.roster

    @property
    def limits(self) -> Limits:
        """What a client may send."""
        return Limits(text_chars=min(MAX_TEXT_CHARS, self.settings.max_message_chars))

    @property
    def model(self) -> ModelInfo:
        """What a customer is told about who answers."""
        return ModelInfo(offline=self.offline, name="built-in offline model" if self.offline else "language model")

    def names(self, language: str) -> Callable[[str], str]:
        """How owners are called in `language`."""
        return lambda ref: self.roster.display_name(ref, language)

    async def look(self, conversation_id: str) -> Conversation:
        """The conversation now; one that has no message yet looks as it will when the first one comes."""
        try:
            return await self.store.get(conversation_id)
        except UnknownConversation:
            return Conversation(conversation_id, Owner.ai(self.roster.desk.start), epoch=0, seq=0)

    async def replication_id(self) -> str:
        """What names this Redis' history (see app/lineage.py); `cluster` where every shard has its own."""
        if self.backend.kind == "cluster":
            return "cluster"
        info = await self.backend.cmd.info("replication")
        return str(info.get("master_replid", "unknown"))

    async def drain(self) -> None:
        """Tell every socket to come back in a moment, to another process, and end the event streams."""
        self.leaving.set()
        await asyncio.gather(*(socket.say_goodbye() for socket in tuple(self.sockets)), return_exceptions=True)

    def with_times(self, times: Times) -> Desk:
        """The same desk with other waiting times."""
        return replace(self, times=times)
