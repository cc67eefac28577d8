"""Agents of the OpenAI Agents SDK in the roster: `Roster.from_agents`, and what an agent file says for the others.

`with_route` gives an SDK agent the settings of an agent file, `deterministic_transfer` the `then:` of one. Nothing here
changes an agent that somebody made: each function gives a copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agents import Agent, FunctionTool, Handoff
from agents.mcp import MCPServer
from pydantic import ValidationError

from handoffs.errors import Problem, RosterInvalid
from handoffs.loader import problems_in, suggest
from handoffs.roster import HUMAN, ID, RESERVED_IDS, AgentSettings, AgentSpec, DeskSpec, Roster
from handoffs.sdk_handoffs import from_handoffs, leads_to
from handoffs.sdk_source import MakeContext, Say, SdkAgent

__all__ = ["deterministic_transfer", "id_of", "mcp_servers", "roster_of", "with_route"]

A = TypeVar("A", bound=Agent[Any])
Target = str | Agent[Any] | Mapping[str, Any]

ROUTE = "_frontdesk_route"  # on our own copies only
NO_FOLDER = Path(os.devnull)  # such an agent has no tools.py and no knowledge, wherever the process was started
MAX_ID = 41
OWN = {
    "tools": "give them to the agent: Agent(tools=[...])",
    "guardrails": "give them to the agent: Agent(input_guardrails=[...], output_guardrails=[...])",
    "model": "give it to the agent: Agent(model=...)",
    "delegate": "nothing holds an agent of the SDK to looking things up; let it be asked: ask=[...]",
}
TARGETS = ("transfer_to", "ask", "host", "then", "returns_to", "on_error")
NAMED = frozenset({"to", "specialists"})  # keys inside of those that name agents


def with_route(agent: A, *, say: Say | None = None, **settings: Any) -> A:
    """A copy of `agent` with settings of an agent file (docs/reference/agent-files.md), such as `returns_to="triage"`.

    Targets may be agents, names or ids of agents, or `human:<queue>`. `history` may be a function of (lines, brief),
    as `mode: function` takes it. `say` turns an output of the agent's `output_type` into what the customer reads.
    Use the copy wherever the agent is meant, also in `handoffs`.
    """
    copy = agent.clone()
    earlier: Mapping[str, Any] = getattr(agent, ROUTE, {})
    route = {**earlier, **settings, **({"say": say} if say is not None else {})}
    object.__setattr__(copy, ROUTE, route)
    return copy  # type: ignore[return-value]  # clone keeps the class


def deterministic_transfer(agent: A, to: Target | Sequence[Target]) -> A:
    """A copy of `agent` that hands on to `to` after each answer; several targets speak one after the other.

    The same as `then:` in an agent file: not after an error, an approval that is waited for, or its own transfer. A
    target may be a step such as `{"to": survey, "when": "vip == true"}`.
    """
    return with_route(agent, then=[to] if isinstance(to, str | Agent | Mapping) else list(to))


def id_of(name: str) -> str:
    """The id for an agent of this name: the same for the same name in every process.

    Letters that ASCII lacks come in as a hash of the name, so that `账单` and `售后` differ.
    """
    folded = unicodedata.normalize("NFKD", name)
    words = re.findall(r"[a-z0-9]+", folded.encode("ascii", "ignore").decode().lower())
    found = "_".join(words) or "agent"
    if not found[0].isalpha() or found in RESERVED_IDS:
        found = f"agent_{found}"
    if len(found) > MAX_ID or any(char.isalnum() and not char.isascii() for char in folded):
        digest = hashlib.sha256(unicodedata.normalize("NFC", name).encode()).hexdigest()[:8]
        found = f"{found[: MAX_ID - 9].rstrip('_')}_{digest}"
    return found


def roster_of(
    start: Agent[Any],
    *others: Agent[Any],
    ids: Mapping[str, str] | None = None,
    context: MakeContext | None = None,
    name: str | Mapping[str, str] = "Frontdesk",
    **desk: Any,
) -> Roster:
    """A roster of `start`, every agent that it and `others` can hand off to, and `others`. See `Roster.from_agents`."""
    reading = _Reading(ids or {})
    for agent in (start, *others):
        reading.add(agent)
    specs = [reading.spec(agent, context) for agent in reading.agents]
    settings, problems = _desk({"name": name, **desk, "start": reading.ids[start.name]})
    problems = [*reading.problems, *problems]
    agents = {spec.id: spec for spec in specs if spec is not None}
    if settings is not None:
        roster = Roster(desk=settings, agents=agents, folder=NO_FOLDER)
        problems += [problem for spec in agents.values() for problem in _unknown_targets(roster, spec)]
    if problems or settings is None:
        raise RosterInvalid(problems, what="agents")
    return roster.model_copy(update={"version": _version(roster)})


def mcp_servers(roster: Roster) -> list[MCPServer]:
    """The MCP servers of all agents of a roster, each once."""
    found: list[MCPServer] = []
    for spec in roster.agents.values():
        for server in spec.sdk.agent.mcp_servers if spec.sdk is not None else ():
            if not any(server is other for other in found):
                found.append(server)
    return found


class _Reading:
    """All agents that can be reached, with an id for each name, and what is wrong with them."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.agents: list[Agent[Any]] = []
        self.ids: dict[str, str] = {}
        self.problems: list[Problem] = []
        self._given = ids

    def add(self, agent: Agent[Any]) -> None:
        """Take in `agent` and everybody it can lead to."""
        waiting = [agent]
        while waiting:
            one = waiting.pop(0)
            known = next((other for other in self.agents if other.name == one.name), None)
            if known is one:
                continue
            if known is not None:
                self._wrong(one, "name", _twice(one, known))
                continue
            self.agents.append(one)
            self._name(one)
            waiting += _next(one)

    def _name(self, agent: Agent[Any]) -> None:
        wish = self._given.get(agent.name, "")
        id_ = wish or id_of(agent.name)
        if wish and (not ID.fullmatch(wish) or wish in RESERVED_IDS):
            self._wrong(agent, "ids", f"{wish!r} is no id: small letters, digits and _, a letter first, none of ours")
            id_ = id_of(agent.name)
        elif (other := next((name for name, taken in self.ids.items() if taken == id_), None)) is not None:
            way_out = f"ids={{{agent.name!r}: ...}}"
            why = f"its id would be `{id_}`, like that of {other!r}; give one of them another: {way_out}"
            self._wrong(agent, "name", why)
        self.ids[agent.name] = id_

    def spec(self, agent: Agent[Any], context: MakeContext | None) -> AgentSpec | None:
        """The agent as the roster has it; None when something is wrong with it."""
        before = len(self.problems)
        route = dict(getattr(agent, ROUTE, {}))
        say = route.pop("say", None)
        tell = route.get("history") if callable(route.get("history")) else None
        if tell is not None:
            route["history"] = {"mode": "function", "function": getattr(tell, "__name__", "history")}
        if agent.output_type not in (None, str) and say is None:
            why = "say what the customer reads of it: with_route(agent, say=lambda output: output.answer)"
            self._wrong(agent, "output_type", why)
        for field in OWN.keys() & route.keys():
            self._wrong(agent, field, OWN[field])
        native, wrong = from_handoffs(agent, self.ids)
        self.problems += wrong
        settings = self._settings(agent, route, tuple(native))
        if settings is None or len(self.problems) > before:
            return None
        sdk = SdkAgent(agent, native, context, say, tell)
        instructions = agent.instructions if isinstance(agent.instructions, str) else ""
        values = {name: getattr(settings, name) for name in AgentSettings.model_fields}
        return AgentSpec(**values, id=self.ids[agent.name], instructions=instructions, folder=NO_FOLDER, sdk=sdk)

    def _settings(self, agent: Agent[Any], route: dict[str, Any], native: tuple[str, ...]) -> AgentSettings | None:
        for field in TARGETS:
            if field in route:
                route[field] = self._target(route[field])
        wished = route.get("transfer_to", ())
        route["transfer_to"] = tuple(dict.fromkeys((*native, *([wished] if isinstance(wished, str) else wished))))
        route["approval"] = tuple(dict.fromkeys((*_needs_approval(agent), *route.get("approval", ()))))
        route.setdefault("name", agent.name)
        route.setdefault("intended_use", (agent.handoff_description or "").strip() or agent.name)
        if isinstance(agent.model, str):
            route["model"] = agent.model
        try:
            return AgentSettings.model_validate(route)
        except ValidationError as error:
            self.problems += problems_in(_where(agent), error, AgentSettings)
            return None

    def _target(self, wish: Any) -> Any:
        """A target as agent files write it, for an agent, its name, or a list or map with such."""
        if isinstance(wish, Agent):
            return self.ids[wish.name]
        if isinstance(wish, str):
            return self.ids.get(wish, wish)
        if isinstance(wish, Mapping):
            return {key: self._target(value) if key in NAMED else value for key, value in wish.items()}
        return tuple(self._target(one) for one in wish) if isinstance(wish, Sequence) else wish

    def _wrong(self, agent: Agent[Any], field: str, message: str) -> None:
        self.problems.append(Problem(_where(agent), 0, field, message))


