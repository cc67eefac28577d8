"""Frontdesk and the SDK's sessions as processes for `bench.peers`: python -m bench.driver_ours NAME FOLDER."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from bench.contestants import Contestant, Frontdesk, SdkMemory, SdkRedis
from bench.lines import serve
from bench.trips import Trips
from sessions.connect import Backend, connect

NAMES = ("frontdesk", "sdk-redis-limit40", "sdk-redis", "sdk-memory")


def contestant(name: str, backend: Backend) -> Contestant:
    if name == "frontdesk":
        return Frontdesk(backend)
    if name == "sdk-memory":
        return SdkMemory(backend)
    return SdkRedis(backend, 40 if name == "sdk-redis-limit40" else None)


class Ours:
    """A contestant as `bench.lines` wants it. The store is thrown away as a whole: nothing is forgotten by itself."""

    def __init__(self, playing: Contestant) -> None:
        self.prepare, self.play = playing.prepare, playing.play

    async def forget(self, ready: Any) -> None:
        pass


async def main(name: str, folder: str) -> None:
    trips = Trips()
    backend = await connect(f"embedded://{folder}", data_dir=Path(folder))
    try:
        await serve(Ours(contestant(name, backend)), lambda: trips.count)
    finally:
        await backend.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
