"""Sensitive values in foreign texts: masked by name, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from handoffs.masking import masked_brief, masker, unchanged
from handoffs.roster import Roster
from handoffs.transfer import Brief
from tests.handoffs.desks import agent, roster

VALUES: dict[str, Any] = {
    "card": "4111 1111",
    "pin": "42",
    "name": "王小明",
    "account": 77012345,
    "address": {"street": "Long Lane 5", "zip": "10115"},
    "open": "A-10023",
    "checked": True,
}


def desk() -> Roster:
    kinds = {"account": "integer", "address": "map", "checked": "boolean"}
    contracts = {key: {"type": kinds.get(key, "string"), "sensitive": key != "open"} for key in VALUES}
    return roster(agent("triage"), values=contracts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my card is 4111 1111.", "my card is [card hidden]."),
        ("account 77012345, not 770123456", "account [account hidden], not 770123456"),
        ("您好王小明先生", "您好[name hidden]先生"),
        ("to LONG LANE 5, 10115", "to [address hidden], [address hidden]"),
        ("order A-10023 of 42 is True", "order A-10023 of 42 is True"),
    ],
)
def test_values_are_replaced_by_their_names(text: str, expected: str) -> None:
    """handoffs.md 5: exact occurrences of sensitive values are masked, in any script and inside maps."""
    assert masker(desk(), VALUES.get)(text) == expected


def test_readable_and_unset_values_are_left_alone() -> None:
    """handoffs.md 5: what the reader may know is not masked, and without set values there is no work."""
    mask = masker(desk(), VALUES.get, readable=("card",))

    assert mask("4111 1111 and 77012345") == "4111 1111 and [account hidden]"
    assert masker(desk(), lambda key: None) is unchanged


def test_brief_is_masked_in_every_field() -> None:
    """handoffs.md 5: a brief is foreign text too."""
    told = ("card 4111 1111",)
    brief = masked_brief(
        Brief(goal=told[0], facts=told, tried=told, promised=told, open_questions=told), masker(desk(), VALUES.get)
    )

    assert "4111" not in brief.model_dump_json()
    assert brief.model_dump_json().count("[card hidden]") == 5
