"""The tool ledger: a call that changes something outside is written down before and after, and never made twice.

A turn that runs again after a crash gets the recorded result. A call that broke off in the middle is not repeated,
since nobody knows whether it took effect: the conversation goes to people. Tools listed under `read_only:` in the
agent file are left out, because looking something up twice harms nobody.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from typing import Any

from agents import FunctionTool
from agents.tool_context import ToolContext

from handoffs.call_notes import noting
from handoffs.context import TurnContext
from handoffs.tools import with_invocation
from handoffs.transfer import Brief, TransferRequest
from sessions.errors import CallUnfinished
from sessions.model import Token
from sessions.store import Store

log = logging.getLogger("frontdesk.ledger")


class Ledger:
    """One run's view of the journal: names calls, asks before, records after. StaleOwner stops a stale worker.

    `settled` are the calls whose changes of shared values are in the turn's working copy; its runs share it.
    """

    def __init__(self, store: Store, conversation_id: str, token: Token, settled: set[str] | None = None) -> None:
        self._store = store
        self._conversation_id = conversation_id
        self._token = token
        self._made: Counter[str] = Counter()
        self._settled = set() if settled is None else settled

    @property
    def used(self) -> bool:
        """Whether the run has called a tool that may change something outside."""
        return bool(self._made)

    def key(self, agent_id: str, tool_name: str, arguments: str) -> str:
        """The call's name, the same when the turn runs again: the n-th call of this tool with these arguments."""
        name = f"{agent_id}:{tool_name}:{digest(arguments)}"
        self._made[name] += 1
        return f"{name}:{self._made[name]}"

    async def begin(self, key: str) -> tuple[bool, Any]:
        """Whether the call must be made now; else what it gave, see `call_once`. Raises StaleOwner, CallUnfinished."""
        begun = await self._store.begin_call(self._conversation_id, self._token, key)
        known = key in self._settled
        self._settled.add(key)
        if known and isinstance(begun.result, dict):
            return begun.run, begun.result["text"]
        return begun.run, begun.result

    async def finish(self, key: str, result: Any) -> Any:
        """Keep the result of a call that was made."""
        return await self._store.finish_call(self._conversation_id, self._token, key, result)


def digest(arguments: str) -> str:
    """A hash of a call's arguments that does not depend on spaces or the order of keys."""
    try:
        text = json.dumps(json.loads(arguments or "{}"), sort_keys=True, separators=(",", ":"))
    except ValueError:
        text = arguments
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def nth(key: str) -> str:
    """Which of equal calls `key` names: a number, or the id of its approval.

    The arguments stay out of it: a model words them anew, and what counts of them only the tool knows.
    """
    return key.rpartition(":")[2]


def journalled(tool: FunctionTool, people: str) -> FunctionTool:
    """The same tool for the model, made at most once per call; `people` get the conversation when nobody can tell."""

    async def invoke(ctx: ToolContext[TurnContext], arguments: str) -> Any:
        ledger = ctx.context.ledger
        key = ledger.key(ctx.context.agent_id, tool.name, arguments) if ledger is not None else ""
        return await call_once(tool, people, ctx, arguments, key)

    return with_invocation(tool, invoke)


async def call_once(tool: FunctionTool, people: str, ctx: ToolContext[TurnContext], arguments: str, key: str) -> Any:
    """Make the call that the journal knows as `key`, unless an earlier attempt made it; without a journal, make it.

    Shared values that it changed are kept with its result, `{"text", "changes"}`: what an earlier attempt changed went
    with that attempt, so it is changed again when the result is given again.
    """
    ledger = ctx.context.ledger
    if ledger is None:
        return await tool.on_invoke_tool(ctx, arguments)
    try:
        must_run, earlier = await ledger.begin(key)
    except CallUnfinished as error:
        log.warning("%s", error)
        return unknown_outcome(ctx.context, tool.name, arguments, people, ctx.tool_call_id)
    if not must_run:
        return given_again(ctx.context, earlier)
    with noting(nth(key)) as notes:
        result = await tool.on_invoke_tool(ctx, arguments)
    await ledger.finish(key, {"text": str(result), "changes": notes.changes} if notes.changes else str(result))
    return result


def given_again(context: TurnContext, earlier: Any) -> Any:
    """The recorded result of a call, after its changes of shared values are made in this attempt as well."""
    if not isinstance(earlier, dict):
        return earlier
    lost = context.values.again(earlier["changes"])
    if not lost:
        return earlier["text"]
    log.warning(
        "%s: not changed again, after others or against the contract: %s", context.conversation_id, ", ".join(lost)
    )
    why = "Somebody else has changed it since, or it is not allowed any more."
    return f"{earlier['text']}\n(Not kept: {', '.join(lost)}. {why})"


def unknown_outcome(context: TurnContext, tool_name: str, arguments: str, people: str, call_id: str) -> str:
    """An earlier attempt broke off in the middle of this call: people look, nobody repeats it."""
    if context.request is None:
        context.request = TransferRequest(
            to=people,
            reason=f"it is not known whether {tool_name} took effect; an earlier attempt broke off in the middle",
            brief=Brief(goal=f"Find out whether {tool_name} was done", facts=(f"{tool_name}: {arguments}",)),
            decided_by="ledger",
            call_id=call_id,
        )
    return "Not repeated: it is not known whether this was done. The conversation is being handed to a person."
