"""Records of runs: what commits have kept beside a conversation, read back. The store does not look into them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sessions.base import StoreBase
from sessions.keys import SHARDS, Keys, index_key
from sessions.model import Json

RUNS_SCAN = 5000  # newest conversations that are looked through for records


class Runs(StoreBase):
    """run_records, changed."""

    async def run_records(self, conversation_ids: Sequence[str]) -> list[list[Json]]:
        """The records of each of these conversations, oldest first; none for one that is not there."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for conversation_id in conversation_ids:
                pipe.lrange(Keys.of(conversation_id).runs, 0, -1)
            found = await self._read(pipe.execute()) if conversation_ids else []
        return [[json.loads(row) for row in rows] for rows in found]

    async def changed(self, limit: int = RUNS_SCAN) -> list[tuple[str, int]]:
        """The conversations that changed last, newest first, each with when that was (ms of Redis' clock)."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrevrange(index_key(shard), 0, limit - 1, withscores=True)
            rows = await self._read(pipe.execute())
        newest = sorted((row for shard in rows for row in shard), key=lambda row: -row[1])
        return [(conversation_id, int(at)) for conversation_id, at in newest[:limit]]
