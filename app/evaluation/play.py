"""Playing conversations on a desk: the real router over a real store, with the offline model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents import ModelProvider, ModelSettings

from app.offline.provider import OfflineProvider
from handoffs.encoder import Encoder
from handoffs.roster import AgentSpec, Roster
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.connect import connect
from sessions.live import Feed, Live
from sessions.model import Event
from sessions.store import Store

TURN_S = 30.0  # a turn takes some 30 ms; one that takes this long is stuck


@dataclass(frozen=True)
class Outcome:
    """After one message: who owns the conversation, the owners it passed through, what the customer was told."""

    owner: str
    passed: tuple[str, ...]
    answer: str


class Player(Protocol):
    """Plays a customer's messages one after the other; one outcome a message."""

    async def play(self, conversation_id: str, messages: Sequence[str]) -> list[Outcome]: ...


@dataclass(frozen=True)
class OfflineModels:
    """`handoffs.team.Models` for a roster that only the offline model answers for."""

    provider: ModelProvider
    settings: ModelSettings

    def name_for(self, agent: AgentSpec) -> str:
        return f"offline/{agent.id}"


class RouterPlayer:
    """A `Player` over a running router. One conversation at a time: the work is CPU-bound anyway."""

    def __init__(self, router: Router, live: Live, start: str) -> None:
        self._router = router
        self._live = live
        self._start = start

    async def play(self, conversation_id: str, messages: Sequence[str]) -> list[Outcome]:
        """Owners are agent ids. TimeoutError when a turn does not end within 30 s."""
        outcomes: list[Outcome] = []
        owner = self._start
        async with self._live.follow(conversation_id) as feed:
            for number, text in enumerate(messages):
                async with asyncio.timeout(TURN_S):
                    await self._router.receive(conversation_id, CustomerMessage(f"m{number}", text))
                    outcome = await self._outcome(feed, owner)
                outcomes.append(outcome)
                owner = outcome.owner
        return outcomes

    async def _outcome(self, feed: Feed, owner: str) -> Outcome:
        passed: list[str] = []
        async for item in feed:
            if not isinstance(item, Event):
                continue
            if item.type == "owner.changed":
                passed.append(item.owner_to.partition(":")[2])
            if item.type == "msg.created" and item.by.startswith("ai:"):
                while self._router.running:  # noqa: ASYNC110 - the answer is stored, the turn's task is about to end
                    await asyncio.sleep(0.001)
                return Outcome(passed[-1] if passed else owner, tuple(passed), str(item.data.get("text", "")))
        raise AssertionError("a feed does not end")


@asynccontextmanager
async def player_for(roster: Roster, encoder: Encoder, data_dir: Path) -> AsyncIterator[RouterPlayer]:
    """A router with an embedded store in `data_dir`, running until the block ends."""
    provider = OfflineProvider(roster, encoder, delay_s=0)
    await asyncio.to_thread(provider.warm)
    team = await asyncio.to_thread(
        lambda: Team.load(roster, OfflineModels(provider, ModelSettings()), data_dir=data_dir, encoder=encoder)
    )
    backend = await connect(None, data_dir=data_dir)
    try:
        store = Store(backend)
        live = Live(backend, store)
        await live.start()
        router = Router(store, live, team)
        try:
            yield RouterPlayer(router, live, roster.desk.start)
        finally:
            await router.stop(1.0)
            await live.stop()
    finally:
        await backend.close()
