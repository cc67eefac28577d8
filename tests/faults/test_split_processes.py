"""Gateways and workers as processes of their own: `frontdesk serve --no-worker` and `frontdesk worker`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes.openai_server import Hang, Say
from tests.faults.test_drain import ANSWER, Serving, serving
from tests.support import wait_until


@asynccontextmanager
async def working(server: Serving) -> AsyncIterator[asyncio.subprocess.Process]:
    """A `frontdesk worker` on the same store as the gateway, killed in the end."""
    process = await server.command("worker")
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def answered(server: Serving, conversation_id: str) -> bool:
    return ANSWER in await server.texts(conversation_id)


async def test_a_message_is_answered_once_although_its_worker_was_killed(tmp_path: Path) -> None:
    """handoffs.md 11 (worker gone): kill -9 while the model thinks; the next worker answers what the gateway took."""
    async with serving(tmp_path, Hang(), Say(ANSWER), options=("--no-worker",)) as server, server.widget() as peer:
        async with working(server) as first:
            await peer.write("hello")
            await wait_until("the first worker asks the model", lambda: len(server.model.requests) == 1, timeout_s=60)
            first.kill()
            await first.wait()
            assert await server.texts(peer.conversation) == ["hello"]

        async with working(server):
            await wait_until("the second one answers", lambda: answered(server, peer.conversation), timeout_s=60)

        assert await server.texts(peer.conversation) == ["hello", ANSWER]
        assert len(server.model.requests) == 2


async def test_a_gateway_without_workers_keeps_messages_for_them(tmp_path: Path) -> None:
    """architecture.md (gateway | worker): a message that came when no worker ran is answered by the first that does."""
    async with serving(tmp_path, Say(ANSWER), options=("--no-worker",)) as server, server.widget() as peer:
        await peer.write("hello")
        await wait_until("it is stored", lambda: _stored(server, peer.conversation))
        assert server.model.requests == []

        async with working(server):
            await wait_until("the worker answers", lambda: answered(server, peer.conversation), timeout_s=60)


async def _stored(server: Serving, conversation_id: str) -> bool:
    return await server.texts(conversation_id) == ["hello"]
