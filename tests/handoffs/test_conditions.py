"""`when:`: which conditions can be read, what they say of values and labels, and how a mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handoffs.conditions import parse
from handoffs.errors import RosterInvalid
from handoffs.lint import check
from handoffs.loader import load_roster
from tests.handoffs.folders import DESK, agent_file, write

VALUES: dict[str, Any] = {
    "risk": "high",
    "city": "New York",
    "amount": 120,
    "verified": True,
    "blocked": False,
    "empty": "",
    "code": "0123",
}
LABELS = {"approval.issue_refund": "refused"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("verified is set", True),
        ("blocked is set", False),
        ("empty is not set", True),
        ("nowhere is not set", True),
        ("risk is high", True),
        ("risk == high", True),
        ("risk is not low", True),
        ("risk != high", False),
        ("nowhere != high", True),
        ("nowhere == high", False),
        ("city == 'New York'", True),
        ('city == "new york"', False),
        ("amount > 100", True),
        ("amount < 100.5", False),
        ("amount >= 120", True),
        ("amount == 120", True),
        ("verified == true", True),
        ("blocked is false", True),
        ("code == 0123", True),
        ("code > 5", False),
        ("nowhere > 5", False),
        ("nowhere < 5", False),
        ("approval.issue_refund == refused", True),
        ("approval.issue_refund is granted", False),
        ("approval.other is set", False),
        ("risk is high and amount > 100 and verified is set", True),
        ("risk is high and amount > 500", False),
        ("city is 'rock and roll'", False),
    ],
)
def test_condition_says_what_it_reads_like(text: str, expected: bool) -> None:
    """handoffs.md 3: `when:` decides on values and labels; a value that is not set equals nothing."""
    assert parse(text).holds(VALUES.get, LABELS) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "risk",
        "risk is",
        "risk = high",
        "risk is high or x is set",
        "and x is set",
        "__import__('os')",
        "x is set and",
        "Risk is high",
        "len(risk) > 3",
        "amount > much",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    """handoffs.md 3: there is no code in a condition, so nothing else is run by accident."""
    with pytest.raises(ValueError, match=r"expected tests joined by|compares with a number"):
        parse(text)


def test_mistake_names_file_line_and_field(tmp_path: Path) -> None:
    """handoffs.md 3: a condition that cannot be read is an error when the files are loaded."""
    settings = (
        "intended_use: Payments.\ntransfer_to: [human:support]\nthen:\n  - triage\n  - {to: triage, when: risk = 3}"
    )
    write(tmp_path, {"billing/agent.md": agent_file(settings)})

    with pytest.raises(RosterInvalid) as refused:
        load_roster(tmp_path)

    (problem,) = refused.value.problems
    assert (problem.file, problem.line, problem.field) == ("billing/agent.md", 6, "then.1.when")
    assert "expected tests joined by `and`" in problem.message


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("risc is high", "no contract for the value `risc`; did you mean `risk`?"),
        ("risk is hi", "`risk` can never be 'hi': expected one of high, low"),
        ("risk > 3", "`>` compares numbers; it is a string"),
        ("tags is vip", "`tags` is a list; allowed are `is set` and `is not set`"),
        ("approval.refund is refused", "no label `approval.refund` (no agent has a tool in `approval` or `confirm`)"),
    ],
)
def test_condition_that_can_never_hold_is_found(tmp_path: Path, when: str, words: str) -> None:
    """handoffs.md 3: `frontdesk check` compares a condition with the contracts of desk.yaml."""
    desk = DESK + "values:\n  risk: {allowed: [high, low]}\n  tags: {type: list}\n"
    settings = f"intended_use: Payments.\ntransfer_to: [human:support]\nthen: [{{to: triage, when: {when}}}]"
    folder = write(tmp_path, {"desk.yaml": desk, "billing/agent.md": agent_file(settings)})

    (problem,) = check(folder).errors

    assert (problem.field, problem.line) == ("then.0.when", 4)
    assert words in problem.message


def test_label_has_one_of_three_outcomes(tmp_path: Path) -> None:
    """handoffs.md 3 and 8: a condition on an approval that waits for another word would never hold."""
    tools = 'from agents import function_tool\n\n@function_tool\ndef pay() -> str:\n    "Pay."\n    return "paid"\n'
    settings = "intended_use: P.\ntransfer_to: [human:support]\ntools: [pay]\napproval: [pay]\n"
    settings += "then: [{to: triage, when: approval.pay == denied}, {to: triage, when: approval.pay is refused}]"
    folder = write(tmp_path, {"billing/agent.md": agent_file(settings), "billing/tools.py": tools})

    (problem,) = check(folder).errors

    assert problem.field == "then.0.when"
    assert problem.message == "`approval.pay` is never 'denied'; it is one of granted, refused, expired"


def test_step_takes_a_plain_target_or_settings(tmp_path: Path) -> None:
    """handoffs.md 3: `then: [orders]` and `then: [{to: orders}]` mean the same."""
    settings = (
        "intended_use: Payments.\ntransfer_to: [human:support]\nthen: [triage, {to: 'human:support', hidden: true}]"
    )
    roster = load_roster(write(tmp_path, {"billing/agent.md": agent_file(settings)}))

    first, second = roster["billing"].then
    assert (first.to, first.when, first.hidden) == ("triage", None, False)
    assert (second.to, second.hidden) == ("human:support", True)
