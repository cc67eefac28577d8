"""`frontdesk check`: what is wrong or doubtful in a roster that could be read. Decisions only; nothing is printed here.

Errors keep a roster from being used; warnings are things that an operator most likely did not mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from handoffs.conditions import Comparison
from handoffs.errors import Problem, RosterInvalid, Severity
from handoffs.guardrails import problems as guardrail_problems
from handoffs.lint_ask import ask_problems
from handoffs.loader import DESK, load_roster, suggest
from handoffs.roster import HUMAN, AgentSpec, Roster, Text
from handoffs.seeds import function_problem
from handoffs.toolbox import TOOLS, Toolbox, load_tools

ROUTER_TOOLS = ("transfer_to_agent", "search_knowledge")  # the router's own; a model could not tell two apart
OUTCOMES = ("granted", "refused", "expired")  # of an approval: handoffs.waiting.labels
ROUTER_PREFIX = ("ask_", "delegate_")  # agents as tools


@dataclass(frozen=True)
class Checked:
    """What `check` found. `roster` and `tools` are None when the files could not be read at all."""

    roster: Roster | None
    tools: Toolbox | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def check(folder: Path) -> Checked:
    """Read, load the tools and lint a folder; never raises for what an operator can get wrong."""
    try:
        roster = load_roster(folder)
    except RosterInvalid as error:
        return Checked(None, None, tuple(error.problems))
    tools = load_tools(roster)
    return Checked(roster, tools, tuple(lint(roster, tools)))


def lint(roster: Roster, tools: Toolbox) -> list[Problem]:
    """Every problem, errors first, each group in the order of the files."""
    found = [
        *_desk_targets(roster),
        *(problem for agent in roster.agents.values() for problem in _agent_errors(roster, agent, tools)),
        *ask_problems(roster),
        *tools.problems,
        *_unreachable(roster),
        *_dead_ends(roster),
        *_ping_pong(roster),
        *_values(roster),
        *_queues_without_hours(roster),
        *_duplicate_examples(roster),
        *_untranslated(roster),
    ]
    return sorted(dict.fromkeys(found), key=lambda problem: (problem.severity, problem.file, problem.line))


def _problem(agent: AgentSpec, field: str, message: str, severity: Severity = "error") -> Problem:
    line = agent.lines.get(field) or agent.lines.get(field.rpartition(".")[0]) or agent.lines.get("", 0)
    return Problem(agent.file, line, field, message, severity)


def _desk_problem(roster: Roster, field: str, message: str, severity: Severity = "error") -> Problem:
    return Problem(DESK, roster.desk_lines.get(field, 0), field, message, severity)


def _agent_errors(roster: Roster, agent: AgentSpec, tools: Toolbox) -> Iterator[Problem]:
    yield from _unknown_targets(roster, agent)
    yield from _unknown_values(roster, agent)
    yield from _tool_errors(agent, tools)
    yield from _conditions(roster, agent)
    yield from guardrail_problems(roster, agent)
    if problem := function_problem(roster, agent):
        yield problem
    yield from _switched_off(roster, agent)


def _switched_off(roster: Roster, agent: AgentSpec) -> Iterator[Problem]:
    """Somebody must be there when all else fails."""
    if agent.disabled and agent.id == roster.desk.start:
        yield _problem(agent, "disabled", f"`{agent.id}` is the start agent of {DESK} and cannot be switched off")
    if agent.on_error and roster.knows(agent.on_error) and not roster.available(agent.on_error):
        yield _problem(agent, "on_error", f"`{agent.on_error}` is switched off")


def _conditions(roster: Roster, agent: AgentSpec) -> Iterator[Problem]:
    """`when:` must ask about values that exist, in ways that their contract can answer."""
    for place, step in enumerate(agent.then):
        for test in step.condition.tests if step.condition else ():
            if why := _why_never(roster, test):
                yield _problem(agent, f"then.{place}.when", why)


def _why_never(roster: Roster, test: Comparison) -> str | None:
    if test.is_label:
        group, _, name = test.subject.partition(".")
        gated = sorted({tool for other in roster.agents.values() for tool in (*other.approval, *other.confirm)})
        if group != "approval" or name not in gated:
            known = [f"approval.{tool}" for tool in gated]
            exist = f"there are: {', '.join(known)}" if known else "no agent has a tool in `approval` or `confirm`"
            return f"there is no label `{test.subject}`{suggest(test.subject, known)} ({exist})"
        if test.operator in ("==", "!=") and test.text not in OUTCOMES:
            return f"`{test.subject}` is never {test.text!r}; it is one of {', '.join(OUTCOMES)}"
        return None
    contract = roster.desk.values.get(test.subject)
    if contract is None:
        known = list(roster.desk.values)
        exist = f"there are: {', '.join(known)}" if known else f"{DESK} has no `values:` yet"
        return f"{DESK} has no contract for the value `{test.subject}`{suggest(test.subject, known)} ({exist})"
    return test.why_never(contract)


def _unknown_targets(roster: Roster, agent: AgentSpec) -> Iterator[Problem]:
    """A target of any kind that does not exist, or is the agent itself."""
    named = [
        *_places("transfer_to", agent.transfer_to),
        *_places("ask", agent.ask),
        *_places("host.specialists", agent.host.specialists if agent.host else ()),
        *_places("delegate.to", agent.delegate.to if agent.delegate else ()),
        *_places("then", [step.to for step in agent.then]),
        *_places("returns_to", [agent.returns_to] if agent.returns_to else [], single=True),
        *_places("on_error", [agent.on_error] if agent.on_error else [], single=True),
    ]
    for field, target in named:
        if target == agent.id:
            yield _problem(agent, field, f"`{target}` is this agent itself")
        elif not roster.knows(target):
            yield _problem(agent, field, _no_such_target(roster, target, people=field.partition(".")[0] not in _AGENTS))


_AGENTS = ("ask", "delegate", "host", "returns_to")  # fields where only an agent makes sense


def _places(field: str, names: Sequence[str], *, single: bool = False) -> Iterator[tuple[str, str]]:
    for place, name in enumerate(names):
        yield (field if single else f"{field}.{place}"), name


def _desk_targets(roster: Roster) -> Iterator[Problem]:
    desk = roster.desk
    if desk.on_error and not roster.knows(desk.on_error):
        yield _desk_problem(roster, "on_error", _no_such_target(roster, desk.on_error, people=True))
    if desk.on_error and roster.knows(desk.on_error) and not roster.available(desk.on_error):
        yield _desk_problem(roster, "on_error", f"`{desk.on_error}` is switched off")
    for old, new in desk.successors.items():
        field = f"successors.{old}"
        if roster.available(old):
            yield _desk_problem(roster, field, f"agent `{old}` is still here, so it needs no successor", "warning")
        if new not in desk.successors and not roster.knows(new):
            yield _desk_problem(roster, field, _no_such_target(roster, new, people=True))
        elif roster.successor(old) == desk.start and not roster.knows(new):
            yield _desk_problem(roster, field, f"the successors of `{old}` lead in a circle")


def _no_such_target(roster: Roster, target: str, *, people: bool) -> str:
    queues = [HUMAN + queue for queue in roster.desk.queues] if people else []
    known = [*sorted(roster.agents), *queues]
    kind = "queue" if target.startswith(HUMAN) else "agent"
    return f"there is no {kind} `{target}`{suggest(target, known)} (there are: {', '.join(known)})"


def _unknown_values(roster: Roster, agent: AgentSpec) -> Iterator[Problem]:
    used = [
        *_places("values.read", agent.values.read),
        *_places("values.write", agent.values.write),
        *_places("requires", agent.requires),
    ]
    known = list(roster.desk.values)
    for field, key in used:
        if key not in roster.desk.values:
            exist = f"there are: {', '.join(known)}" if known else f"{DESK} has no `values:` yet"
            message = f"{DESK} has no contract for the value `{key}`{suggest(key, known)} ({exist})"
            yield _problem(agent, field, message)


def _tool_errors(agent: AgentSpec, tools: Toolbox) -> Iterator[Problem]:
    for place, name in enumerate(agent.tools):
        if name in ROUTER_TOOLS or name.startswith(ROUTER_PREFIX):
            yield _problem(agent, f"tools.{place}", f"the name `{name}` is the router's own; rename the tool")
    for place, name in enumerate(agent.confirm):
        if name in agent.approval:
            message = f"`{name}` is in `approval` too; either a person decides, or the customer"
            yield _problem(agent, f"confirm.{place}", message)
    guarded = (
        *_places("approval", agent.approval),
        *_places("confirm", agent.confirm),
        *_places("read_only", agent.read_only),
    )
    for field, name in guarded:
        if name not in agent.tools:
            own = f"its tools: {', '.join(agent.tools)}" if agent.tools else "it has no tools"
            yield _problem(agent, field, f"`{name}` is not a tool of this agent{suggest(name, agent.tools)} ({own})")
    unused = [name for name in tools.defined.get(agent.id, ()) if name not in agent.tools]
    if unused:
        message = (
            f"{agent.id}/{TOOLS} defines {', '.join(unused)}, which `tools:` does not list: the agent cannot use it"
        )
        yield _problem(agent, "tools", message, "warning")


def _followers(roster: Roster, agent: AgentSpec) -> tuple[str, ...]:
    """Who can own the conversation after this agent, by its route (not by an error)."""
    return tuple(target for target in agent.targets if roster.available(target))


def _unreachable(roster: Roster) -> Iterator[Problem]:
    reached, todo = {roster.desk.start}, [roster.desk.start]
    for current in todo:
        agent = roster[current]
        successors = [*_followers(roster, agent), *agent.colleagues, roster.on_error(current)]
        new = [target for target in dict.fromkeys(successors) if target in roster and target not in reached]
        reached.update(new)
        todo += new
    for agent in roster.agents.values():
        if agent.id not in reached and not agent.disabled:
            message = f"no route leads here from `{roster.desk.start}`: add it to the transfer_to of another agent"
            yield _problem(agent, "", message, "warning")


def _dead_ends(roster: Roster) -> Iterator[Problem]:
    """Agents from which no transfer ever leads to a person. A desk without queues has no people to reach."""
    if not roster.desk.queues:
        yield Problem(DESK, 0, "queues", "there is no human queue, so no customer can reach a person", "warning")
        return
    reaches = {
        agent.id for agent in roster.agents.values() if any(t.startswith(HUMAN) for t in _followers(roster, agent))
    }
    while grown := {
        agent.id
        for agent in roster.agents.values()
        if agent.id not in reaches and any(target in reaches for target in _followers(roster, agent))
    }:
        reaches |= grown
    tools_only = {name for agent in roster.agents.values() for name in agent.colleagues}
    for agent in roster.agents.values():
        if agent.id not in reaches and not agent.disabled and not (agent.id in tools_only and not agent.transfer_to):
            queues = ", ".join(HUMAN + queue for queue in roster.desk.queues)
            message = f"a dead end: from here no transfer leads to a person; add one of {queues} to transfer_to"
            yield _problem(agent, "transfer_to", message, "warning")


def _ping_pong(roster: Roster) -> Iterator[Problem]:
    """Two agents that can only hand to each other: the loop guard would have to end every such conversation."""
    only = {agent.id: agent.targets[0] for agent in roster.agents.values() if len(agent.targets) == 1}
    for one, other in only.items():
        if one < other and only.get(other) == one:
            message = f"`{one}` and `{other}` can only transfer to each other; give one of them another target"
            yield _problem(roster[one], "transfer_to", message, "warning")


def _values(roster: Roster) -> Iterator[Problem]:
    agents = roster.agents.values()
    written = {key for agent in agents for key in agent.values.write}
    asked = {key for agent in agents for step in agent.then for key in step.values}
    read = {key for agent in agents for key in (*agent.values.read, *agent.requires)} | asked
    for key in roster.desk.values:
        if key not in written and key not in read:
            yield _desk_problem(roster, f"values.{key}", f"no agent reads or writes the value `{key}`", "warning")
        elif key not in written:
            yield _desk_problem(roster, f"values.{key}", f"the value `{key}` is read but no agent writes it", "warning")
        elif key not in read:
            yield _desk_problem(
                roster, f"values.{key}", f"the value `{key}` is written but no agent reads it", "warning"
            )


def _queues_without_hours(roster: Roster) -> Iterator[Problem]:
    for queue, spec in roster.desk.queues.items():
        if spec.hours is None:
            message = "nobody said when people are there; add hours: always, or a timezone and open:"
            yield _desk_problem(roster, f"queues.{queue}", message, "warning")


def _duplicate_examples(roster: Roster) -> Iterator[Problem]:
    """The same example at two agents teaches neither the offline model nor a reader who is meant."""
    first: dict[str, AgentSpec] = {}
    for agent in roster.agents.values():
        for place, example in enumerate(agent.examples):
            other = first.setdefault(_plain(example), agent)
            if other is not agent:
                message = f"`{example}` is an example of `{other.id}` too; keep it at the agent that should answer it"
                yield _problem(agent, f"examples.{place}", message, "warning")


def _untranslated(roster: Roster) -> Iterator[Problem]:
    """A text that has some languages of the desk and not the others: those customers would read the first one."""
    desk = roster.desk
    of_desk: list[tuple[str, Text | None]] = [("name", desk.name)]
    if "announce" in desk.model_fields_set:
        of_desk.append(("announce", desk.announce))
    for queue, spec in desk.queues.items():
        own = (("name", spec.name), ("intended_use", spec.intended_use), ("closed", spec.closed))
        of_desk += [(f"queues.{queue}.{field}", text) for field, text in own]
    for field, text in of_desk:
        if missing := _missing(roster, text):
            yield _desk_problem(roster, field, f"no text for {missing}", "warning")
    for agent in roster.agents.values():
        for field in ("name", "intended_use", "announce"):
            if missing := _missing(roster, getattr(agent, field)):
                yield _problem(agent, field, f"no text for {missing}", "warning")


def _missing(roster: Roster, text: Text | None) -> str:
    return ", ".join(code for code in roster.desk.languages if code not in text) if isinstance(text, Mapping) else ""


def _plain(example: str) -> str:
    """An example without case, punctuation and spaces: what stays is what a classifier sees."""
    return re.sub(r"[\W_]+", "", example.casefold())


def errors(problems: Iterable[Problem]) -> list[Problem]:
    """Those that keep a roster from being used."""
    return [problem for problem in problems if problem.severity == "error"]
