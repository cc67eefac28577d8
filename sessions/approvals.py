"""Approvals: an agent asks whether it may make one call, somebody decides once, the agent uses it once (I11).

An approval belongs to the agent that asked, for as long as this agent stays the owner; afterwards it is void until the
agent, being the owner again, binds it again. A decision wakes the conversation up: its next claim goes through although
no message waits, and `Conversation.woken` names the approvals.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sessions import replies
from sessions.base import Arguments, StoreBase, checked_wait
from sessions.cancellation import shielded
from sessions.errors import ApprovalUsed, ApprovalVoid, Conflict, NotClaimable, UnknownApproval
from sessions.keys import SHARDS, Keys, checked_id, due_key
from sessions.model import Approval, Json, Token
from sessions.scripts import compact

Verdict = Literal["granted", "refused"]


def arguments_hash(tool: str, arguments: Mapping[str, Json]) -> str:
    """What an approval is bound to: the tool and its arguments, whatever order they are written in."""
    text = json.dumps([tool, arguments], ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _decided(approval_id: str, verdict: str, note: str) -> tuple[str, str, str]:
    """Data of `approval.decided`: for this verdict, and for both that the default can be when its time is over."""
    in_time = {"approval": approval_id, "verdict": verdict, "note": note}
    late = ({"approval": approval_id, "verdict": word, "note": "", "late": True} for word in ("granted", "refused"))
    granted, refused = map(compact, late)
    return compact(in_time), granted, refused


class Approvals(StoreBase):
    """ask_approval, decide_approval, use_approval; `attend` applies the default when nobody decides in time."""

    async def ask_approval(
        self,
        conversation_id: str,
        token: Token,
        approval_id: str,
        *,
        arguments: str,
        call: Mapping[str, Any],
        valid_ms: int,
        default: Verdict = "refused",
        rebind: bool = False,
    ) -> Approval:
        """Ask once under a stable id; the same id again gives what became of it. `arguments` is an `arguments_hash`.

        `rebind` binds an approval that is void to this owner again, with its decision if there is one.
        Raises Conflict (the id was used for other arguments), StaleOwner, NotClaimable (a person holds the token).
        """
        keys = Keys.of(conversation_id)
        checked_id("approval_id", approval_id)
        asked = compact({"approval": approval_id, "call": call})
        args: Arguments = [
            *(token.epoch, token.fence, approval_id, arguments, checked_wait("valid_ms", valid_ms), default),
            *(compact(call), asked, int(rebind)),
        ]
        reply = await shielded(self._call("approval_ask", keys, args, more=[keys.approval(approval_id)]))
        if reply[0] == "REUSED":
            raise Conflict(conversation_id, field="arguments", current="another call")
        if reply[0] == "NOTAI":
            raise NotClaimable(conversation_id, why="not_ai", owner=reply[1])
        return replies.approval(reply[1], reply[2], duplicate=reply[0] == "DUP")

    async def decide_approval(
        self, conversation_id: str, approval_id: str, verdict: Verdict, *, by: str, note: str = ""
    ) -> Approval:
        """Decide, once. Who comes second gets the first answer, with `duplicate`; who comes too late, the default.

        Raises UnknownApproval, ApprovalVoid (somebody else owns now), ConversationClosed.
        """
        return await self._decide(conversation_id, approval_id, verdict, by, note)

    async def _decide(self, conversation_id: str, approval_id: str, verdict: str, by: str, note: str) -> Approval:
        keys = Keys.of(conversation_id)
        checked_id("approval_id", approval_id)
        args: Arguments = [approval_id, verdict, by, note, *_decided(approval_id, verdict, note)]
        reply = await shielded(self._call("approval_decide", keys, args, more=[keys.approval(approval_id)]))
        self._raise_refused(conversation_id, approval_id, reply)
        return replies.approval(reply[1], reply[2], duplicate=reply[0] == "DUP")

    async def _expire_approval(self, conversation_id: str, approval_id: str) -> None:
        """Apply the default of an approval whose time is over; nothing when it is not, or when it was decided."""
        keys = Keys.of(conversation_id)
        args: Arguments = [approval_id, "", "system", "", *_decided(approval_id, "", "")]
        await self._call("approval_decide", keys, args, more=[keys.approval(approval_id)])

    async def use_approval(
        self, conversation_id: str, token: Token, approval_id: str, *, arguments: str, use: str
    ) -> Approval:
        """Use a granted approval for one call, named by `use`; go on only when the answer's state is `used`.

        State asked: nobody decided yet. State refused: the answer is no. The same `use` again (a turn that runs again)
        gets `used` again. Raises StaleOwner, UnknownApproval, ApprovalVoid, ApprovalUsed, Conflict (other arguments).
        """
        keys = Keys.of(conversation_id)
        checked_id("approval_id", approval_id)
        data = compact({"approval": approval_id, "use": use})
        args: Arguments = [token.epoch, token.fence, approval_id, arguments, use, data]
        reply = await shielded(self._call("approval_consume", keys, args, more=[keys.approval(approval_id)]))
        self._raise_refused(conversation_id, approval_id, reply)
        return replies.approval(reply[1], reply[2])

    async def resting(self, conversation_id: str, approval_ids: Iterable[str]) -> tuple[list[Approval], str]:
        """What became of these approvals (in this order, without unknown ones), and what the resting turn needs."""
        keys = Keys.of(conversation_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(keys.own, "tenure")
            pipe.get(keys.rest)
            for approval_id in approval_ids:
                pipe.hgetall(keys.approval(approval_id))
            tenure, needs, *rows = await self._read(pipe.execute())
        return [replies.approval(row, tenure or "") for row in rows if row], needs or ""

    async def waiting_approvals(self, limit: int = 200) -> list[tuple[str, Approval]]:
        """Approvals that somebody must decide, with their conversations; the nearest deadline first.

        Each of them is in the schedule, for its deadline: no other index is needed.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrange(due_key(shard), 0, -1)
            rows = await self._read(pipe.execute())
        scheduled = [conversation_id for shard in rows for conversation_id in shard]
        async with self._redis.pipeline(transaction=False) as pipe:
            for conversation_id in scheduled:
                pipe.hmget(Keys.of(conversation_id).own, "asks", "st")
            found = await self._read(pipe.execute()) if scheduled else []
        asking = [
            (int(entry.partition("=")[2]), conversation_id, entry.partition("=")[0])
            for conversation_id, (asks, status) in zip(scheduled, found, strict=True)
            if asks and status == "open"
            for entry in asks.split()
        ]
        waiting = []
        for _, conversation_id, approval_id in sorted(asking)[:limit]:
            approvals, _ = await self.resting(conversation_id, [approval_id])
            waiting += [(conversation_id, one) for one in approvals if one.state == "asked" and not one.void]
        return waiting

    async def approvals(self, conversation_id: str) -> list[Approval]:
        """Every approval that was asked for, the newest deadline first."""
        keys = Keys.of(conversation_id)
        own = await self._read(self._redis.hgetall(keys.own))
        names = [name for name in replies.registered(own) if name.startswith("ap:")]
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(keys.named(name))
            rows = await self._read(pipe.execute()) if names else []
        found = [replies.approval(row, own.get("tenure", "")) for row in rows if row]
        return sorted(found, key=lambda approval: -approval.deadline)

    def _raise_refused(self, conversation_id: str, approval_id: str, reply: list[Any]) -> None:
        if reply[0] == "NOAPPROVAL":
            raise UnknownApproval(conversation_id, approval_id)
        if reply[0] == "VOID":
            raise ApprovalVoid(conversation_id, approval_id, owner=reply[1])
        if reply[0] == "USED":
            raise ApprovalUsed(conversation_id, approval_id, use=reply[1])
