"""`frontdesk check`: what it finds in a roster that could be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoffs.errors import Problem
from handoffs.lint import check
from tests.handoffs.folders import BILLING, DESK, TRIAGE, agent_file, write

TOOLS = """\
from agents import function_tool

@function_tool
def lookup_invoice() -> str:
    "Find an invoice."
    return "none"

def helper() -> None:
    pass
"""


def found(folder: Path, severity: str) -> list[Problem]:
    return [problem for problem in check(folder).problems if problem.severity == severity]


def billing(folder: Path, settings: str, *, tools: str = TOOLS, desk: str = DESK) -> Path:
    """The test desk with other settings for billing, which may always transfer to triage and a person."""
    content = agent_file(f"intended_use: Payments.\n{settings}")
    return write(folder, {"billing/agent.md": content, "billing/tools.py": tools, "desk.yaml": desk})


def test_a_sound_folder_has_no_problem(tmp_path: Path) -> None:
    """The small test desk is clean, so every problem below comes from what the test changed."""
    checked = check(write(tmp_path))
    assert checked.problems == ()
    assert checked.roster is not None and checked.tools is not None


def test_a_folder_that_cannot_be_read_gives_the_loaders_problems(tmp_path: Path) -> None:
    """`check` never raises for what an operator can get wrong."""
    checked = check(tmp_path / "nowhere")
    assert checked.roster is None
    assert len(checked.errors) == 1


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ("transfer_to: [triage, human:support, ordres]", "transfer_to.2", "no agent `ordres`"),
        ("transfer_to: [triage, human:suport]", "transfer_to.1", "did you mean `human:support`?"),
        ("transfer_to: [human:support, billing]", "transfer_to.1", "this agent itself"),
        (
            "transfer_to: [human:support]\nask: [fraud_check]",
            "ask.0",
            "no agent `fraud_check` (there are: billing, triage)",
        ),
        ("transfer_to: [human:support]\nread_only: [refund]", "read_only.0", "not a tool of this agent"),
        ("transfer_to: [human:support]\nask: [billing]", "ask.0", "this agent itself"),
        ("transfer_to: [human:support]\nthen: [trage]", "then.0", "did you mean `triage`?"),
        ("transfer_to: [human:support]\nreturns_to: desk", "returns_to", "no agent `desk`"),
        ("transfer_to: [human:support]\non_error: human:nobody", "on_error", "no queue `human:nobody`"),
        ("transfer_to: [human:support]\nvalues: {read: [order]}", "values.read.0", "no contract for the value `order`"),
        ("transfer_to: [human:support]\nvalues: {write: [order]}", "values.write.0", "no contract"),
        ("transfer_to: [human:support]\nrequires: [verified]", "requires.0", "no contract"),
        ("transfer_to: [human:support]\ntools: [lookup_invoce]", "tools.0", "did you mean `lookup_invoice`?"),
        ("transfer_to: [human:support]\ntools: [helper]", "tools.0", "put @function_tool"),
        (
            "transfer_to: [human:support]\ntools: [lookup_invoice]\napproval: [refund]",
            "approval.0",
            "its tools: lookup_invoice",
        ),
    ],
)
def test_an_unknown_name_is_an_error_with_its_place(tmp_path: Path, settings: str, field: str, words: str) -> None:
    """The message names what came and what exists; the line is that of the entry."""
    (problem,) = found(billing(tmp_path, settings), "error")
    assert (problem.file, problem.field) == ("billing/agent.md", field)
    assert words in problem.message
    text = (tmp_path / problem.file).read_text().splitlines()
    assert field.partition(".")[0] in text[problem.line - 1]


def test_the_routers_own_tool_names_are_taken(tmp_path: Path) -> None:
    """A model could not tell two tools of one name apart."""
    tools = TOOLS.replace("lookup_invoice", "search_knowledge")
    (problem,) = found(
        billing(tmp_path, "transfer_to: [human:support]\ntools: [search_knowledge]", tools=tools), "error"
    )
    assert "the router's own" in problem.message


@pytest.mark.parametrize(
    ("extra", "field", "words"),
    [
        ("on_error: human:suport\n", "on_error", "did you mean `human:support`?"),
        ("successors: {sales: order}\n", "successors.sales", "no agent `order`"),
        ("successors: {a: b, b: a}\n", "successors.a", "circle"),
    ],
)
def test_unknown_names_in_the_desk_file_are_errors(tmp_path: Path, extra: str, field: str, words: str) -> None:
    """The desk's own owner after errors, and the successors of agents that are gone."""
    problem = found(write(tmp_path, {"desk.yaml": DESK + extra}), "error")[0]
    assert (problem.file, problem.line, problem.field) == ("desk.yaml", len(DESK.splitlines()) + 1, field)
    assert words in problem.message


