"""Round trips to Redis, counted in redis-py's own connections. Needs redis-py and nothing of ours: peers use it too."""

from __future__ import annotations

from typing import Any

from redis.asyncio.connection import AbstractConnection


class Trips:
    """Counts how often a connection to Redis sends and waits: one is one round trip, a pipeline is one too."""

    def __init__(self) -> None:
        self.count = 0
        send = AbstractConnection.send_packed_command

        async def counted(connection: AbstractConnection, *args: Any, **kwargs: Any) -> None:
            self.count += 1
            await send(connection, *args, **kwargs)

        AbstractConnection.send_packed_command = counted  # type: ignore[method-assign, assignment]  # for this process, for good
