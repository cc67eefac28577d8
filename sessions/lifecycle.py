"""The end of a conversation, and values that change outside a turn.

`close` keeps everything for the retention time and deletes it together; `forget` deletes a customer's data now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessions.base import REQUEST_TTL_S, Arguments, StoreBase, value_rows
from sessions.cancellation import shielded
from sessions.keys import Keys
from sessions.model import Token, ValueWrite
from sessions.replies import registered
from sessions.scripts import compact, groups

RETENTION_S = 30 * 86_400  # of a closed conversation
TOMBSTONE_S = 400 * 86_400  # longer than any browser keeps what could write under the id again
SCAN_COUNT = 1000


class Lifecycle(StoreBase):
    """close, forget, set_values."""

    async def close(
        self,
        conversation_id: str,
        *,
        by: str = "",
        token: Token | None = None,
        expected_epoch: int | None = None,
        retention_s: int = RETENTION_S,
    ) -> int:
        """End the conversation; the log's last seq. Nobody holds a token afterwards, and new messages are refused.

        With `token` only its holder may; without it, `by` (an owner ref or `system`) decides. Closing again changes
        nothing. Raises StaleOwner, Conflict (`expected_epoch` passed), UnknownConversation, ConversationForgotten.
        """
        if retention_s < 1:
            raise ValueError(f"retention_s: {retention_s} is not allowed; at least 1 s is, and forget() deletes now")
        held = token or Token(0, "")
        first: Arguments = [
            *(held.epoch, held.fence, "" if expected_epoch is None else expected_epoch, retention_s),
            *(by or ("" if token else "system"), compact({"status": "closed"})),
        ]
        reply = await self._with_all_keys("close", conversation_id, first)
        return int(reply[1])

    async def forget(self, conversation_id: str, *, tombstone_s: int = TOMBSTONE_S) -> None:
        """Delete the customer's data: messages, histories, values, approvals, requests. May be called again.

        A tombstone without any of it stays, so that neither a late worker nor a late client makes the id live again.
        Raises UnknownConversation.
        """
        await self._with_all_keys("forget", conversation_id, [tombstone_s])
        keys = Keys.of(conversation_id)
        rest = [key async for key in self._redis.scan_iter(match=keys.base + "*", count=SCAN_COUNT)]
        for key in rest:  # requests: they hold hashes of texts and are named by the clients' ids
            if key != keys.own:
                await self._read(self._redis.delete(key))

    async def _with_all_keys(self, script: str, conversation_id: str, first: Arguments) -> list[Any]:
        """Call a script that must be given every key; again when a new one appeared between reading and calling."""
        keys = Keys.of(conversation_id)
        while True:
            own = await self._read(self._redis.hgetall(keys.own))
            names = sorted(registered(own) | {"h:-"})
            more = [keys.named(name) for name in names]
            args: Arguments = [*first, *groups([[name] for name in names])]
            reply = await shielded(self._call(script, keys, args, more=more))
            if reply[0] != "AGAIN":
                return reply

    async def set_values(
        self, conversation_id: str, request_id: str, values: Iterable[ValueWrite], *, by: str
    ) -> tuple[int, bool]:
        """Set shared values outside a turn, all or none: the seq of `values.changed`, and whether it was a repetition.

        `by` is an owner ref (`human:ann`) or `system`. The log names the keys only. A running turn that changes one of
        them as well is refused at its commit. Raises Conflict (a revision has moved on), ConversationClosed.
        """
        writes = list(values)
        if not writes:
            raise ValueError("values: nothing to set")
        keys = Keys.of(conversation_id)
        named = compact({"keys": [write.key for write in writes]})
        args: Arguments = [by, REQUEST_TTL_S, named, *groups(value_rows(writes))]
        reply = await shielded(self._call("set_values", keys, args, more=[keys.idempotency(request_id)]))
        return int(reply[1]), reply[0] == "DUP"