def test_an_agent_that_no_route_reaches_is_a_warning(tmp_path: Path) -> None:
    """It would never get a conversation."""
    (problem,) = found(write(tmp_path, {"orders/agent.md": BILLING}), "warning")
    assert (problem.file, problem.line) == ("orders/agent.md", 2)
    assert "no route leads here" in problem.message


def test_a_dead_end_is_a_warning(tmp_path: Path) -> None:
    """From every agent, over any number of transfers, a customer must be able to reach a person."""
    files: dict[str, str | bytes] = {
        "triage/agent.md": agent_file("intended_use: x\ntransfer_to: [billing]"),
        "billing/agent.md": agent_file("intended_use: x"),
    }
    problems = found(write(tmp_path, files), "warning")
    assert [problem.file for problem in problems] == ["billing/agent.md", "triage/agent.md"]
    assert all("dead end" in problem.message and "human:support" in problem.message for problem in problems)


def test_a_way_to_a_person_over_another_agent_is_no_dead_end(tmp_path: Path) -> None:
    """Billing has no queue of its own but may go back to triage, which has one."""
    assert check(billing(tmp_path, "returns_to: triage\ntools: [lookup_invoice]")).problems == ()


def test_a_desk_without_people_is_a_warning(tmp_path: Path) -> None:
    """Nobody could ever take over."""
    files: dict[str, str | bytes] = {
        "desk.yaml": "name: Desk\nstart: triage\n",
        "triage/agent.md": agent_file("intended_use: x"),
    }
    (problem,) = found(write(tmp_path, files, without=("billing/agent.md",)), "warning")
    assert "no human queue" in problem.message


def test_two_agents_that_can_only_hand_to_each_other_are_a_warning(tmp_path: Path) -> None:
    """Only the loop guard would end such a conversation."""
    files: dict[str, str | bytes] = {
        "triage/agent.md": agent_file("intended_use: x\ntransfer_to: [billing]"),
        "billing/agent.md": agent_file("intended_use: x\ntransfer_to: [triage]"),
    }
    messages = [problem.message for problem in found(write(tmp_path, files), "warning")]
    assert any("`billing` and `triage` can only transfer to each other" in message for message in messages)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("{read: [order]}", "is read but no agent writes it"),
        ("{write: [order]}", "is written but no agent reads it"),
        ("{}", "no agent reads or writes"),
    ],
)
def test_a_value_that_goes_nowhere_is_a_warning(tmp_path: Path, values: str, words: str) -> None:
    """A value needs somebody who writes it and somebody who reads it."""
    desk = DESK + "values:\n  order: {type: string}\n"
    folder = billing(tmp_path, f"transfer_to: [human:support]\ntools: [lookup_invoice]\nvalues: {values}", desk=desk)
    (problem,) = found(folder, "warning")
    assert (problem.file, problem.field, problem.line) == ("desk.yaml", "values.order", len(DESK.splitlines()) + 2)
    assert words in problem.message


def test_a_queue_without_hours_is_a_warning(tmp_path: Path) -> None:
    """Otherwise customers would wait for people who are not there."""
    (problem,) = found(write(tmp_path, {"desk.yaml": DESK.replace("    hours: always\n", "")}), "warning")
    assert problem.field == "queues.support"


def test_the_same_example_at_two_agents_is_a_warning(tmp_path: Path) -> None:
    """Also when case, spaces and punctuation differ, and in Chinese."""
    files: dict[str, str | bytes] = {
        "triage/agent.md": TRIAGE.replace("---\nYou", "examples: [Where is it?, 退款]\n---\nYou"),
        "billing/agent.md": BILLING.replace("---\nYou", "examples: [where is  it, 退款！]\n---\nYou"),
    }
    problems = found(write(tmp_path, files), "warning")
    assert [problem.field for problem in problems] == ["examples.0", "examples.1"]
    assert "example of `billing` too" in problems[0].message


def test_a_missing_translation_is_a_warning(tmp_path: Path) -> None:
    """A text for one language of the desk and not for the other."""
    (problem,) = found(
        write(tmp_path, {"billing/agent.md": BILLING.replace("{en: Billing, zh: 账务}", "{zh: 账务}")}), "warning"
    )
    assert (problem.field, problem.message) == ("name", "no text for en")


def test_a_tool_that_no_agent_lists_is_a_warning(tmp_path: Path) -> None:
    """Defined in tools.py, forgotten in agent.md."""
    (problem,) = found(billing(tmp_path, "transfer_to: [human:support]"), "warning")
    assert "lookup_invoice" in problem.message
