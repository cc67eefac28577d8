"""What a customer reads of a call that was not approved: a sentence, and never the words of who decided."""

from __future__ import annotations

import json

import pytest

from app.offline.work import told


@pytest.mark.parametrize(
    ("language", "approval", "sentence"),
    [
        ("en", "refused", "That was not approved, so it has not been done."),
        ("en", "expired", "Nobody could decide about that in time, so it has not been done."),
        ("zh", "refused", "该操作未获批准，因此没有执行。"),
    ],
)
def test_the_note_of_who_refused_stays_at_the_desk(language: str, approval: str, sentence: str) -> None:
    """A refusal reaches the agent as JSON with a note for it; the customer gets the outcome alone."""
    output = json.dumps({"done": False, "approval": approval, "note": "INTERNAL: looks like fraud"})
    assert told(language, output) == sentence


@pytest.mark.parametrize("output", ["Your refund is on its way.", '{"done": true}', "[1]", "{"])
def test_other_results_are_told_as_they_are(output: str) -> None:
    """Only refused calls are put into words; a tool's own result is quoted."""
    assert told("en", output) == output
