"""What waits to be sent to one socket: bounded, and what is only shown is given up before what must arrive."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MAX_FRAMES: Final = 500
MAX_BYTES: Final = 256 * 1024  # more than any screen shows; the kernel holds about 2.8 MB on top of it
ROOM_WAIT_S: Final = 10.0  # a client that takes nothing for this long is too slow


class SlowClient(Exception):
    """The client does not take what must arrive."""


class Outbox:
    """A queue between the tasks that have frames for a socket and the one task that writes them."""

    def __init__(self, *, max_frames: int = MAX_FRAMES, max_bytes: int = MAX_BYTES) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[tuple[str, bool]] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._frames)

    def show(self, frame: str) -> None:
        """Queue something that may be lost: dropped when the client is behind."""
        if self._full():
            self.dropped += 1
            return
        self._append(frame, droppable=True)

    def answer(self, frame: str) -> None:
        """Queue something that must arrive, without waiting. SlowClient when twice the room is used up."""
        self._drop_ephemerals_when_full()
        if len(self._frames) >= 2 * self._max_frames or self._bytes >= 2 * self._max_bytes:
            raise SlowClient
        self._append(frame, droppable=False)

    async def deliver(self, frame: str, *, wait_s: float = ROOM_WAIT_S) -> None:
        """Queue something that must arrive, as soon as there is room. SlowClient when there is none in time."""
        self._drop_ephemerals_when_full()
        if self._full():
            self._room.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._room.wait()
            except TimeoutError:
                raise SlowClient from None
        self._append(frame, droppable=False)

    async def take(self) -> str:
        """The next frame, when there is one."""
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        frame, _ = self._frames.popleft()
        self._bytes -= len(frame)
        if not self._full():
            self._room.set()
        return frame

    def _append(self, frame: str, *, droppable: bool) -> None:
        self._frames.append((frame, droppable))
        self._bytes += len(frame)
        self._filled.set()

    def _full(self) -> bool:
        return len(self._frames) >= self._max_frames or self._bytes >= self._max_bytes

    def _drop_ephemerals_when_full(self) -> None:
        if not self._full():
            return
        kept = deque(entry for entry in self._frames if not entry[1])
        self.dropped += len(self._frames) - len(kept)
        self._frames = kept
        self._bytes = sum(len(frame) for frame, _ in kept)
