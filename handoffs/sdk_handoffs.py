"""The SDK's native handoffs as routes of ours: what of a `handoff(...)` is kept, and what is refused with a reason.

A native handoff becomes a target of `transfer_to_agent`. Its `on_handoff` runs when a transfer is accepted, with the
arguments of its `input_type`; its `is_enabled` is asked before each call of the model.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from agents import Agent, FunctionTool, Handoff, ModelBehaviorError, RunContextWrapper, handoff
from agents.extensions.handoff_filters import remove_all_tools
from agents.tool_context import ToolContext

from handoffs.context import TurnContext
from handoffs.errors import Problem
from handoffs.policy import Refused
from handoffs.sdk_source import SdkAgent
from handoffs.tools import TRANSFER, transfer_schema, with_invocation

log = logging.getLogger("frontdesk.sdk")

INPUT = "input"  # of transfer_to_agent: the arguments of a handoff's input_type
FILTERS = (remove_all_tools,)  # what our `history: {mode: messages}` does anyway
Handoffs = Mapping[str, Handoff[Any, Any]]


def leads_to(made: Handoff[Any, Any]) -> Agent[Any] | None:
    """The agent that a `handoff(agent, ...)` was made for; None for a Handoff that was put together by hand."""
    reference = made._agent_ref
    found = reference() if reference is not None else None
    return found if isinstance(found, Agent) else None


def from_handoffs(agent: Agent[Any], ids: Mapping[str, str]) -> tuple[dict[str, Handoff[Any, Any]], list[Problem]]:
    """Target id -> Handoff for the native handoffs of `agent`, in their order; and what cannot be kept of them."""
    found: dict[str, Handoff[Any, Any]] = {}
    problems: list[Problem] = []
    for place, one in enumerate(agent.handoffs):
        made = one if isinstance(one, Handoff) else handoff(one, tool_name_override=TRANSFER)  # its own could collide
        target = leads_to(made)
        id_ = ids.get(target.name, "") if target is not None else ""
        why = "there is a second handoff to the same agent" if id_ in found else _why_not(made, target)
        if why:
            problems.append(Problem(f"agent {agent.name!r}", 0, f"handoffs.{place}", why))
        elif made.is_enabled is not False:
            found[id_] = made
    return found, problems


def _why_not(made: Handoff[Any, Any], target: Agent[Any] | None) -> str:
    if target is None:
        return (
            f"this Handoff to {made.agent_name!r} was not made by handoff(agent, ...), so nobody knows who it leads to"
        )
    if made.input_filter is not None and made.input_filter not in FILTERS:
        return (
            f"input_filter is not used here: what {target.name!r} sees is its own `history`. Remove the filter and use "
            "with_route(agent, history={...}) for that agent, see docs/how-to/use-sdk-agents.md"
        )
    return ""


def described(tool: FunctionTool, handoffs: Handoffs) -> FunctionTool:
    """`transfer_to_agent` with the descriptions that handoffs bring, and `input` for those that have an input_type."""
    lines = [f"About {id_}: {words}" for id_, made in handoffs.items() if (words := _own_words(made))]
    inputs = {id_: made.input_json_schema for id_, made in handoffs.items() if made.input_json_schema.get("properties")}
    changed = with_invocation(tool, tool.on_invoke_tool)
    changed.description = "\n".join([tool.description, *lines])
    if inputs:
        changed.params_json_schema = with_input(tool.params_json_schema, inputs)
    return changed


def _own_words(made: Handoff[Any, Any]) -> str:
    target = leads_to(made)
    default = Handoff.default_tool_description(target) if target is not None else ""
    return "" if made.tool_description == default else made.tool_description


def with_input(schema: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of `transfer_to_agent` with a property `input`: an object for one of these targets, or null."""
    branches: list[dict[str, Any]] = []
    shared: dict[str, Any] = {}
    for id_, wanted in inputs.items():
        text = json.dumps({**wanted, "description": f"For {id_}"}).replace('"#/$defs/', f'"#/$defs/{id_}_')
        branch = json.loads(text)
        shared |= {f"{id_}_{name}": part for name, part in branch.pop("$defs", {}).items()}
        branches.append(branch)
    what = f"What {', '.join(inputs)} must be told; null for every other target"
    properties = {**schema["properties"], INPUT: {"anyOf": [*branches, {"type": "null"}], "description": what}}
    whole = {**schema, "properties": properties, "required": list(properties)}
    return {**whole, "$defs": shared} if shared else whole


