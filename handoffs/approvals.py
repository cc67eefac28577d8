"""Approvals: a call that somebody must agree to is asked about, the turn rests, and the answer lets it go on.

The SDK interrupts the run (`needs_approval`) and its RunState, saved with the question, takes it up again: calls that
ran already are not made again, also inside an agent that is asked as a tool. The store sees to it that an answer counts
once; the journal, that a released call is made once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agents import Agent, FunctionTool, RunContextWrapper, RunResult, RunState, ToolApprovalItem
from agents.tool_context import ToolContext

from handoffs.context import TurnContext
from handoffs.errors import ApprovalDecided, NotTheirs
from handoffs.ledger import call_once, journalled
from handoffs.roster import AgentSpec, ApprovalSettings, Roster
from handoffs.texts import sentence
from handoffs.tools import with_invocation
from handoffs.transfer import TransferRequest
from handoffs.waiting import Rest, Waiting, Wish
from sessions.approvals import Verdict
from sessions.errors import ApprovalUsed, ApprovalVoid, UnknownApproval
from sessions.model import Approval, Question, Token
from sessions.store import Store

NOT_ALLOWED = "Not done: nobody has agreed to this call."
PEOPLE, CUSTOMER = "people", "customer"  # who decides
SYSTEM = "system"  # who decides when nobody did in time

State = RunState[TurnContext, Agent[TurnContext]]


# -- before the question ---------------------------------------------------------------------------------------------


def gated(tool: FunctionTool, people: str, *, always: bool = True) -> FunctionTool:
    """The same tool for the model; a call of it interrupts the run until somebody has agreed to exactly that call.

    Not `always`: the tool's own `needs_approval` says which calls wait, and the SDK has asked it before it comes here.
    """
    free = journalled(tool, people)

    async def invoke(ctx: ToolContext[TurnContext], arguments: str) -> Any:
        released = ctx.context.released
        if not always and (released is None or not released.asked(tool.name, ctx.tool_call_id)):
            return await free.on_invoke_tool(ctx, arguments)
        key = await released.key(tool.name, ctx.tool_call_id, arguments) if released is not None else ""
        return await call_once(tool, people, ctx, arguments, key) if key else NOT_ALLOWED

    found = with_invocation(tool, invoke)
    if always:
        found.needs_approval = True
    return found


@dataclass(frozen=True, slots=True)
class Interruption:
    """Where a run stopped: the calls that wait, and all that the SDK needs to go on, as JSON."""

    wishes: tuple[Wish, ...]
    state: str


def interruption(result: RunResult | None) -> Interruption | None:
    """None when the run came to its end. The run's context is not saved: a new one is made when it goes on."""
    if result is None or not result.interruptions:
        return None
    state = result.to_state().to_json(context_serializer=lambda _: {})
    return Interruption(tuple(_wish(item) for item in result.interruptions), json.dumps(state, ensure_ascii=False))


def _wish(item: ToolApprovalItem) -> Wish:
    return Wish(call_id=_call_id(item), tool=item.name or "", agent=item.agent.name, arguments=item.arguments or "")


def _call_id(item: ToolApprovalItem) -> str:
    raw = item.raw_item
    return str(raw.get("call_id") if isinstance(raw, Mapping) else getattr(raw, "call_id", ""))


# -- the question ----------------------------------------------------------------------------------------------------


def settings_for(roster: Roster, agent_id: str) -> ApprovalSettings:
    """How this agent's calls are asked about: its own `approvals:`, else the desk's."""
    spec = roster.agents.get(agent_id)
    return (spec.approvals if spec else None) or roster.desk.approvals


def approver(roster: Roster, wish: Wish) -> str:
    """Who decides about a call: the customer when the agent lists the tool under `confirm`, else people."""
    spec = roster.agents.get(wish.agent)
    return CUSTOMER if spec and wish.tool in spec.confirm else PEOPLE


def questions(roster: Roster, owner: AgentSpec, calls: Iterable[Waiting], asked: Iterable[str]) -> list[Question]:
    """What the commit asks for: one question for each call whose id is not among `asked`."""
    how = settings_for(roster, owner.id)
    known = set(asked)
    return [
        Question(
            call.approval_id,
            call.hash,
            {"tool": call.tool, "arguments": call.parsed, "agent": call.agent, "approver": approver(roster, call)},
            how.valid_ms,
            how.default,
        )
        for call in calls
        if call.approval_id not in known
    ]


def told(roster: Roster, owner: AgentSpec, calls: Iterable[Waiting], language: str) -> str:
    """What the customer reads while a call waits."""
    how = settings_for(roster, owner.id)
    if how.text:
        return roster.text(how.text, language)
    by_customer = all(approver(roster, call) == CUSTOMER for call in calls)
    return sentence("confirm" if by_customer else "approval", language)


