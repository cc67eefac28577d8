"""What a sink (webhook, support desk) needs beside its cursors: who delivers, what changed, how far it has come.

A cursor says how far one conversation has been delivered. The place says from when on any conversation may have news,
so that a sink that starts again looks at those only.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessions.base import StoreBase
from sessions.keys import PREFIX, SHARDS, checked_id, index_key


@dataclass(frozen=True, slots=True)
class Place:
    """In ms of Redis' clock. Nothing from before `begun` is delivered; all that changed before `since` has been."""

    begun: int
    since: int


class Sinks(StoreBase):
    """lead, place, move_place, changed_since."""

    async def lead(self, sink: str, life_ms: int) -> bool:
        """Whether this process (by its `worker`) delivers for the sink during the next `life_ms`; at most one does.

        A process that was paused may still believe it: then an event is delivered twice, never lost.
        """
        key = f"{PREFIX}:sink:{checked_id('sink', sink)}:lead"
        reply = await self._scripts.call("lead", [key], [self.worker, life_ms])
        return bool(reply[0] == "OK")

    async def place(self, sink: str, now: int) -> Place:
        """Where the sink stands; one that is new begins at `now`."""
        key = f"{PREFIX}:sink:{checked_id('sink', sink)}"
        fields = await self._read(self._redis.hgetall(key))
        if not fields:
            await self._read(self._redis.hset(key, mapping={"begun": now, "since": now}))
            return Place(now, now)
        return Place(int(fields["begun"]), int(fields["since"]))

    async def move_place(self, sink: str, since: int) -> None:
        """All that changed before `since` is delivered."""
        await self._read(self._redis.hset(f"{PREFIX}:sink:{checked_id('sink', sink)}", "since", str(since)))

    async def changed_since(self, since: int) -> dict[str, int]:
        """The conversations that changed at `since` (ms) or later, with when each did last."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrangebyscore(index_key(shard), since, "+inf", withscores=True)
            rows = await self._read(pipe.execute())
        return {conversation_id: int(at) for shard in rows for conversation_id, at in shard}
