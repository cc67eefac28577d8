"""Everything that can go wrong in Frontdesk's router.

FrontdeskError (sessions.errors)  the root
  HandoffError                    something about agents, routes or a turn
    MessageRejected               a message that cannot be taken as it is; `field` and `why`
    UnknownTarget                 no such agent; `allowed` names those there are
    RosterInvalid                 the agent files cannot be used; `problems` has every reason
    ToolProblem                   a tool cannot do what it was asked; the text goes to the model
    ValueNotAllowed               this agent may not read or write this shared value
    ValueInvalid                  the value does not fit its contract in desk.yaml
    NotReplayable                 a recorded run cannot be played again; `why`
    BudgetSpent                   the turn used up its model calls, seconds or transfers
    ModelFailed                   the model gave no usable answer, also after the retries
    ApprovalDecided               somebody (or the time) decided this approval first; `approval` has the answer
    NotTheirs                     an approval that is for somebody else to decide
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sessions.errors import FrontdeskError
from sessions.model import Approval

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in the agent files, said to the person who edits them.

    `file` is relative to the agents folder, `line` counts from 1 (0: the whole file), `field` is the path of the
    front matter key (`values.read.1`; empty: none), `message` says what came and what is allowed.
    """

    file: str
    line: int
    field: str
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"


class HandoffError(FrontdeskError):
    """Something about agents, routes or a turn."""


class MessageRejected(HandoffError):
    """A message that cannot be taken as it is. `field` names what is wrong, `why` what came and what is allowed."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field
        self.why = why


class UnknownTarget(HandoffError):
    """No agent (or queue: `what`) of that id is in the roster; `allowed` names those there are."""

    def __init__(self, target: str, allowed: Sequence[str], *, what: str = "agent") -> None:
        super().__init__(f"to: there is no {what} {target!r}; allowed: {', '.join(allowed)}")
        self.target = target
        self.allowed = tuple(allowed)


class RosterInvalid(HandoffError):
    """The agent files (or agents) cannot be used. `problems` has every reason, in the order of the files."""

    def __init__(self, problems: Iterable[Problem], *, what: str = "agent files") -> None:
        self.problems = list(problems)
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the {what} have {count} problem{'s' if count != 1 else ''}:\n{lines}")


class ToolProblem(HandoffError):
    """Raised inside a tool when it cannot do what it was asked. The text goes to the model as the tool's result."""


class ValueNotAllowed(HandoffError):
    """`agent_id` may not `action` ("read" or "write") the shared value `key`; `allowed` are the keys it may."""

    def __init__(self, key: str, *, agent_id: str, action: Literal["read", "write"], allowed: Sequence[str]) -> None:
        super().__init__(
            f"agent {agent_id!r} may not {action} the value {key!r}; it may {action}: {', '.join(allowed) or 'none'}"
        )
        self.key = key
        self.agent_id = agent_id
        self.action = action
        self.allowed = tuple(allowed)


class ValueInvalid(HandoffError):
    """A value does not fit its contract. `key` names it, `why` says what came and what is allowed."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"value {key!r}: {why}")
        self.key = key
        self.why = why


class NotReplayable(HandoffError):
    """A recorded run cannot be played again; `why` says what is missing."""

    def __init__(self, run_id: str, why: str) -> None:
        super().__init__(f"the run {run_id} cannot be replayed: {why}")
        self.run_id = run_id
        self.why = why


class BudgetSpent(HandoffError):
    """A turn used up one of its limits. `what` is `model_calls`, `seconds` or `transfers`; `limit` is the number."""

    def __init__(self, agent_id: str, *, what: str, limit: float) -> None:
        super().__init__(f"agent {agent_id!r} has used up its limit of {limit:g} {what.replace('_', ' ')} in this turn")
        self.agent_id = agent_id
        self.what = what
        self.limit = limit


class ModelFailed(HandoffError):
    """The model of `agent_id` gave no usable answer, also after the retries; `why` is for the log, not the customer."""

    def __init__(self, agent_id: str, why: str) -> None:
        super().__init__(f"the model of agent {agent_id!r} gave no answer: {why}")
        self.agent_id = agent_id
        self.why = why


class ApprovalDecided(HandoffError):
    """Somebody decided this approval first, or its time was over and the default counts. `approval` has that answer."""

    def __init__(self, conversation_id: str, approval: Approval) -> None:
        who = "nobody decided in time" if approval.by == "system" else f"by {approval.by}"
        super().__init__(
            f"conversation {conversation_id}: approval {approval.approval_id} was {approval.verdict} already ({who})"
        )
        self.approval = approval


class NotTheirs(HandoffError):
    """Somebody answers what others are asked. `approver` is `people` or `customer`."""

    def __init__(self, approval_id: str, approver: str) -> None:
        whose = "the customer's word" if approver == "customer" else "a person at the desk"
        super().__init__(f"by: approval {approval_id} needs {whose}")
        self.approver = approver
