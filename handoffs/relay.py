"""The relay: shows the customer what the owner is writing, piece by piece, and stops the moment it is not the owner.

Pieces are collected for FLUSH_S and go through the store's fence, so nothing of a stale owner reaches the channel.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from sessions.errors import StaleOwner, StoreError
from sessions.model import Ephemeral, Token
from sessions.store import Store

FLUSH_S = 0.04  # a widget shows 25 pieces a second as a flow; more would only cost Redis and sockets


def new_message_id() -> str:
    """An id for a message that somebody at the desk begins to write."""
    return f"m_{secrets.token_hex(10)}"


class Relay:
    """One message being written. `sent` is how many characters were shown; `on_stale` is called once, when fenced."""

    def __init__(
        self,
        store: Store,
        conversation_id: str,
        token: Token,
        by: dict[str, Any],
        on_stale: Callable[[], None],
    ) -> None:
        self.message_id = new_message_id()
        self.sent = 0
        self._text = ""
        self._store = store
        self._conversation_id = conversation_id
        self._token = token
        self._by = by
        self._on_stale = on_stale
        self._timer: asyncio.TimerHandle | None = None
        self._flush: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def text(self) -> str:
        """All that was written so far, shown or not."""
        return self._text

    def write(self, piece: str) -> None:
        """Add a piece; it is shown at the next flush."""
        self._text += piece
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._begin_flush)

    async def close(self) -> None:
        """Show nothing more: the commit carries the whole text. A flush that is under way is finished."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._flush is not None:
            await asyncio.wait([self._flush])  # or a piece could arrive after the message that it belongs to

    def _begin_flush(self) -> None:
        self._flush = asyncio.create_task(self._flush_all(), name=f"relay-{self._conversation_id}")

    async def _flush_all(self) -> None:
        """Show what there is; what was written meanwhile waits for the next flush."""
        await self._show(self._text[self.sent :])
        self._timer = None
        if len(self._text) > self.sent:
            self.write("")

    async def _show(self, piece: str) -> None:
        what = Ephemeral("msg.delta", {"mid": self.message_id, "off": self.sent, "d": piece, "by": self._by})
        self.sent += len(piece)
        try:
            await self._store.relay(self._conversation_id, self._token, what, message_id=self.message_id, piece=piece)
        except StaleOwner:
            self._closed = True
            self._on_stale()
        except StoreError:
            return  # a lost piece is no loss: the whole text comes with the commit
