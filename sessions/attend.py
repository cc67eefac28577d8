"""Attend: time has passed, what is to be done? Leases, presence and deadlines end by Redis' clock only.

`due` names the conversations, `attend` settles one of them; both are safe at any moment and in any number of processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sessions.approvals import Approvals
from sessions.base import REQUEST_TTL_S, handed
from sessions.cancellation import shielded
from sessions.errors import UnknownConversation
from sessions.keys import MAX_LEASE_MS, SHARDS, Keys, due_key
from sessions.model import Attention, Conversation, Owner, Rescue, What
from sessions.reads import Reads
from sessions.scripts import compact

MAX_ATTEMPTS = 3  # a turn that died this often is not tried again
CLOCK_CHECK_EVERY = 20  # calls of `due`; entries from before a clock was set back hide until it has caught up

Rescuer = Callable[[Conversation, str], Rescue | None]


def to_support(_: Conversation, why: str) -> Rescue:
    """The rescue of a desk without routes: the queue `support`."""
    return Rescue("support", {"reason": why, "decided_by": "system"})


class Attend(Approvals, Reads):
    """due and attend, for the sweep that every worker runs."""

    _due_calls = 0

    async def due(self, limit_per_shard: int = 20) -> list[str]:
        """Conversations at which somebody must look now: see `attend`."""
        now = await self.now()
        far = self._due_calls % CLOCK_CHECK_EVERY == 0  # no entry is ever written this far ahead
        self._due_calls += 1
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrangebyscore(due_key(shard), "-inf", now, start=0, num=limit_per_shard)
                if far:
                    ahead = f"({now + MAX_LEASE_MS}"
                    pipe.zrangebyscore(due_key(shard), ahead, "+inf", start=0, num=limit_per_shard)
            rows = await self._read(pipe.execute())
        return [conversation_id for shard in rows for conversation_id in shard]

    async def attend(
        self, conversation_id: str, *, rescue: Rescuer = to_support, max_attempts: int = MAX_ATTEMPTS
    ) -> Attention:
        """Settle what ran out, and say what is to be done. Each call settles one thing; what is left is due again.

        READY: messages wait (or an approval was decided) and nobody works on it: claim it. MOVED: a person was gone
        (`human_lost`), or a turn died `max_attempts` times (`poison`), and the conversation is in a human queue now.
        OFFER_EXPIRED and APPROVAL_EXPIRED: the owner stays. LIVE: look again in `retry_ms`.
        `rescue(conversation, why)` says where it goes; None leaves it where it is.
        """
        keys = Keys.of(conversation_id)
        while True:
            reply, rescues = await shielded(self._expire(keys, rescue, max_attempts))
            if reply[0] != "AGAIN":  # else: another offer than the one that was read is pending now
                break
        if reply[0] == "ASK":
            await self._expire_approval(conversation_id, reply[1])
            return Attention(What.APPROVAL_EXPIRED, reply[1])
        if reply[0] == "OFFER":
            return Attention(What.OFFER_EXPIRED, reply[1])
        if reply[0] == "MOVED":
            previous = Owner.parse(reply[4])
            return Attention(What.MOVED, reply[1], epoch=int(reply[2]), previous=previous, rescue=rescues[reply[1]])
        if reply[0] == "LIVE":
            return Attention(What.LIVE, retry_ms=int(reply[1]))
        return Attention(What.READY if reply[0] == "READY" else What.NOTHING)

    async def _expire(
        self, keys: Keys, rescue: Rescuer, max_attempts: int
    ) -> tuple[list[Any], dict[str, Rescue | None]]:
        conversation = await self._glance(keys)
        offer = conversation.offer if conversation else ""
        rescues = {why: rescue(conversation, why) if conversation else None for why in ("human_lost", "poison")}
        where: list[str] = []
        for found in rescues.values():
            where += [found.queue_id, compact(found.change), handed(found.handing)] if found else ["", "", ""]
        reply = await self._call(
            "expire",
            keys,
            [max_attempts, offer, REQUEST_TTL_S, compact({"offer": offer}), *where],
            more=[keys.idempotency(f"offer:{offer or '-'}")],
        )
        return reply, rescues

    async def _glance(self, keys: Keys) -> Conversation | None:
        try:
            return await self.get(keys.conversation_id)
        except UnknownConversation:  # closed, and its retention time is over: only the schedule still has it
            return None
