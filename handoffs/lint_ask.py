"""What `frontdesk check` says about agents that ask each other: circles, chains that are too long, unused fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handoffs.errors import Problem, Severity
from handoffs.roster import AgentSpec, Roster


def ask_problems(roster: Roster) -> Iterator[Problem]:
    """Every problem of this kind. Targets that do not exist are left to the check of all targets."""
    circles = list(_circles(roster))
    yield from (_circle(roster, circle) for circle in circles)
    if not circles:
        yield from _too_long(roster)
    asked = {target for agent in roster.agents.values() for target in agent.ask}
    for agent in roster.agents.values():
        for field in ("arguments", "result"):
            if getattr(agent, field) and agent.id not in asked:
                message = f"no agent has `{agent.id}` in its `ask`, so nothing uses this"
                yield _problem(agent, field, message, "warning")


def _circles(roster: Roster) -> Iterator[tuple[str, ...]]:
    """Each circle of agents that ask each other once, from its first agent in the order of the files."""
    found: set[frozenset[str]] = set()
    for start in roster.agents:
        for chain in _chains(roster, (start,)):
            if chain[-1] == start and len(chain) > 2 and frozenset(chain) not in found:
                found.add(frozenset(chain))
                yield chain


def _chains(roster: Roster, chain: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """All chains of asking that begin with `chain`; one that comes back to any agent ends there."""
    yield chain
    if chain[-1] in chain[:-1]:
        return
    for target in dict.fromkeys(roster[chain[-1]].ask):
        if target in roster and target != chain[-1]:
            yield from _chains(roster, (*chain, target))


def _circle(roster: Roster, circle: Sequence[str]) -> Problem:
    agent = roster[circle[0]]
    place = f"ask.{agent.ask.index(circle[1])}"
    return _problem(agent, place, f"agents ask each other in a circle: {' -> '.join(circle)}; take one of them out")


def _too_long(roster: Roster) -> Iterator[Problem]:
    limit = roster.desk.limits.ask_depth
    for agent in roster.agents.values():
        longest = max(_chains(roster, (agent.id,)), key=len)
        if len(longest) - 1 == limit + 1:  # of a chain that is longer still, the next agent's is reported
            message = f"the chain {' -> '.join(longest)} is longer than `limits.ask_depth` of desk.yaml ({limit})"
            yield _problem(agent, f"ask.{agent.ask.index(longest[1])}", f"{message}; its last agent is never asked")


def _problem(agent: AgentSpec, field: str, message: str, severity: Severity = "error") -> Problem:
    line = agent.lines.get(field) or agent.lines.get(field.rpartition(".")[0]) or agent.lines.get("", 0)
    return Problem(agent.file, line, field, message, severity)
