"""Reads: what is stored, as plain data. Nothing here changes a conversation."""

from __future__ import annotations

import asyncio
import secrets

from sessions import replies
from sessions.base import MAX_PENDING, StoreBase
from sessions.errors import UnknownConversation
from sessions.keys import SHARDS, Keys, checked_id, index_key
from sessions.model import Conversation, Ephemeral, Event, Item, OwnerKind, Pending, Value
from sessions.scripts import compact

INDEX_SCAN = 5000  # conversations looked through for those that are with people


class Reads(StoreBase):
    """The reading half of the store."""

    async def get(self, conversation_id: str) -> Conversation:
        """The owner record now; UnknownConversation when there is none."""
        keys = Keys.of(conversation_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.own)
            pipe.llen(keys.inbox)
            own, waiting = await self._read(pipe.execute())
        if not own:
            raise UnknownConversation(conversation_id)
        return replies.conversation(conversation_id, own, int(waiting))

    async def read(self, conversation_id: str, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        """Events with a seq above `after_seq`, oldest first, at most `limit`."""
        keys = Keys.of(conversation_id)
        newest_first = await self._read(self._redis.xrevrange(keys.log, "+", "-", count=limit))
        found = [event for event in reversed(replies.events(newest_first)) if event.seq > after_seq]
        if not found or found[0].seq == after_seq + 1:
            return found
        # more than `limit` behind: read from the front
        entries = await self._read(self._redis.xrange(keys.log, "-", "+"))
        return [event for event in replies.events(entries) if event.seq > after_seq][:limit]

    async def newest(self, conversation_id: str, limit: int = 1000) -> list[Event]:
        """The newest `limit` events, newest first."""
        entries = await self._read(self._redis.xrevrange(Keys.of(conversation_id).log, "+", "-", count=limit))
        return list(replies.events(entries))

    async def draft(self, conversation_id: str) -> tuple[str, str]:
        """The message id and text of what the owner is writing just now; two empty strings when nothing is."""
        keys = Keys.of(conversation_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(keys.own, "draft")
            pipe.get(keys.draft)
            message_id, text = await self._read(pipe.execute())
        return (message_id or "", text or "") if message_id else ("", "")

    async def inbox(self, conversation_id: str) -> tuple[Pending, ...]:
        """The messages that wait for an answer, oldest first; at most as many as one turn answers."""
        rows = await self._read(self._redis.lrange(Keys.of(conversation_id).inbox, 0, MAX_PENDING - 1))
        return replies.pending(rows)

    async def values(self, conversation_id: str) -> dict[str, Value]:
        """The shared values now."""
        return replies.values(await self._read(self._redis.hgetall(Keys.of(conversation_id).values)))

    async def history(self, conversation_id: str, agent_id: str) -> tuple[Item, ...]:
        """One agent's whole isolated history, oldest first."""
        return replies.items(await self._read(self._redis.lrange(Keys.of(conversation_id).history(agent_id), 0, -1)))

    async def recent(self, limit: int = 50, *, people: bool = False) -> list[Conversation]:
        """The conversations that changed last, newest first.

        With `people` also every open one that a queue or a person owns, however long ago it changed: nobody who waits
        for a person may fall off the end of the list (of the newest INDEX_SCAN).
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrevrange(index_key(shard), 0, (INDEX_SCAN if people else limit) - 1, withscores=True)
            rows = await self._read(pipe.execute())
        newest = sorted((row for shard in rows for row in shard), key=lambda row: -row[1])
        wanted = [conversation_id for conversation_id, _ in newest[:limit]]
        if people:
            wanted += await self._owned_by_people([row[0] for row in newest[limit:INDEX_SCAN]])
        found = await asyncio.gather(*(self._listed(conversation_id) for conversation_id in wanted))
        return [conversation for conversation in found if conversation is not None]

    async def _owned_by_people(self, conversation_ids: list[str]) -> list[str]:
        if not conversation_ids:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for conversation_id in conversation_ids:
                pipe.hmget(Keys.of(conversation_id).own, "kind", "st")
            owners = await self._read(pipe.execute())
        with_people = {OwnerKind.QUEUE, OwnerKind.HUMAN}
        return [
            conversation_id
            for conversation_id, (kind, status) in zip(conversation_ids, owners, strict=True)
            if kind in with_people and status == "open"
        ]

    async def _listed(self, conversation_id: str) -> Conversation | None:
        try:
            return await self.get(conversation_id)
        except UnknownConversation:  # closed, and its retention time is over: only the list still had it
            await self._read(self._redis.zrem(index_key(Keys.of(conversation_id).shard), conversation_id))
            return None

    async def now(self) -> int:
        """Redis' clock in milliseconds."""
        seconds, micros = await self._read(self._redis.time())
        return int(seconds) * 1000 + int(micros) // 1000

    async def publish(self, conversation_id: str, what: Ephemeral) -> None:
        """Show something that anybody may show (a customer's typing), without a token."""
        keys = Keys.of(conversation_id)
        await self._read(self._redis.publish(keys.channel, compact(["X", what.type, what.data])))

    async def ping(self) -> None:
        """An error unless Redis answers and takes writes, on every server that owns conversations."""
        await self._read(self.backend.probe())

    async def secret(self, name: str) -> str:
        """A random secret that all processes share, made on first use (development; production sets its own)."""
        key = f"fd:secret:{checked_id('name', name)}"
        await self._read(self._redis.set(key, secrets.token_urlsafe(32), nx=True))
        return str(await self._read(self._redis.get(key)))
