"""Positions in the log: clients that come back, and sinks (desks, webhooks) that deliver it elsewhere."""

from __future__ import annotations

from sessions import replies
from sessions.base import StoreBase
from sessions.cancellation import shielded
from sessions.keys import Keys, checked_id
from sessions.model import Position, Resumed, ResumeState

RESUME_LIMIT = 1000  # events given at once; the client asks again from the last one


class Positions(StoreBase):
    """resume, cursor, advance_cursor, drop_cursor."""

    async def resume(self, conversation_id: str, last: Position, *, limit: int = RESUME_LIMIT) -> Resumed:
        """What came after `last`, if the log still has it in its place; else which way the client's copy is wrong.

        Raises UnknownConversation, ConversationForgotten.
        """
        reply = await self._call("resume", Keys.of(conversation_id), [last.epoch, last.seq, limit])
        return Resumed(ResumeState(reply[1]), int(reply[2]), int(reply[3]), replies.events(reply[4]))

    async def cursor(self, conversation_id: str, sink: str) -> Position:
        """The last event that a sink has delivered; `0-0` when it has not delivered any."""
        keys = Keys.of(conversation_id)
        text = await self._read(self._redis.get(keys.cursor(checked_id("sink", sink))))
        return Position.parse(text) if text else Position(0, 0)

    async def advance_cursor(self, conversation_id: str, sink: str, delivered: Position) -> Position:
        """The sink has delivered up to this event; where its cursor is now (it never moves back).

        The log keeps what a sink has not read, so a sink that is gone must be dropped.
        Raises Conflict (the log has no such event: a failover lost it), UnknownConversation.
        """
        keys = Keys.of(conversation_id)
        args = [checked_id("sink", sink), str(delivered)]
        reply = await shielded(self._call("cursor", keys, args, more=[keys.cursor(sink)]))
        return Position.parse(reply[1]) if reply[1] else Position(0, 0)

    async def drop_cursor(self, conversation_id: str, sink: str) -> None:
        """Nothing is delivered to this sink any more."""
        keys = Keys.of(conversation_id)
        await shielded(self._call("cursor", keys, [checked_id("sink", sink), ""], more=[keys.cursor(sink)]))
