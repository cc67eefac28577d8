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
    given = {target for agent in roster.agents.values() if agent.delegate for target in agent.delegate.to}
    for agent in roster.agents.values():
        for place, target in enumerate(agent.host.specialists if agent.host else ()):
            if target in agent.ask:
                message = f"`{target}` is in `ask` too, and one tool cannot be both; keep it in one of them"
                yield _problem(agent, f"host.specialists.{place}", message)
        for field in ("arguments", "result"):
            if getattr(agent, field) and agent.id not in (asked | given if field == "result" else asked):
                message = f"no agent has `{agent.id}` in its `ask`, so nothing uses this"
                yield _problem(agent, field, message, "warning")


def _circles(roster: Roster) -> Iterator[tuple[str, ...]]:
    """Circles of agents that ask each other; one for each request that closes one."""
    done: set[str] = set()

    def walk(chain: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for target in _asked_by(roster, chain[-1]):
            if target in chain:
                yield (*chain[chain.index(target) :], target)
            elif target not in done:
                yield from walk((*chain, target))
        done.add(chain[-1])

    for start in roster.agents:
        if start not in done:
            yield from walk((start,))


def _asked_by(roster: Roster, agent_id: str) -> list[str]:
    return [target for target in roster[agent_id].colleagues if target in roster and target != agent_id]


def _circle(roster: Roster, circle: Sequence[str]) -> Problem:
    agent = roster[circle[0]]
    return _problem(
        agent,
        _place(agent, circle[1]),
        f"agents ask each other in a circle: {' -> '.join(circle)}; take one of them out",
    )


def _too_long(roster: Roster) -> Iterator[Problem]:
    """Chains that no request can go to the end of. There are no circles."""
    limit = roster.desk.limits.ask_depth
    longest: dict[str, tuple[str, ...]] = {}

    def chain(agent_id: str) -> tuple[str, ...]:
        if agent_id not in longest:
            rest = max((chain(target) for target in _asked_by(roster, agent_id)), key=len, default=())
            longest[agent_id] = (agent_id, *rest)
        return longest[agent_id]

    for agent in roster.agents.values():
        found = chain(agent.id)
        if len(found) - 1 == limit + 1:  # of a chain that is longer still, the next agent's is reported
            message = f"the chain {' -> '.join(found)} is longer than `limits.ask_depth` of desk.yaml ({limit})"
            yield _problem(agent, _place(agent, found[1]), f"{message}; its last agent is never asked")


def _place(agent: AgentSpec, target: str) -> str:
    if target in agent.ask:
        return f"ask.{agent.ask.index(target)}"
    if agent.host and target in agent.host.specialists:
        return f"host.specialists.{agent.host.specialists.index(target)}"
    return f"delegate.to.{agent.delegate.to.index(target) if agent.delegate else 0}"


def _problem(agent: AgentSpec, field: str, message: str, severity: Severity = "error") -> Problem:
    line = agent.lines.get(field) or agent.lines.get(field.rpartition(".")[0]) or agent.lines.get("", 0)
    return Problem(agent.file, line, field, message, severity)
