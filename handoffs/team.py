"""A roster made ready to run: tools, knowledge and models put together into agents of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agents import Agent, FunctionTool, ModelProvider, ModelSettings, RunConfig, Tool

from handoffs.context import TurnContext
from handoffs.encoder import Encoder
from handoffs.knowledge import Knowledge, load_passages
from handoffs.policy import Decide, allowed_targets, approval_target, decide
from handoffs.prompt import instructions, transfer_description
from handoffs.roster import AgentSpec, Roster
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState
from handoffs.toolbox import explain_tool_error, load_tools
from handoffs.tools import approval_gate, end_on_request, search_tool, transfer_tool


class Models(Protocol):
    """Which model answers for an agent. `app.models.ModelChoice` is one; tests bring scripted ones."""

    @property
    def provider(self) -> ModelProvider: ...

    @property
    def settings(self) -> ModelSettings: ...

    def name_for(self, agent: AgentSpec) -> str:
        """The name to ask the provider for."""
        ...


@dataclass(frozen=True)
class Team:
    """Everything a turn needs of one roster version. Immutable: a new roster makes a new team."""

    roster: Roster
    models: Models
    tools: Mapping[str, tuple[FunctionTool, ...]]
    data_dir: Path

    @classmethod
    def load(cls, roster: Roster, models: Models, *, data_dir: Path, encoder: Encoder | None = None) -> Team:
        """Load tools and knowledge of every agent. Problems in tools.py files are `frontdesk check`'s to report."""
        toolbox = load_tools(roster)
        tools = {agent.id: _agent_tools(roster, agent, toolbox[agent.id], encoder) for agent in roster.agents.values()}
        return cls(roster, models, tools, data_dir)

    def spec(self, agent_id: str) -> AgentSpec | None:
        """The agent, or None when this roster has none of that id."""
        return self.roster.agents.get(agent_id)

    def agent(
        self, spec: AgentSpec, context: TurnContext, state: RouterState, values: AgentValues
    ) -> Agent[TurnContext]:
        """The SDK agent for one run: its own tools, and `transfer_to_agent` over the targets allowed right now."""
        has_value = values.is_set
        targets = allowed_targets(self.roster, spec, has_value)
        context.allowed_targets = targets
        tools: list[Tool] = [*self.tools[spec.id]]
        if targets:
            choose: Decide = lambda to: decide(  # noqa: E731  # a name for the argument below
                self.roster, spec, to, state=state, allowed=targets, has_value=has_value
            )
            tools.append(transfer_tool(targets, transfer_description(self.roster, targets, context.language), choose))
        return Agent(
            name=spec.id,
            instructions=instructions(
                self.roster, spec, language=context.language, targets=targets, values=values.known()
            ),
            tools=tools,
            model=self.models.name_for(spec),
            model_settings=self.models.settings,
            tool_use_behavior=end_on_request,
        )

    def run_config(self, conversation_id: str) -> RunConfig:
        """The same for every run: errors of the model go back to the model, nothing leaves the machine by tracing."""
        return RunConfig(
            model_provider=self.models.provider,
            tracing_disabled=True,
            trace_include_sensitive_data=False,
            workflow_name="frontdesk",
            group_id=conversation_id,
            tool_not_found_behavior="return_error_to_model",
            tool_name_collision_policy="error",
            tool_error_formatter=explain_tool_error,
        )


def _agent_tools(
    roster: Roster, agent: AgentSpec, own: Mapping[str, FunctionTool], encoder: Encoder | None
) -> tuple[FunctionTool, ...]:
    gate = approval_target(roster, agent)
    tools = [approval_gate(tool, gate) if name in agent.approval else tool for name, tool in own.items()]
    passages = load_passages(agent.folder / "knowledge")
    if passages:
        tools.append(search_tool(Knowledge(passages, encoder)))
    return tuple(tools)
