"""`frontdesk approvals`, `approve` and `deny`: calls that wait for somebody's word, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.commands.conversations import moment
from app.commands.output import safe


def approval_list(approvals: list[dict[str, Any]]) -> RenderableType:
    """Three lines for each: its ids, the call, and until when."""
    if not approvals:
        return Text("No call waits for an approval.")
    return Group(*(line for approval in approvals for line in _lines(approval)))


def _lines(approval: Mapping[str, Any]) -> tuple[Text, Text, Text]:
    head = Text.assemble(safe(str(approval["conversation"])), "  ", (safe(str(approval["id"])), "bold"))
    arguments = json.dumps(approval["arguments"], ensure_ascii=False)
    call = Text.assemble("  ", (safe(str(approval["agent"])), "cyan"), " wants ", (safe(str(approval["tool"])), "bold"))
    call.append(" " + safe(arguments))
    return head, call, Text("  " + _state(approval), style="dim")


def _state(approval: Mapping[str, Any]) -> str:
    if approval["void"]:
        return "void: the conversation has another owner now"
    if approval["state"] == "asked":
        who = "the customer" if approval["approver"] == "customer" else "a person at the desk"
        return f"waits for {who} until {moment(str(approval['deadline']))}, then {approval['default']}"
    by = "nobody decided in time" if approval["by"] == "system" else f"by {safe(str(approval['by']))}"
    return f"{approval['verdict']} ({by})"


def decided_line(approval: Mapping[str, Any]) -> str:
    """What became of an answer."""
    return f"{approval['tool']} is {approval['verdict']}; {approval['agent']} goes on."
