"""What observers see of a turn while it runs, and nobody else: it is published on a channel that no widget listens to.

Nothing is sent, and nothing is kept, when nobody watches: the claim has said so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from sessions.errors import StoreError
from sessions.model import Ephemeral
from sessions.store import Store

FLUSH_S = 0.04  # as long as the relay collects pieces
MOST = 200  # events that wait to be sent; more than a person can read, and what comes then is dropped
LONGEST = 4000  # characters of a text that is shown


class Observing:
    """One turn, as observers see it. `on`: somebody watches."""

    def __init__(self, store: Store, conversation_id: str, run: str, *, on: bool) -> None:
        self.on = on
        self._store = store
        self._conversation_id = conversation_id
        self._run = run
        self._waiting: list[Ephemeral] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending = asyncio.Lock()  # events arrive in the order in which they happened
        self._task: asyncio.Task[None] | None = None

    def show(self, kind: str, data: Mapping[str, Any]) -> None:
        """Show an event soon; never waits. Usable as `TurnContext.observe`."""
        if not self.on or len(self._waiting) >= MOST:
            return
        told = {key: value[:LONGEST] if isinstance(value, str) else value for key, value in data.items()}
        self._waiting.append(Ephemeral(kind, {"run": self._run, "at": int(time.time() * 1000), **told}))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._begin)

    async def tell(self, kind: str, **data: Any) -> None:
        """Show an event, and all that wait, before the turn goes on."""
        if self.on:
            self.show(kind, data)
            await self.flush()

    async def flush(self) -> None:
        """Send what waits. A store that does not answer costs observers these events, and the turn nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        async with self._sending:
            events, self._waiting = self._waiting, []
            with contextlib.suppress(StoreError):
                await self._store.show_watchers(self._conversation_id, events)

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.create_task(self.flush(), name=f"observing-{self._conversation_id}")
