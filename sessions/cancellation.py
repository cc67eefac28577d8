"""Cancellation that is never swallowed.

`asyncio.wait_for` of Python 3.11, which redis-py uses to send, returns normally when a cancellation and the result meet
(python/cpython#86296, fixed in 3.12). The task then goes on for ever although somebody cancelled it and waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def obedient(work: Awaitable[T]) -> T:
    """Await `work`; CancelledError when the current task was cancelled meanwhile, even if `work` hid it."""
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    result = await work
    if task and task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def shielded(work: Awaitable[T]) -> T:
    """Finish `work` even when the caller is cancelled, so that the outcome of a write is never half known."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that it is not reported as lost
        raise
