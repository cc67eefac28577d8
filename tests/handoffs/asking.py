"""What tests of agents as tools share: a desk of two, calls as models make them, what was read and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import FunctionTool
from agents.testing import ScriptedModel, function_call
from agents.tool_context import ToolContext

from handoffs.context import TurnContext
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Router
from handoffs.state import RouterState
from handoffs.team import Team
from sessions.model import Event
from tests.handoffs.desks import agent, roster
from tests.support import wait_until

_calls = iter(range(1, 1_000_000))
CHECK = agent("fraud_check", values={"read": ("order",)})
DESK = roster(
    agent("billing", ask=("fraud_check",), transfer_to=("human:support",), values={"write": ("secret", "order")}),
    CHECK,
    values={"secret": {}, "order": {}},
)


def asks(target: str, **arguments: Any) -> Any:
    """A call of `ask_<target>`, as a model makes it."""
    return function_call(f"ask_{target}", arguments, call_id=f"ask_{next(_calls)}")


def calls(name: str, **arguments: Any) -> Any:
    """A call of any tool."""
    return function_call(name, arguments, call_id=f"tool_{next(_calls)}")


async def said(router: Router, conversation_id: str, text: str = "please check", message_id: str = "m1") -> list[Event]:
    """What the log holds when the customer is next."""
    await router.receive(conversation_id, CustomerMessage(message_id, text))
    await wait_until("the turn ends", lambda: router.running == 0)
    return await router.store.read(conversation_id)


def with_tools(router: Router, tools: Mapping[str, tuple[FunctionTool, ...]]) -> Router:
    """The same router, with these tools of agents."""
    team = router.team
    router.team = replace(team, tools={**team.tools, **tools}, _agents={})
    return router


def told(model: ScriptedModel, call: int = 1) -> str:
    """The newest tool result that a model read in its n-th call (from 0)."""
    items: list[Any] = list(model.calls[call].input)
    return str([item["output"] for item in items if item.get("type") == "function_call_output"][-1])


def answers(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.by, event.data["text"]) for event in events if event.type == "msg.created"][1:]


class NoValues:
    """Values of a conversation that has none."""

    def get(self, key: str, default: Any = None) -> Any:
        return default

    def set(self, key: str, value: Any) -> None:
        raise AssertionError(key)

    def increment(self, key: str, by: int | float = 1) -> int | float:
        raise AssertionError(key)

    def update(self, key: str, change: Any) -> Any:
        raise AssertionError(key)

    def again(self, changes: Any) -> tuple[str, ...]:
        raise AssertionError(changes)

    def is_set(self, key: str) -> bool:
        return False

    def known(self) -> Any:
        return iter(())

    def seen_by(self, agent: Any, *, only_reads: bool = False) -> NoValues:
        return self


def context_for(desk: Roster, folder: Path, **more: Any) -> TurnContext:
    """The context of the first agent's run."""
    return TurnContext("c_1", desk.desk.start, 1, "en", NoValues(), folder, **more)


async def invoke(team: Team, context: TurnContext, call: Any) -> str:
    """Call a tool of the start agent by hand."""
    owner = team.agent(team.roster.start, context, RouterState())
    tool = next(tool for tool in owner.tools if isinstance(tool, FunctionTool) and tool.name == call.name)
    wrapper = ToolContext(
        context, tool_name=call.name, tool_call_id=call.call_id, tool_arguments=call.arguments, tool_call=call
    )
    return str(await tool.on_invoke_tool(wrapper, call.arguments))