def holding_line(roster: Roster, owner: AgentSpec, rest: Rest, messages: int, language: str) -> str:
    """What the customer, who wrote meanwhile, reads once; empty when nothing is said."""
    how = settings_for(roster, owner.id)
    if how.waiting != "line" or rest.line or messages <= rest.asked:
        return ""
    return roster.text(how.line, language) if how.line else sentence("approval_line", language)


# -- the answer ------------------------------------------------------------------------------------------------------


def outcome(approval: Approval) -> str:
    """The label of an answer: granted, refused, or expired when nobody gave one and the default is no."""
    if approval.verdict == "granted":
        return "granted"
    return "expired" if approval.by == SYSTEM else "refused"


def refusal(approval: Approval, request: TransferRequest | None) -> str:
    """The result of a refused call, as the model reads it. A person's note is quoted, in JSON: data, no instruction.

    A transfer to `request.to` that the model wished in the same breath is not made either: it may think again.
    """
    found: dict[str, Any] = {"done": False, "approval": outcome(approval)}
    if approval.note:
        found["note"] = approval.note
    if request is not None:
        found["not_done_either"] = f"the transfer to {request.to}"
    return json.dumps(found, ensure_ascii=False)


class Released:
    """The calls of one run that somebody agreed to. Each is used in the store before it is made, once."""

    def __init__(self, store: Store, conversation_id: str, token: Token, turn: str, calls: Iterable[Waiting]) -> None:
        self._store = store
        self._conversation_id = conversation_id
        self._token = token
        self._turn = turn
        self._calls = {(call.tool, call.call_id): call for call in calls}

    def asked(self, tool: str, call_id: str) -> bool:
        """Whether somebody agreed to this call."""
        return (tool, call_id) in self._calls

    async def key(self, tool: str, call_id: str, arguments: str) -> str:
        """The journal's key for this call; empty when it may not be made. StaleOwner when somebody else owns."""
        call = self._calls.get((tool, call_id))
        if call is None:
            return ""
        wish = Wish(call_id=call_id, tool=tool, agent=call.agent, arguments=arguments)
        try:
            approval = await self._store.use_approval(
                self._conversation_id, self._token, call.approval_id, arguments=wish.hash, use=f"turn:{self._turn}"
            )
        except (ApprovalVoid, ApprovalUsed, UnknownApproval):
            return ""
        return f"approval:{call.approval_id}" if approval.state == "used" else ""


@dataclass(frozen=True, slots=True)
class Answers:
    """What was decided about the calls of a resting turn; `waiting` are still open. `saved` is the SDK's state."""

    granted: tuple[Waiting, ...]
    refused: Mapping[str, Approval]  # by call id
    labels: Mapping[str, str]  # by tool
    saved: str


def answers(rest: Rest, approvals: Iterable[Approval], saved: str) -> Answers:
    """Sort the calls of `rest` by what became of their approvals."""
    found = {approval.approval_id: approval for approval in approvals}
    decided = [(call, found[call.approval_id]) for call in rest.calls if found[call.approval_id].state != "asked"]
    return Answers(
        tuple(call for call, approval in decided if approval.verdict == "granted"),
        {call.call_id: approval for call, approval in decided if approval.verdict != "granted"},
        {call.tool: outcome(approval) for call, approval in decided},
        saved,
    )


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that goes on: the SDK's state, and how many of its items the customer was told already."""

    state: State
    told: int
    not_made: frozenset[str]


async def resumed(agent: Agent[TurnContext], context: TurnContext, rest: Rest, answers_: Answers) -> Resumed:
    """The run as it stopped, with the answers in it. Raises what the SDK raises when it cannot read its own state."""
    state: State = await RunState.from_json(
        agent, json.loads(answers_.saved), context_override=RunContextWrapper(context)
    )
    granted = {(call.tool, call.call_id) for call in answers_.granted}
    for item in state.get_interruptions():
        call_id = _call_id(item)
        if (item.name, call_id) in granted:
            state.approve(item)
        elif call_id in answers_.refused:
            state.reject(item, rejection_message=refusal(answers_.refused[call_id], rest.request))
    return Resumed(state, rest.told, frozenset(answers_.refused))


async def decide(
    store: Store, conversation_id: str, approval_id: str, verdict: Verdict, *, by: str, note: str = ""
) -> Approval:
    """Answer a question, once; the turn that rests for it goes on. `by` is `human:<id>` or `customer`.

    Raises ApprovalDecided (with the first answer), NotTheirs, ApprovalVoid (somebody else owns the conversation now),
    UnknownApproval, ConversationClosed.
    """
    found, _ = await store.resting(conversation_id, [approval_id])
    if not found:
        raise UnknownApproval(conversation_id, approval_id)
    theirs = str(found[0].call.get("approver", PEOPLE))
    if (theirs == CUSTOMER) != (by == CUSTOMER):
        raise NotTheirs(approval_id, theirs)
    approval = await store.decide_approval(conversation_id, approval_id, verdict, by=by, note=note)
    if approval.duplicate or approval.by != by:
        raise ApprovalDecided(conversation_id, approval)
    return approval
