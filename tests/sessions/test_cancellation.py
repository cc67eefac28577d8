"""Cancelled means cancelled, also in the middle of a Redis command on Python 3.11."""

from __future__ import annotations

import asyncio

from sessions.cancellation import shielded
from sessions.model import Owner
from sessions.store import Store


async def test_cancelled_reads_end_at_whatever_moment(store: Store, conversation_id: str) -> None:
    """A task that reads in a loop ends when it is cancelled, at each of the first 40 steps of the event loop."""
    await store.enqueue(conversation_id, "m1", {"text": "hi"}, start=Owner.ai("triage"))

    async def read_for_ever() -> None:
        while True:
            await store.read(conversation_id)
            await asyncio.Event().wait()

    for steps in range(1, 41):
        task = asyncio.create_task(read_for_ever())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=2)
        assert done, f"a cancellation after {steps} steps was swallowed"


async def test_shielded_write_finishes_before_the_cancellation_goes_on(store: Store, conversation_id: str) -> None:
    """A cancelled commit is either wholly done or not begun when the caller gets the cancellation."""
    finished = asyncio.Event()

    async def write() -> None:
        await store.enqueue(conversation_id, "m1", {"text": "hi"}, start=Owner.ai("triage"))
        finished.set()

    task = asyncio.create_task(shielded(write()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert finished.is_set()
