"""The contestants of the turn bench: Frontdesk, and the OpenAI Agents SDK with its own sessions, on the same server.

Each is prepared with a conversation of `history` customer-visible messages and then plays one turn at a time, streamed.
"""

from __future__ import annotations

import itertools
import secrets
import tempfile
from pathlib import Path
from typing import Any, Protocol

from agents import Agent, RunConfig, Runner
from agents.extensions.memory.redis_session import RedisSession
from agents.memory import SessionSettings
from redis.asyncio import Redis

from bench.lines import QUESTION, earlier
from bench.model import InstantModels
from handoffs.roster import AgentSpec, DeskSpec, Roster
from handoffs.team import Team
from handoffs.turn import Turn
from sessions.connect import Backend
from sessions.model import NewEvent, Owner
from sessions.store import Store

TURNS = ("plain", "handoff")  # plain: billing owns already; handoff: triage transfers to billing, which answers
CHUNK = 50  # messages written at once while a conversation is prepared: one huge script leaves garbage in Valkey's Lua
BY = {"user": "customer", "assistant": ""}  # an empty `by` is the owner
_names = (f"{secrets.token_hex(4)}{n}" for n in itertools.count(1))  # several processes share a server


class Contestant(Protocol):
    name: str

    async def prepare(self, kind: str, history: int) -> Any:
        """A fresh conversation with that many earlier messages, ready for one turn."""
        ...

    async def play(self, ready: Any) -> None:
        """One turn, to the last character."""
        ...


class Frontdesk:
    """Our router on our store: ownership, fences, events and durability included."""

    name = "frontdesk"

    def __init__(self, backend: Backend) -> None:
        self.store = Store(backend)
        agents = (
            AgentSpec(id="triage", intended_use="Everything.", transfer_to=("billing",), instructions="You are triage"),
            AgentSpec(id="billing", intended_use="Money.", instructions="You are billing"),
        )
        desk = DeskSpec.model_validate({"name": "Bench", "start": "triage", "queues": {"people": {"name": "People"}}})
        roster = Roster(desk=desk, agents={agent.id: agent for agent in agents}, version="bench")
        self.team = Team.load(roster, InstantModels(), data_dir=Path(tempfile.gettempdir()))

    async def prepare(self, kind: str, history: int) -> tuple[str, str]:
        """The messages are in the log, and in the history of the agent that owned them."""
        conversation_id = f"b{next(_names)}"
        owner = "billing" if kind == "plain" else "triage"
        receipt = await self.store.enqueue(
            conversation_id, "m0", {"id": "m0", "text": "hello"}, start=Owner.ai(owner), claim=True
        )
        assert receipt.grant is not None
        token = receipt.grant.token
        items = earlier(history)
        for start in range(0, history, CHUNK):
            part = items[start : start + CHUNK]
            events = [
                NewEvent("msg.created", {"id": f"m{start + n}", "text": item["content"]}, by=BY[item["role"]])
                for n, item in enumerate(part)
            ]
            await self.store.commit(
                conversation_id, token, f"prepare{start}", events=events, agent_id=owner, items=part
            )
        await self.store.commit(conversation_id, token, "prepared", answered=1)
        return conversation_id, owner

    async def play(self, ready: tuple[str, str]) -> None:
        conversation_id, owner = ready  # a process remembers the owners of its conversations, as the router does
        number = next(_names)
        data = {"id": f"q{number}", "text": QUESTION}
        receipt = await self.store.enqueue(
            conversation_id, f"q{number}", data, start=Owner.ai("triage"), claim=True, hint=owner
        )
        assert receipt.grant is not None
        await Turn(self.store, self.team, receipt.grant).run()


class SdkRedis:
    """The SDK's own RedisSession and native handoff; `limit` is the SDK's own way to stay flat."""

    def __init__(self, backend: Backend, limit: int | None = None) -> None:
        self.name = "sdk-redis" if limit is None else f"sdk-redis-limit{limit}"
        self._client = own_client(backend)
        self._settings = SessionSettings(limit=limit)
        model = InstantModels().model
        billing = Agent[None](name="billing", instructions="You are billing", model=model)
        triage = Agent[None](name="triage", instructions="You are triage", model=model, handoffs=[billing])
        self._agents = {"plain": billing, "handoff": triage}

    async def prepare(self, kind: str, history: int) -> tuple[str, Any]:
        session = RedisSession(
            f"b{next(_names)}", redis_client=self._client, key_prefix="sdk", session_settings=self._settings
        )
        if history:
            await session.add_items(earlier(history))  # type: ignore[arg-type]  # plain dicts are what it stores
        return kind, session

    async def play(self, ready: tuple[str, Any]) -> None:
        await stream(self._agents[ready[0]], ready[1])


def own_client(backend: Backend) -> Redis:
    """redis-py as the SDK's `RedisSession.from_url` makes it; our client, made for fail-over, would cost it more."""
    place = backend.cmd.connection_pool.connection_kwargs
    many = 1000  # connections, as many as conversations at once: redis-py stops at 100
    if "path" in place:
        return Redis.from_url(f"unix://{place['path']}", max_connections=many)
    return Redis(**{**place, "max_connections": many})


class SdkMemory:
    """The floor: the SDK without any store; the history is a list in this process."""

    name = "sdk-memory"

    def __init__(self, backend: Backend) -> None:
        self._agents = SdkRedis(backend)._agents

    async def prepare(self, kind: str, history: int) -> tuple[str, list[Any]]:
        return kind, earlier(history)

    async def play(self, ready: tuple[str, list[Any]]) -> None:
        result = Runner.run_streamed(
            self._agents[ready[0]], [*ready[1], {"role": "user", "content": QUESTION}], run_config=QUIET
        )
        async for _ in result.stream_events():
            pass


QUIET = RunConfig(tracing_disabled=True)


async def stream(agent: Agent[None], session: Any) -> None:
    result = Runner.run_streamed(agent, QUESTION, session=session, run_config=QUIET)
    async for _ in result.stream_events():
        pass
