"""A conversation with offline agents over the SDK's own Runner: the router's loop without a store.

Tools, notes and the end of a run are the router's own (handoffs.tools, handoffs.history); what is missing is Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agents import Agent, FunctionTool, ModelProvider, RunConfig, Runner, Tool
from agents.items import ToolCallItem, TResponseInputItem

from handoffs.context import TurnContext
from handoffs.history import customer_item, note
from handoffs.knowledge import Knowledge
from handoffs.policy import Accepted
from handoffs.prompt import transfer_description
from handoffs.roster import HUMAN, AgentSpec, Roster
from handoffs.tools import end_on_request, search_tool, transfer_tool
from handoffs.transfer import Brief, TransferRequest

MAX_HOPS = 4


class SharedValues(dict[str, Any]):
    """The conversation's values, without a contract."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:  # type: ignore[override]  # not a dict's
        self[key] = change(self.get(key))
        return self[key]

    def increment(self, key: str, by: int | float = 1) -> Any:
        return self.update(key, lambda value: (value or 0) + by)

    def again(self, changes: Any) -> tuple[str, ...]:
        raise AssertionError(changes)

    def is_set(self, key: str) -> bool:
        return key in self

    def known(self) -> Iterator[tuple[str, Any]]:
        return iter(self.items())

    def seen_by(self, agent: AgentSpec, *, only_reads: bool = False) -> SharedValues:
        return self


@dataclass
class Turn:
    """What one message led to. `calls` are (agent, tool, arguments as JSON), in order."""

    answer: str = ""
    owner: str = ""
    transfers: list[TransferRequest] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)

    def tools(self) -> list[str]:
        return [name for _, name, _ in self.calls]


@dataclass
class Talk:
    """One conversation. `tools` and `knowledge` are by agent id."""

    roster: Roster
    provider: ModelProvider
    data_dir: Path
    tools: Mapping[str, Sequence[FunctionTool]] = field(default_factory=dict)
    knowledge: Mapping[str, Knowledge] = field(default_factory=dict)
    language: str = "en"
    streamed: bool = False
    owner: str = ""
    histories: dict[str, list[Any]] = field(default_factory=dict)
    values: SharedValues = field(default_factory=SharedValues)
    lines: list[str] = field(default_factory=list)

    async def say(self, *texts: str) -> Turn:
        """The customer writes; agents work until somebody has answered or a person owns the conversation."""
        self.owner = self.owner or self.roster.desk.start
        turn = Turn()
        new: list[Any] = [customer_item(text) for text in texts]
        for _ in range(MAX_HOPS):
            request = await self._run(turn, new)
            if request is None:
                break
            turn.transfers.append(request)
            seed = self.note(self.owner, request.reason, request.brief)
            self.owner = request.to
            if request.to.startswith(HUMAN):
                break
            new = [seed, *(customer_item(text) for text in texts)]
        turn.owner = self.owner
        return turn

    def note(self, sender: str, reason: str, brief: Brief) -> Any:
        return note(sender=sender, reason=reason, brief=brief, lines=())

    async def _run(self, turn: Turn, new: list[Any]) -> TransferRequest | None:
        history = self.histories.setdefault(self.owner, [])
        history += new
        context = TurnContext("c_1", self.owner, 1, self.language, self.values, self.data_dir, decide=Accepted)
        agent = self._agent()
        config = RunConfig(model_provider=self.provider, tracing_disabled=True)
        items = cast("list[TResponseInputItem]", list(history))
        if self.streamed:
            result: Any = Runner.run_streamed(agent, items, context=context, run_config=config)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, items, context=context, run_config=config)
        history[:] = result.to_input_list()
        for item in result.new_items:
            if isinstance(item, ToolCallItem):
                raw: Any = item.raw_item
                turn.calls.append((self.owner, raw.name, raw.arguments))
        if context.request is None:
            turn.answer = str(result.final_output)
        return context.request

    def _agent(self) -> Agent[TurnContext]:
        spec = self.roster[self.owner]
        tools: list[Tool] = [*self.tools.get(spec.id, ())]
        if spec.id in self.knowledge:
            tools.append(search_tool(self.knowledge[spec.id]))
        targets = (*spec.transfer_to, *((spec.returns_to,) if spec.returns_to else ()))
        if targets:
            lines = transfer_description(self.roster, targets, self.language)
            tools.append(transfer_tool(targets, lines))
        return Agent(
            name=spec.id,
            instructions=spec.instructions,
            tools=tools,
            model=f"offline/{spec.id}",
            tool_use_behavior=end_on_request,
        )
