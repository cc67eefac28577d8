"""`frontdesk check` about agents that ask each other."""

from __future__ import annotations

from pathlib import Path

from handoffs.lint import check
from tests.handoffs.folders import DESK, agent_file, write


def desk(folder: Path, settings: dict[str, str], *, desk_file: str = DESK) -> list[str]:
    """The test desk with more agents, by id; what is wrong with it about asking, as an operator reads it."""
    files: dict[str, str | bytes] = {"desk.yaml": desk_file}
    for name, route in settings.items():
        files[f"{name}/agent.md"] = agent_file(f"intended_use: Work of {name}.\n{route}")
    problems = check(write(folder, files)).problems
    return [
        f"{p.severity} {p}"
        for p in problems
        if p.field.split(".")[0] in ("ask", "arguments", "result", "host", "delegate")
    ]


def test_agents_that_ask_each_other_in_a_circle_are_an_error(tmp_path: Path) -> None:
    """handoffs.md 6 (depth): a circle is named once, with the way round, at file, line and field."""
    found = desk(tmp_path, {"a": "ask: [b]", "b": "ask: [c]", "c": "ask: [a]"})

    assert found == [
        "error a/agent.md:3: ask.0: agents ask each other in a circle: a -> b -> c -> a; take one of them out"
    ]


def test_a_chain_longer_than_the_depth_is_an_error(tmp_path: Path) -> None:
    """handoffs.md 6 (depth): the agent whose chain is one too long is named, with the limit."""
    found = desk(tmp_path, {"a": "ask: [b]", "b": "ask: [c]", "c": "ask: [d]", "d": "ask: [e]", "e": ""})

    assert found == [
        "error a/agent.md:3: ask.0: the chain a -> b -> c -> d -> e is longer than `limits.ask_depth` of desk.yaml "
        "(3); its last agent is never asked"
    ]


def test_a_chain_within_the_depth_is_no_problem(tmp_path: Path) -> None:
    """handoffs.md 6 (depth): desk.yaml may allow longer chains."""
    chain = {"a": "ask: [b]", "b": "ask: [c]", "c": "ask: [d]", "d": "ask: [e]", "e": ""}

    assert desk(tmp_path, chain, desk_file=DESK + "limits: {ask_depth: 4}\n") == []


def test_arguments_that_nobody_sends_are_a_warning(tmp_path: Path) -> None:
    """handoffs.md 1: `arguments` and `result` belong to agents that are asked."""
    found = desk(tmp_path, {"a": "arguments: {order: {}}", "b": "ask: [c]", "c": "result: {verdict: {}}"})

    assert found == [
        "warning a/agent.md:3: arguments: no agent has `a` in its `ask`, so nothing uses this",
    ]


def test_allowed_values_are_of_the_declared_type(tmp_path: Path) -> None:
    """handoffs.md 1: a typed argument whose allowed values are of another type is an error that names them."""
    found = desk(tmp_path, {"a": "arguments: {level: {type: integer, allowed: [one]}}"})

    assert found == ["error a/agent.md:3: arguments.level.allowed: expected values of the type integer, got 'one'"]


def test_specialists_of_a_host_exist_and_are_not_asked_twice(tmp_path: Path) -> None:
    """handoffs.md 7: an unknown specialist, the host itself, and one that is in `ask` too are errors."""
    found = desk(tmp_path, {"a": "ask: [b]\nhost: {specialists: [b, a, nobody_here, human]}", "b": ""})

    assert found == [
        "error a/agent.md:4: host.specialists.1: `a` is this agent itself",
        "error a/agent.md:4: host.specialists.2: there is no agent `nobody_here` (there are: a, b, billing, triage)",
        "error a/agent.md:4: host.specialists.3: there is no agent `human` (there are: a, b, billing, triage)",
        "error a/agent.md:4: host.specialists.0: `b` is in `ask` too, and one tool cannot be both; "
        "keep it in one of them",
    ]


def test_delegates_exist_and_count_in_circles(tmp_path: Path) -> None:
    """handoffs.md 1 (delegation): the same checks as for agents that are asked."""
    found = desk(tmp_path, {"a": "delegate: {to: [b, c]}", "b": "delegate: {to: [a]}"})

    assert found == [
        "error a/agent.md:3: delegate.to.1: there is no agent `c` (there are: a, b, billing, triage)",
        "error a/agent.md:3: delegate.to.0: agents ask each other in a circle: a -> b -> a; take one of them out",
    ]


def test_a_host_counts_in_circles(tmp_path: Path) -> None:
    """handoffs.md 6 (depth): a specialist that asks its host is a circle too."""
    found = desk(tmp_path, {"a": "host: {specialists: [b]}", "b": "ask: [a]"})

    assert found == [
        "error a/agent.md:3: host.specialists.0: agents ask each other in a circle: a -> b -> a; take one of them out"
    ]
