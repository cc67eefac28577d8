"""Several messages in a row (`burst:` of an agent file): how many one answer is for, and when it begins again.

`coalesce` answers together what waits when the agent begins. `restart` also begins again for a message that comes
while the model runs, as long as nobody has seen anything of the answer. `queue` gives one answer per message, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from handoffs.roster import Burst
from sessions.live import Feed
from sessions.model import Event, Pending
from sessions.store import Store

LONGEST_WAIT_S = 10.0  # for a customer who does not stop writing: then what there is gets answered

Follow = Callable[[str, int], AbstractAsyncContextManager[Feed]]


class Stoppable(Protocol):
    """A run that can be stopped: `handoffs.run.AgentRun`."""

    def stop(self) -> None: ...


def batch(rule: Burst, pending: tuple[Pending, ...]) -> tuple[Pending, ...]:
    """The messages that the next answer is for."""
    return pending[:1] if rule.policy == "queue" else pending[: rule.cap]


async def settled(
    store: Store, conversation_id: str, rule: Burst, pending: tuple[Pending, ...], lost: asyncio.Event
) -> tuple[Pending, ...]:
    """The waiting messages once no new one has come for the debounce time; at once without one, or when `lost` is set.

    Each wait costs one more read of Redis, so only routes that ask for it pay.
    """
    deadline = asyncio.get_running_loop().time() + LONGEST_WAIT_S
    while rule.debounce and rule.policy != "queue" and len(pending) < rule.cap:
        wait_s = min(rule.debounce / 1000, deadline - asyncio.get_running_loop().time())
        if wait_s <= 0:
            break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await lost.wait()
        if lost.is_set():
            break
        now = await store.inbox(conversation_id)
        if len(now) <= len(pending):
            break
        pending = now
    return pending


class Restart:
    """One run that a new message may stop, while `harmless` says that nothing of it was seen or done."""

    def __init__(self, run: Stoppable, newest: int, harmless: Callable[[], bool]) -> None:
        self.wanted = False
        self._run = run
        self._newest = newest
        self._harmless = harmless

    def heard(self, seq: int) -> None:
        """A customer's message has this place in the log."""
        if seq > self._newest and not self.wanted and self._harmless():
            self.wanted = True
            self._run.stop()


@asynccontextmanager
async def listening(follow: Follow, conversation_id: str, restart: Restart, after_seq: int) -> AsyncIterator[None]:
    """Tell `restart` of every message of the customer after `after_seq`, whichever process took it in."""
    task = asyncio.create_task(_listen(follow, conversation_id, restart, after_seq), name=f"burst-{conversation_id}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(follow: Follow, conversation_id: str, restart: Restart, after_seq: int) -> None:
    async with follow(conversation_id, after_seq) as feed:
        async for item in feed:
            if isinstance(item, Event) and item.type == "msg.created" and item.by == "customer":
                restart.heard(item.seq)
