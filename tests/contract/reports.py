"""A desk for the tests of public reports: a real store and router, scripted models, and what a test asks about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import FunctionTool, Model
from agents.testing import ScriptedModel

from handoffs.ledger import journalled
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Person, Router
from handoffs.team import Team
from sessions.live import Live
from sessions.model import Event, Owner
from sessions.store import Store
from tests.handoffs.desks import ScriptedModels, shop
from tests.support import wait_until

ANN = Person("ann", "Ann")
PEOPLE = Owner.queue("support")


@dataclass
class Stage:
    """One conversation on one desk. `say` sends a message and waits until the customer (or a person) is next."""

    store: Store
    live: Live
    folder: Path
    cid: str
    router: Router = field(init=False)
    sent: int = 0

    def open(
        self,
        models: Mapping[str, Model],
        roster: Roster | None = None,
        tools: Mapping[str, Sequence[FunctionTool]] | None = None,
    ) -> Router:
        """A router as a process that has just started has it; `tools` by agent id, once-only like all tools."""
        team = Team.load(roster or shop(), ScriptedModels(models), data_dir=self.folder)
        if tools:
            given = {
                agent_id: tuple(journalled(tool, "human:support") for tool in own) for agent_id, own in tools.items()
            }
            own_tools = {**team.tools, **given}
            team = Team(team.roster, team.models, own_tools, self.folder)
        self.router = Router(self.store, self.live, team, sweep_s=0.2)
        return self.router

    async def say(self, text: str, cid: str = "") -> list[Event]:
        """The whole log after the turn that answers `text`."""
        self.sent += 1
        await self.router.receive(cid or self.cid, CustomerMessage(f"m{self.sent}", text))
        await self.rest()
        return await self.log(cid)

    async def rest(self) -> None:
        """Wait until no turn runs here."""
        await wait_until("the turns end", lambda: self.router.running == 0)

    async def log(self, cid: str = "") -> list[Event]:
        return await self.store.read(cid or self.cid)

    async def owner(self, cid: str = "") -> Owner:
        return (await self.store.get(cid or self.cid)).owner

    async def waiting(self, cid: str = "") -> int:
        return (await self.store.get(cid or self.cid)).waiting

    async def history(self, agent_id: str) -> list[dict[str, Any]]:
        return [dict(item) for item in await self.store.history(self.cid, agent_id)]


def answers(events: Sequence[Event]) -> list[str]:
    """What agents and people said, in order."""
    return [str(event.data["text"]) for event in events if event.type == "msg.created" and event.by != "customer"]


def told(events: Sequence[Event]) -> list[str]:
    """All that the customer reads of the desk: answers, announcements, notices."""
    return [str(event.data["text"]) for event in events if event.by != "customer" and event.data.get("text")]


def of_type(events: Sequence[Event], *types: str) -> list[Event]:
    return [event for event in events if event.type in types]


def moves(events: Sequence[Event]) -> list[str]:
    """The owners after each change."""
    return [event.owner_to for event in events if event.type == "owner.changed"]


def targets(model: ScriptedModel, call: int = 0) -> list[str]:
    """What `transfer_to_agent` offered in a call of a model; nothing when it was not offered."""
    for tool in model.calls[call].tools:
        if isinstance(tool, FunctionTool) and tool.name == "transfer_to_agent":
            found: list[str] = tool.params_json_schema["properties"]["agent_id"]["enum"]
            return found
    return []


def seen(model: ScriptedModel, call: int = 0) -> list[dict[str, Any]]:
    """The items that a model read in a call."""
    given = model.calls[call].input
    return [dict(item) for item in given] if not isinstance(given, str) else [{"role": "user", "content": given}]


def unpaired(items: Sequence[Mapping[str, Any]]) -> list[str]:
    """Call ids that have a call without a result or the other way round, or more than one of either."""
    calls = [str(item["call_id"]) for item in items if item.get("type") == "function_call"]
    results = [str(item["call_id"]) for item in items if item.get("type") == "function_call_output"]
    return [call for call in {*calls, *results} if calls.count(call) != 1 or results.count(call) != 1]
