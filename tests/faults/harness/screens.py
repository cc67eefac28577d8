"""What customers see: one live feed per conversation, through every restart of the server, until the run is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from sessions.connect import Backend, connect
from sessions.live import Live
from sessions.model import Ephemeral, Event
from sessions.store import Store
from tests.faults.checkers.evidence import Shown


class Screens:
    """The screens of all customers, in the harness' own process. `open` as soon as a customer begins to write."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._live = Live(backend, Store(backend))
        self._shown: dict[str, list[Event | Ephemeral]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, url: str, folder: Path) -> Screens:
        """Connected and listening."""
        screens = cls(await connect(url, data_dir=folder))
        await screens._live.start()
        return screens

    def open(self, conversation_id: str) -> None:
        """Watch this conversation from its first event on."""
        if conversation_id not in self._shown:
            self._shown[conversation_id] = []
            self._tasks.append(asyncio.create_task(self._watch(conversation_id), name=f"screen-{conversation_id}"))

    async def _watch(self, conversation_id: str) -> None:
        async with self._live.follow(conversation_id) as feed:
            async for item in feed:
                self._shown[conversation_id].append(item)

    def behind(self, lengths: Mapping[str, int]) -> list[str]:
        """Conversations of which a screen has not shown everything yet. `lengths`: of their logs."""
        return [
            conversation_id
            for conversation_id, shown in self._shown.items()
            if sum(isinstance(item, Event) for item in shown) < lengths.get(conversation_id, 0)
        ]

    async def close(self) -> Mapping[str, Shown]:
        """Switch off; what each of them has shown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._live.stop()
        await self._backend.close()
        return {conversation_id: tuple(shown) for conversation_id, shown in self._shown.items()}
