"""A model that only asks for a transfer, and may have it, is done: nothing is left for the Runner to do.

The Runner would run the tool, look at its result and end: the same records, for more than half of the run's cost
(bench/turns.py).
Whatever is less plain (a refusal, a second call, hooks or guardrails that want to see it) goes the Runner's way.
"""

from __future__ import annotations

from typing import Any

from agents import Agent, ModelResponse
from pydantic import ValidationError

from handoffs.context import TurnContext
from handoffs.policy import Refused
from handoffs.tools import TRANSFER, TransferArguments, end_on_request, record
from sessions.model import Item


class RunOver(Exception):
    """Ends a run from inside its model: a transfer was recorded. `items` are what the model and the tool gave."""

    def __init__(self, items: list[Item]) -> None:
        super().__init__("a transfer was recorded")
        self.items = items


def plain(agent: Agent[Any]) -> bool:
    """Whether nobody but the router looks at what happens in a run of `agent`."""
    return (
        agent.hooks is None
        and agent.tool_use_behavior is end_on_request
        and not agent.input_guardrails
        and not agent.output_guardrails
    )


def end_on_lone_transfer(context: TurnContext, response: ModelResponse) -> None:
    """Record the transfer and raise RunOver when `response` asks for one that is accepted, and for nothing else."""
    calls = [item for item in response.output if str(getattr(item, "type", "")).endswith("_call")]
    if len(calls) != 1 or getattr(calls[0], "name", "") != TRANSFER or not context.allowed_targets:
        return
    call: Any = calls[0]
    try:
        asked = TransferArguments.model_validate_json(call.arguments or "{}")
    except ValidationError:
        return
    if context.request is not None or isinstance(context.decide(asked.agent_id), Refused):
        return
    result = record(context, asked, call.call_id)
    output: Item = {"type": "function_call_output", "call_id": call.call_id, "output": result}
    raise RunOver([*(dict(item) for item in response.to_input_items()), output])
