"""Watching agents work: what is shown while a turn runs, only when somebody looks, and never to customers."""

from __future__ import annotations

from collections.abc import Sequence

from sessions.base import StoreBase
from sessions.keys import Keys
from sessions.model import Ephemeral
from sessions.scripts import compact

WATCH_MS = 45_000  # one look; who goes on looking says so again within it


class Watching(StoreBase):
    """watch, show_watchers."""

    async def watch(self, conversation_id: str, *, watch_ms: int = WATCH_MS) -> None:
        """Turns that begin from now on, for this long, show how they are worked on.

        Raises UnknownConversation, ConversationForgotten.
        """
        await self._call("watch", Keys.of(conversation_id), [watch_ms])

    async def show_watchers(self, conversation_id: str, events: Sequence[Ephemeral]) -> None:
        """Show these events to everybody who watches, in their order, in one round trip."""
        payload = compact(["W", *([event.type, event.data] for event in events)])
        await self._read(self._redis.publish(Keys.of(conversation_id).watchers, payload))
