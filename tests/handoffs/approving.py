"""A desk whose billing agent may refund after approval, and a tool that counts its real executions in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import FunctionTool, Model, RunContextWrapper, function_tool
from agents.testing import function_call

from handoffs.approvals import gated
from handoffs.context import TurnContext
from handoffs.ledger import journalled
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.live import Live
from sessions.model import Approval, Event
from sessions.store import Store
from tests.handoffs.desks import ScriptedModels, agent, roster
from tests.support import wait_until

TOOLS = ("refund", "look_up", "close_account")


def desk(**more: Any) -> Roster:
    """billing (starts; refunds need approval, closing an account the customer's word) and orders."""
    approvals = more.pop("approvals", {})
    return roster(
        agent(
            "billing",
            tools=TOOLS,
            approval=("refund",),
            confirm=("close_account",),
            transfer_to=("orders", "human:support"),
            **more,
        ),
        agent("orders", transfer_to=("billing", "human:support")),
        approvals=approvals,
    )


class Counted:
    """Tools that write each real execution into a file: one line, `tool argument`."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "executions"

    @property
    def executions(self) -> list[str]:
        return self.file.read_text().splitlines() if self.file.exists() else []

    def _ran(self, what: str) -> None:
        with self.file.open("a") as file:
            file.write(what + "\n")

    def tools(self) -> dict[str, FunctionTool]:
        @function_tool
        async def refund(ctx: RunContextWrapper[TurnContext], order: str) -> str:
            """Pay back."""
            self._ran(f"refund {order}")
            return f"Refunded {order}, number {len(self.executions)}."

        @function_tool
        async def look_up(ctx: RunContextWrapper[TurnContext], order: str) -> str:
            """Look up."""
            self._ran(f"look_up {order}")
            return f"{order} was charged twice."

        @function_tool
        async def close_account(ctx: RunContextWrapper[TurnContext]) -> str:
            """Close the account."""
            self._ran("close_account")
            return "Closed."

        return {tool.name: tool for tool in (refund, look_up, close_account)}


def team_for(roster_: Roster, counted: Counted, models: Mapping[str, Model], folder: Path) -> Team:
    """The team of `roster_` whose agents get the counted tools that they list, guarded as agent files say."""
    team = Team.load(roster_, ScriptedModels(models), data_dir=folder)
    tools = {}
    for spec in roster_.agents.values():
        own = [counted.tools()[name] for name in spec.tools]
        tools[spec.id] = tuple(
            gated(tool, "human:support")
            if tool.name in (*spec.approval, *spec.confirm)
            else journalled(tool, "human:support")
            for tool in own
        )
    return replace(team, tools=tools)


def desk_router(
    store: Store, live: Live, roster_: Roster, counted: Counted, models: Mapping[str, Model], folder: Path
) -> Router:
    """One process' router; it sweeps after `start`."""
    return Router(store, live, team_for(roster_, counted, models, folder), sweep_s=0.1)


_calls = iter(range(1, 1_000_000))


def calls(tool: str, **arguments: Any) -> Any:
    """A call of a tool, as a model makes it."""
    return function_call(tool, arguments, call_id=f"ap_call_{next(_calls)}")


async def write(router: Router, conversation_id: str, text: str, message_id: str = "m1") -> None:
    """The customer writes, and the turn that this causes ends."""
    await router.receive(conversation_id, CustomerMessage(message_id, text))
    await wait_until("the turn ends", lambda: router.running == 0)


async def asked(store: Store, conversation_id: str) -> list[Approval]:
    """The approvals that wait, waiting for one."""

    async def waiting() -> list[Approval]:
        return [one for one in await store.approvals(conversation_id) if one.state == "asked" and not one.void]

    found: list[Approval] = await wait_until("an approval waits", waiting)
    return found


async def said(store: Store, conversation_id: str, text: str) -> list[Event]:
    """All events, once an agent has said `text`."""

    async def there() -> list[Event]:
        events = await store.read(conversation_id)
        return events if any(e.type == "msg.created" and e.data["text"] == text for e in events) else []

    found: list[Event] = await wait_until(f"somebody says {text!r}", there)
    return found


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]