def calling_back(tool: FunctionTool, sdk: SdkAgent, handoffs: Handoffs) -> FunctionTool:
    """`transfer_to_agent` that runs `on_handoff` of the handoff it stands for, once a transfer is accepted."""

    async def invoke(ctx: ToolContext[TurnContext], arguments: str) -> Any:
        turn = ctx.context
        before = turn.request
        to = str(_read(arguments).get("agent_id"))
        if before is None and to in handoffs and to in await switched_off(sdk, {to: handoffs[to]}, ctx):
            return _refuse(turn, to, "this handoff is switched off right now.")
        answer = await tool.on_invoke_tool(ctx, arguments)
        made = handoffs.get(turn.request.to) if turn.request is not None and turn.request is not before else None
        if made is None:
            return answer
        try:
            target = await made.on_invoke_handoff(sdk.seen(ctx), _input(arguments))
            await _tell_hooks(sdk, ctx, target)
        except ModelBehaviorError:
            wanted = json.dumps(made.input_json_schema)
            return _refuse(turn, to, f"`{INPUT}` does not fit; it must be {wanted}.", again=True)
        except Exception:
            log.exception("%s: on_handoff of %s failed", turn.conversation_id, sdk.agent.name)
            return _refuse(turn, to, "something that has to happen before it failed; do not ask for it again now.")
        return answer

    return with_invocation(tool, invoke)


def _read(arguments: str) -> dict[str, Any]:
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _input(arguments: str) -> str:
    """The part of the arguments that the handoff asked for, as JSON; empty when there is none."""
    given = _read(arguments).get(INPUT)
    return "" if given is None else json.dumps(given)


async def _tell_hooks(sdk: SdkAgent, ctx: ToolContext[TurnContext], target: Agent[Any]) -> None:
    """The SDK tells the hooks of the agent that hands off."""
    if sdk.agent.hooks is not None:
        await sdk.agent.hooks.on_handoff(sdk.seen(ctx), agent=target, source=sdk.agent)


def _refuse(turn: TurnContext, to: str, why: str, *, again: bool = False) -> str:
    refused = Refused(to, why, tuple(target for target in turn.allowed_targets if again or target != to))
    turn.request = None
    turn.refusals.append({"to": to, "why": refused.text})
    return refused.text


async def switched_off(sdk: SdkAgent, handoffs: Handoffs, ctx: RunContextWrapper[TurnContext]) -> tuple[str, ...]:
    """The targets whose handoff says `is_enabled` no, right now."""
    off = []
    for id_, made in handoffs.items():
        enabled = made.is_enabled
        if callable(enabled):
            answer = enabled(sdk.seen(ctx), sdk.agent)
            enabled = bool(await answer if inspect.isawaitable(answer) else answer)
        if not enabled:
            off.append(id_)
    return tuple(off)


def narrowed(tool: FunctionTool, turn: TurnContext, off: Sequence[str]) -> FunctionTool | None:
    """`transfer_to_agent` as the model may see it while targets are `off`; None when no target is left."""
    left = tuple(target for target in turn.allowed_targets if target not in off)
    if not left:
        return None
    changed = with_invocation(tool, tool.on_invoke_tool)
    properties = {**tool.params_json_schema["properties"], "agent_id": transfer_schema(left)["properties"]["agent_id"]}
    changed.params_json_schema = {**tool.params_json_schema, "properties": properties}
    return changed
