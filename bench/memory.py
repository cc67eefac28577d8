"""Memory of 1,000 waiting conversations: in Redis, and in the process that serves them.

Beside it what the SDK's RedisSession keeps in Redis of as many messages: a list of items, without owner, log or queue.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from bench.contestants import SdkRedis
from bench.lines import earlier
from sessions.connect import connect
from sessions.model import NewEvent, Owner
from sessions.store import Store

COUNT = 1_000
HISTORY = 20  # earlier messages of each: a usual support conversation


def resident_kb() -> int:
    """This process' own memory now."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


async def measure() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="frontdesk-bench-") as folder:
        backend = await connect(f"embedded://{folder}", data_dir=Path(folder))
        store = Store(backend)
        await fill(store, 50, "warm")
        redis_before, process_before = await used(backend), resident_kb()
        await fill(store, COUNT, "c")
        redis_after, process_after = await used(backend), resident_kb()
        rival = SdkRedis(backend)
        for _ in range(COUNT):
            await rival.prepare("plain", HISTORY)
        rival_after = await used(backend)
        await backend.close()
    return {
        "conversations": COUNT,
        "messages_each": HISTORY,
        "redis_kb_each": round((redis_after - redis_before) / 1024 / COUNT, 1),
        "sdk_redis_kb_each": round((rival_after - redis_after) / 1024 / COUNT, 1),
        "process_kb_each": round((process_after - process_before) / COUNT, 2),
    }


async def used(backend: Any) -> int:
    return int((await backend.cmd.info("memory"))["used_memory"])


async def fill(store: Store, count: int, prefix: str) -> None:
    """Conversations with earlier messages, each with one that waits for a person."""
    items = earlier(HISTORY)
    events = [NewEvent("msg.created", {"id": f"m{n}", "text": item["content"]}) for n, item in enumerate(items)]
    for number in range(count):
        conversation_id = f"{prefix}{number}"
        receipt = await store.enqueue(
            conversation_id, "m0", {"id": "m0", "text": "hello"}, start=Owner.ai("triage"), claim=True
        )
        assert receipt.grant is not None
        await store.transfer(
            conversation_id,
            receipt.grant.token,
            "t",
            to=Owner.queue("people"),
            change={},
            before=events,
            agent_id="triage",
            items=items,
        )


def report(result: dict[str, Any]) -> None:
    print(
        f"{result['conversations']} waiting conversations of {result['messages_each']} messages: "
        f"{result['redis_kb_each']} KB each in Redis "
        f"(the SDK's session: {result['sdk_redis_kb_each']} KB), {result['process_kb_each']} KB each in the process"
    )


if __name__ == "__main__":
    report(asyncio.run(measure()))
