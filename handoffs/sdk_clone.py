"""An agent of the OpenAI Agents SDK made ready for a turn: a copy with our rules, tools and routes put over it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

from agents import (
    Agent,
    FunctionTool,
    FunctionToolResult,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelSettings,
    OutputGuardrail,
    RunContextWrapper,
    Tool,
    ToolsToFinalOutputResult,
)
from agents.lifecycle import AgentHooksBase
from agents.tool_context import ToolContext

from handoffs.context import TurnContext
from handoffs.sdk_handoffs import calling_back, described, narrowed, switched_off
from handoffs.sdk_source import SdkAgent
from handoffs.tools import TRANSFER, end_on_request, with_invocation

Guard = Callable[[str, FunctionTool], FunctionTool]


def own_tools(sdk: SdkAgent) -> dict[str, FunctionTool]:
    """The agent's function tools by name, each called with the context that it expects."""
    return {tool.name: _with_own_context(tool, sdk) for tool in sdk.agent.tools if isinstance(tool, FunctionTool)}


def _with_own_context(tool: FunctionTool, sdk: SdkAgent) -> FunctionTool:
    async def invoke(ctx: ToolContext[TurnContext], arguments: str) -> Any:
        return await tool.on_invoke_tool(sdk.seen(ctx), arguments)

    changed = with_invocation(tool, invoke)
    # `True` is in the route's `approval` already; a rule of the author's is asked about each call
    changed.needs_approval = sdk.own(tool.needs_approval) if callable(tool.needs_approval) else False
    if callable(tool.is_enabled):
        changed.is_enabled = sdk.own(tool.is_enabled)
    return changed


def clone_of(sdk: SdkAgent, made: Agent[TurnContext], guard: Guard) -> Agent[TurnContext]:
    """A copy of the agent that runs in a turn as `made` would, with everything of its own that `made` does not have.

    `guard` is what this desk puts around a tool (the ledger, approvals); tools of MCP servers get it when they are
    listed, before each call of the model.
    """
    agent = sdk.agent
    hosted = [tool for tool in agent.tools if not isinstance(tool, FunctionTool)]
    values = {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent) if field.init}
    values |= {
        "name": made.name,  # the id: approvals and saved runs find the agent by it
        "tools": [*(_transfer(tool, sdk) for tool in made.tools), *hosted],
        "handoffs": [],
        "instructions": _instructions(sdk, made),
        "model": agent.model if agent.model is not None and not isinstance(agent.model, str) else made.model,
        "model_settings": _settings(made.model_settings, agent),
        "tool_use_behavior": _behaviour(sdk),
        "input_guardrails": [*(_own_guardrail(sdk, one) for one in agent.input_guardrails), *made.input_guardrails],
        "output_guardrails": [
            *(spared(one, sdk.knows(one.guardrail_function)) for one in agent.output_guardrails),
            *made.output_guardrails,
        ],
        "hooks": _Hooks(sdk, agent.hooks) if agent.hooks is not None else None,
    }
    clone = _desk_class(type(agent))(**values)
    object.__setattr__(clone, "_desk", (sdk, guard))
    return cast("Agent[TurnContext]", clone)


def _transfer(tool: Tool, sdk: SdkAgent) -> Tool:
    if tool.name != TRANSFER or not isinstance(tool, FunctionTool):
        return tool
    return calling_back(described(tool, sdk.handoffs), sdk, sdk.handoffs)


def _settings(desk: ModelSettings, agent: Agent[Any]) -> ModelSettings:
    """The desk's time-outs and retries, under what the agent says itself."""
    return desk.resolve(agent.model_settings)


def _instructions(sdk: SdkAgent, made: Agent[TurnContext]) -> Callable[..., Awaitable[str]]:
    """The author's own instructions, asked anew before each call of the model, then how this desk works."""
    own = sdk.agent.instructions

    async def instructions(ctx: RunContextWrapper[TurnContext], _: Agent[TurnContext]) -> str:
        text = await made.get_system_prompt(ctx) or ""
        if not callable(own):
            return text  # `made` has it already
        given = own(sdk.seen(ctx), sdk.agent)
        mine = await given if inspect.isawaitable(given) else given
        return f"{mine.strip()}{text}"

    return instructions


