"""A roster made ready to run: tools, knowledge and models put together into agents of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Protocol

from agents import Agent, FunctionTool, ModelProvider, ModelSettings, RunConfig, RunContextWrapper, Tool

from handoffs.approvals import gated
from handoffs.ask import ask_tools
from handoffs.context import TurnContext
from handoffs.delegate import delegate_tools
from handoffs.encoder import Encoder
from handoffs.guardrails import of_agent
from handoffs.host import ToolUse, behaviour_of, host_tools
from handoffs.knowledge import Knowledge, load_passages
from handoffs.ledger import journalled
from handoffs.policy import allowed_targets, approval_target, decide
from handoffs.prompt import instructions, known_values, transfer_description
from handoffs.roster import HUMAN, AgentSpec, Roster
from handoffs.sdk_clone import clone_of, own_tools
from handoffs.state import RouterState
from handoffs.toolbox import explain_tool_error, load_tools
from handoffs.tools import apart, search_tool, transfer_tool


class Models(Protocol):
    """Which model answers for an agent. `app.models.ModelChoice` is one; tests bring scripted ones."""

    @property
    def provider(self) -> ModelProvider: ...

    @property
    def settings(self) -> ModelSettings: ...

    def name_for(self, agent: AgentSpec) -> str:
        """The name to ask the provider for."""
        ...


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Team:
    """Everything a turn needs of one roster version. Immutable: a new roster makes a new team."""

    roster: Roster
    models: Models
    tools: Mapping[str, tuple[FunctionTool, ...]]
    data_dir: Path
    clock: Callable[[], datetime] = _now
    _agents: dict[tuple[str, tuple[str, ...], str], Agent[TurnContext]] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, roster: Roster, models: Models, *, data_dir: Path, encoder: Encoder | None = None) -> Team:
        """Load tools and knowledge of every agent. Problems in tools.py files are `frontdesk check`'s to report."""
        toolbox = load_tools(roster)
        own = {a.id: own_tools(a.sdk) if a.sdk is not None else toolbox[a.id] for a in roster.agents.values()}
        tools = {agent.id: _agent_tools(roster, agent, own[agent.id], encoder) for agent in roster.agents.values()}
        return cls(roster, models, tools, data_dir)

    def spec(self, agent_id: str) -> AgentSpec | None:
        """The agent, or None when this roster has none of that id."""
        return self.roster.agents.get(agent_id)

    def closed(self, target: str) -> bool:
        """Whether the people of this queue are away and its file says that agents must not hand over then."""
        queue = self.roster.desk.queues.get(target.removeprefix(HUMAN))
        return queue is not None and queue.when_closed == "refuse" and not queue.is_open(self.clock())

    def agent(self, spec: AgentSpec, context: TurnContext, state: RouterState) -> Agent[TurnContext]:
        """The SDK agent for one run: its own tools, and `transfer_to_agent` over the targets allowed right now.

        Agents are made once for each set of allowed targets and language, and shared by all runs: what differs from
        run to run is in `context`, which the instructions and the tools read.
        """
        has_value = context.values.is_set
        targets = allowed_targets(self.roster, spec, has_value, self.closed)
        context.allowed_targets = targets
        context.decide = lambda to: decide(self.roster, spec, to, state=state, allowed=targets, has_value=has_value)
        if spec.colleagues:
            context.deadline = asyncio.get_running_loop().time() + spec.limits.seconds
        key = (spec.id, targets, context.language)
        if key not in self._agents:
            self._agents[key] = self._make(spec, targets, context.language)
        return self._agents[key]

    def _make(self, spec: AgentSpec, targets: tuple[str, ...], language: str) -> Agent[TurnContext]:
        tools: list[Tool] = [*self.tools[spec.id], *self.colleagues(spec, language)]
        if targets:
            tools.append(transfer_tool(targets, transfer_description(self.roster, targets, language)))
        text = instructions(self.roster, spec, language=language, targets=targets)

        def with_values(run: RunContextWrapper[TurnContext], _: Agent[TurnContext]) -> str:
            return text + known_values(run.context.values.known())

        inputs, outputs = of_agent(self.roster, spec)
        made = Agent(
            name=spec.id,
            instructions=with_values,
            tools=tools,
            model=self.models.name_for(spec),
            model_settings=self.models.settings,
            tool_use_behavior=self.behaviour(spec),
            input_guardrails=inputs,
            output_guardrails=outputs,
        )
        return self.dressed(spec, made)

    def colleagues(self, spec: AgentSpec, language: str, depth: int = 1) -> list[Tool]:
        """The tools by which this agent has others answer while it keeps the conversation."""
        if not spec.colleagues:
            return []
        ways = (ask_tools, host_tools, delegate_tools)
        return [tool for way in ways for tool in way(self, spec, language, depth)]

    def behaviour(self, spec: AgentSpec) -> ToolUse:
        """When a run of this agent ends after a tool."""
        return behaviour_of(self.roster, spec)

    def dressed(self, spec: AgentSpec, made: Agent[TurnContext]) -> Agent[TurnContext]:
        """`made`; for an agent of the SDK its own copy that runs as `made` would."""
        if spec.sdk is None:
            return made
        people = approval_target(self.roster, spec)
        return clone_of(spec.sdk, made, lambda name, tool: _guarded(spec, name, tool, people))

    @cached_property
    def run_config(self) -> RunConfig:
        """The same for every run: errors of the model go back to the model, nothing leaves the machine by tracing."""
        return RunConfig(
            model_provider=self.models.provider,
            tracing_disabled=True,
            trace_include_sensitive_data=False,
            workflow_name="frontdesk",
            tool_not_found_behavior="return_error_to_model",
            tool_name_collision_policy="error",
            tool_error_formatter=explain_tool_error,
        )


def _guarded(agent: AgentSpec, name: str, tool: FunctionTool, people: str) -> FunctionTool:
    if name in agent.approval or name in agent.confirm:
        return gated(tool, people)
    if tool.needs_approval:  # an SDK agent's own rule says for which calls
        return gated(tool, people, always=False)
    return tool if name in agent.read_only else journalled(tool, people)


def _agent_tools(
    roster: Roster, agent: AgentSpec, own: Mapping[str, FunctionTool], encoder: Encoder | None
) -> tuple[FunctionTool, ...]:
    gate = approval_target(roster, agent)
    tools = [_guarded(agent, name, apart(tool), gate) for name, tool in own.items()]
    passages = load_passages(agent.folder / "knowledge")
    if passages:
        tools.append(search_tool(Knowledge(passages, encoder)))
    return tuple(tools)