def _next(agent: Agent[Any]) -> Iterator[Agent[Any]]:
    """The agents that `agent` names: in its handoffs and in its route."""
    for handoff in agent.handoffs:
        found = leads_to(handoff) if isinstance(handoff, Handoff) else handoff
        if found is not None:
            yield found
    route = getattr(agent, ROUTE, {})
    for field in TARGETS:
        yield from _agents_in(route.get(field))


def _agents_in(wish: Any) -> Iterator[Agent[Any]]:
    if isinstance(wish, Agent):
        yield wish
    elif isinstance(wish, Mapping):
        for key in NAMED:
            yield from _agents_in(wish.get(key))
    elif isinstance(wish, Sequence) and not isinstance(wish, str):
        for one in wish:
            yield from _agents_in(one)


def _twice(agent: Agent[Any], known: Agent[Any]) -> str:
    if hasattr(agent, ROUTE) != hasattr(known, ROUTE):
        return "it is here with and without its route; use the copy that with_route gave everywhere, also in handoffs"
    return "another agent has the same name; names must be unique"


def _needs_approval(agent: Agent[Any]) -> list[str]:
    return [tool.name for tool in agent.tools if isinstance(tool, FunctionTool) and tool.needs_approval is True]


def _where(agent: Agent[Any]) -> str:
    return f"agent {agent.name!r}"


def _desk(settings: Mapping[str, Any]) -> tuple[DeskSpec | None, list[Problem]]:
    try:
        return DeskSpec.model_validate(settings), []
    except ValidationError as error:
        return None, problems_in("the desk", error, DeskSpec)


def _unknown_targets(roster: Roster, spec: AgentSpec) -> Iterator[Problem]:
    known = [*roster.agents, *(HUMAN + queue for queue in roster.desk.queues)]
    asked = (*spec.ask, *(spec.host.specialists if spec.host else ()))
    for target in (*spec.targets, *asked, *([spec.on_error] if spec.on_error else [])):
        if not roster.knows(target):
            message = f"there is no target `{target}`{suggest(target, known)} (there are: {', '.join(known)})"
            yield Problem(f"agent {roster.display_name(spec.id)!r}", 0, "targets", message)


def _version(roster: Roster) -> str:
    """16 hex digits over all that is data: routes, texts, tools. Functions are not compared."""
    content = [roster.desk.model_dump(mode="json")]
    for spec in roster.agents.values():
        tools = [(tool.name, getattr(tool, "params_json_schema", None)) for tool in spec.sdk.agent.tools]
        content.append({**spec.model_dump(mode="json", exclude={"folder"}), "sdk_tools": tools})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