def _behaviour(sdk: SdkAgent) -> Callable[..., Awaitable[ToolsToFinalOutputResult]]:
    """End when a transfer was recorded; else as the agent's own `tool_use_behavior` says about its own tools."""
    behaviour = sdk.agent.tool_use_behavior

    async def decide(
        ctx: RunContextWrapper[TurnContext], results: list[FunctionToolResult]
    ) -> ToolsToFinalOutputResult:
        ours = end_on_request(ctx, results)
        own = [result for result in results if result.tool.name != TRANSFER]
        if ours.is_final_output or not own:
            return ours
        if callable(behaviour):
            answer = behaviour(sdk.seen(ctx), own)
            return await answer if inspect.isawaitable(answer) else answer
        if behaviour == "stop_on_first_tool":
            return ToolsToFinalOutputResult(is_final_output=True, final_output=own[0].output)
        names = behaviour.get("stop_at_tool_names", []) if isinstance(behaviour, dict) else []
        for result in own:
            if result.tool.name in names or result.tool.qualified_name in names:
                return ToolsToFinalOutputResult(is_final_output=True, final_output=result.output)
        return ToolsToFinalOutputResult(is_final_output=False, final_output=None)

    return decide


def _own_guardrail(sdk: SdkAgent, guardrail: InputGuardrail[Any]) -> InputGuardrail[Any]:
    check = sdk.knows(guardrail.guardrail_function)
    return dataclasses.replace(guardrail, guardrail_function=check, name=guardrail.get_name())


def spared(guardrail: OutputGuardrail[Any], inner: Callable[..., Any]) -> OutputGuardrail[Any]:
    """The output guardrail with `inner` as its function, which is not asked when a run ends with a transfer."""

    async def check(ctx: RunContextWrapper[TurnContext], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        if ctx.context.request is not None:
            return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
        answer = inner(ctx, agent, output)
        found: GuardrailFunctionOutput = await answer if inspect.isawaitable(answer) else answer
        return found

    return dataclasses.replace(guardrail, guardrail_function=check, name=guardrail.get_name())


class _Hooks(AgentHooksBase[TurnContext, Any]):
    """The agent's own hooks, called with the context and the agent that their author knows."""

    def __init__(self, sdk: SdkAgent, hooks: Any) -> None:
        for name in (name for name in dir(AgentHooksBase) if name.startswith("on_")):
            setattr(self, name, _hook(sdk, getattr(hooks, name)))


def _hook(sdk: SdkAgent, inner: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    known = sdk.knows(inner)

    async def call(context: RunContextWrapper[Any], agent: Agent[Any], *args: Any, **named: Any) -> None:
        await known(context, agent, *args, **named)

    return call


def _desk_class(base: type[Agent[Any]]) -> type[Agent[Any]]:
    if base not in _CLASSES:
        _CLASSES[base] = _make_desk_class(base)
    return _CLASSES[base]


_CLASSES: dict[type[Agent[Any]], type[Agent[Any]]] = {}


def _make_desk_class(base: type[Agent[Any]]) -> type[Agent[Any]]:
    """`base` whose tools are looked at before each call of the model: MCP tools guarded, switched-off targets gone."""

    async def get_mcp_tools(self: Any, run_context: RunContextWrapper[Any]) -> list[Tool]:
        sdk, guard = self._desk
        tools = await base.get_mcp_tools(self, run_context)
        return [
            guard(tool.name, _with_own_context(tool, sdk)) if isinstance(tool, FunctionTool) else tool for tool in tools
        ]

    async def get_all_tools(self: Any, run_context: RunContextWrapper[Any]) -> list[Tool]:
        sdk, _ = self._desk
        tools = await base.get_all_tools(self, run_context)
        off = await switched_off(sdk, sdk.handoffs, run_context)
        if not off:
            return tools
        return [left for tool in tools if (left := _left(tool, run_context.context, off)) is not None]

    return type(base.__name__, (base,), {"get_mcp_tools": get_mcp_tools, "get_all_tools": get_all_tools})


def _left(tool: Tool, turn: TurnContext, off: tuple[str, ...]) -> Tool | None:
    return narrowed(tool, turn, off) if isinstance(tool, FunctionTool) and tool.name == TRANSFER else tool
