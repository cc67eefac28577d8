"""A transfer wished beside a call that waits: much may change before somebody decides, so it is asked again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from handoffs.approvals import Answers
from handoffs.context import TurnContext
from handoffs.policy import LoopStopped, Refused, exit_target
from handoffs.roster import AgentSpec, Roster
from handoffs.transfer import TransferRequest


def checked_again(
    roster: Roster, spec: AgentSpec, context: TurnContext, request: TransferRequest, found: Answers
) -> Answers:
    """Record `request` in `context` as far as it may happen now; `found` with what the model reads of it.

    A target that is gone, switched off, closed or whose entry conditions are not met any more is a refusal, as it would
    have been in the first place; the model reads that instead of the promise, and may choose again.
    """
    if request.decided_by != "model":  # an exit, whatever the model wished: it must lead somewhere
        to = request.to if roster.available(request.to) else exit_target(roster, spec)
        context.request = request.model_copy(update={"to": to})
        return found
    decision = context.decide(request.to)
    if isinstance(decision, Refused):
        context.refusals.append({"to": request.to, "why": decision.text})
        return replace(found, saved=_told(found.saved, request.call_id, decision.text))
    if isinstance(decision, LoopStopped):
        update = {"to": decision.exit, "reason": decision.why, "decided_by": "loop_guard"}
        request = request.model_copy(update=update)
    context.request = request
    return found


def _told(saved: str, call_id: str, text: str) -> str:
    """The saved run in which the result of this call is `text`."""
    state = json.loads(saved)
    for node in _objects(state):
        if node.get("type") == "function_call_output" and node.get("call_id") == call_id:
            node["output"] = text
    return json.dumps(state, ensure_ascii=False)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object in `value`, at any depth."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(inner)
