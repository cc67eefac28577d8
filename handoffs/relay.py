"""The relay: shows the customer what the owner is writing, piece by piece, and stops the moment it is not the owner.

Pieces are collected for FLUSH_S and go through the store's fence, so nothing of a stale owner reaches the channel.
"""

from __future__ import annotations

import asyncio
import contextlib
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
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._pump(), name=f"relay-{conversation_id}")

    @property
    def text(self) -> str:
        """All that was written so far, shown or not."""
        return self._text

    def write(self, piece: str) -> None:
        """Add a piece; it is shown at the next flush."""
        self._text += piece
        self._wake.set()

    async def close(self) -> None:
        """Show nothing more: the commit carries the whole text. A flush that is under way is finished."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _pump(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(FLUSH_S)
            self._wake.clear()
            piece = self._text[self.sent :]
            if piece and not await self._show(piece):
                return

    async def _show(self, piece: str) -> bool:
        what = Ephemeral("msg.delta", {"mid": self.message_id, "off": self.sent, "d": piece, "by": self._by})
        self.sent += len(piece)
        sending = asyncio.ensure_future(
            self._store.relay(self._conversation_id, self._token, what, message_id=self.message_id, piece=piece)
        )
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending])  # or a piece could arrive after the message that it belongs to
            sending.exception()
            raise
        except StaleOwner:
            self._on_stale()
            return False
        except StoreError:
            return True  # a lost piece is no loss: the whole text comes with the commit
        return True
