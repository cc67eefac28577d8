"""Delegation: an agent hands out parts of its work, one contract each, and puts the results together itself.

`delegate: {to: [prices, stock]}` gives it a tool `delegate_prices`. The other agent gets the contract and nothing else,
may only look things up, and is run again when it fails; what is not delivered is reported as a gap.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agents import Tool
from agents.tool_context import ToolContext
from pydantic import BaseModel, ConfigDict, ValidationError

from handoffs.ask import ASKED, MAX_REQUEST, Way, tool_for
from handoffs.context import TurnContext
from handoffs.history import customer_item
from handoffs.roster import AgentSpec, Roster
from handoffs.typed import Shape, Unfit
from sessions.model import Item

if TYPE_CHECKING:
    from handoffs.team import Team

log = logging.getLogger("frontdesk.delegate")

PREFIX = "delegate_"

CONTRACT = """\
- The request is a contract: deliver exactly what it asks for, in the form that it names, from the facts in it and \
what you can look up. You cannot change anything.
- What you could not find out, list at the end under "Open:"."""


class Contract(BaseModel):
    """What a part of the work is for, what is known, and what must come back."""

    model_config = ConfigDict(extra="ignore")

    goal: str
    facts: tuple[str, ...] = ()
    deliver: str


_SCHEMA = {
    "type": "object",
    "properties": {
        "goal": {"type": "string", "description": "What this part of the work is for, in one sentence"},
        "facts": {"type": "array", "items": {"type": "string"}, "description": "All that is known and needed"},
        "deliver": {"type": "string", "description": "What must come back, and in what form"},
    },
    "required": ["goal", "facts", "deliver"],
    "additionalProperties": False,
}


def delegate_tools(team: Team, caller: AgentSpec, language: str, depth: int = 1) -> list[Tool]:
    """A tool for each agent that `caller` may delegate to. None below the depth that is allowed."""
    if caller.delegate is None or depth > team.roster.desk.limits.ask_depth:
        return []
    found = [team.roster[name] for name in dict.fromkeys(caller.delegate.to) if name in team.roster]
    way = {spec.id: contract_way(team.roster, caller, spec, language) for spec in _readers(found)}
    return [tool_for(team, caller, team.roster[name], way[name], language, depth) for name in way]


def _readers(specs: Iterable[AgentSpec]) -> list[AgentSpec]:
    """Those that can be held to looking things up: what an agent of the SDK may do, only its own code says."""
    for spec in specs:
        if spec.sdk is not None:
            log.warning("%s is an agent of the SDK: nothing is delegated to it", spec.id)
    return [spec for spec in specs if spec.sdk is None]


def contract_way(roster: Roster, caller: AgentSpec, asked: AgentSpec, language: str) -> Way:
    """One contract, its answer read-only work; a failed run is made again."""

    def items(_: ToolContext[TurnContext], sent: str) -> list[Item]:
        return [customer_item(told(contract_in(sent)))]

    return Way(
        rules=f"{ASKED.format(language=language or 'of the customer')}\n{CONTRACT}",
        description=f"{roster.intended_use(asked.id, language)}\n"
        f"Gives {roster.display_name(asked.id, language)} a part of your work to look into. They see nothing but the "
        "contract and change nothing. You may give out several parts at once; put the results together yourself.",
        schema=_SCHEMA,
        items=items,
        result=Shape("result", asked.result) if asked.result else None,
        prefix=PREFIX,
        only_reads=True,
        attempts=caller.delegate.attempts if caller.delegate else 1,
        failed="A gap: {agent} delivered nothing in {attempts} attempts ({why}). Say what is missing.",
    )


def contract_in(sent: str) -> Contract:
    """The contract in a call's arguments; Unfit names the field that is missing or too long."""
    try:
        found = Contract.model_validate_json(sent or "{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "arguments"
        raise Unfit(f"{where}: {first['msg']}") from None
    empty = next((field for field in ("goal", "deliver") if not getattr(found, field).strip()), "")
    if empty:
        raise Unfit(f"{empty}: expected a text")
    if len(told(found)) > MAX_REQUEST:
        raise Unfit(f"the contract has {len(told(found))} characters; at most {MAX_REQUEST} are allowed")
    return found


def told(contract: Contract) -> str:
    """The contract as the other agent reads it: each fact is JSON on a line, so that none passes for another part."""
    facts: Iterable[Any] = (f"- {json.dumps(fact, ensure_ascii=False)}" for fact in contract.facts)
    return "\n".join([f"Goal: {contract.goal.strip()}", "Facts:", *facts, f"Deliver: {contract.deliver.strip()}"])
