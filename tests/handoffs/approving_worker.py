"""Worker processes for tests that kill them: a real router, the counted tools, and a model that reads its input.

Run as a module it imports everything once and forks a worker for each line of input: `Orders` in, a process id out.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents import FunctionTool, set_tracing_disabled
from agents.testing import ModelStep
from agents.tool_context import ToolContext

from handoffs.router import CustomerMessage, Router
from handoffs.tools import with_invocation
from sessions.connect import connect
from sessions.live import Live
from sessions.store import Store
from tests.faults.harness.server import die_with_parent
from tests.handoffs.approving import Counted, calls, desk, desk_router
from tests.handoffs.desks import says, script

LEASE_MS = 1000  # a killed worker's turn is found within a second


@dataclass(frozen=True)
class Orders:
    """What a worker is told. `says`: what the customer writes through it, if anything.

    `stops` is where it hangs for ever: `tool` (the refund took effect and has not said so), `model` (its result is
    there), or nowhere.
    """

    url: str
    folder: str
    conversation: str
    says: str = ""
    stops: str = ""

    def dump(self) -> str:
        return json.dumps(asdict(self))


class Hanging(Counted):
    """The counted tools, of which `refund` never comes back."""

    def tools(self) -> dict[str, FunctionTool]:
        found = super().tools()
        refund = found["refund"]

        async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
            await refund.on_invoke_tool(ctx, arguments)
            await asyncio.Event().wait()

        return {**found, "refund": with_invocation(refund, invoke)}


async def work(orders: Orders) -> None:
    """Sweep, claim and answer until killed."""
    folder = Path(orders.folder)

    async def choose(request: Any) -> list[Any]:
        results = [item.get("output", "") for item in request.input if item.get("type") == "function_call_output"]
        if not any(str(result).startswith("Refunded") for result in results):
            return [says("I'll ask for it."), calls("refund", order="A-1")]
        if orders.stops == "model":
            await asyncio.Event().wait()
        return [says("Done: refunded.")]

    backend = await connect(orders.url, data_dir=folder)
    store = Store(backend, lease_ms=LEASE_MS)
    live = Live(backend, store)
    await live.start()
    counted = Hanging(folder) if orders.stops == "tool" else Counted(folder)
    model = script(*[ModelStep.respond(choose)] * 10)
    router: Router = desk_router(store, live, desk(), counted, {"billing": model}, folder)
    await router.start()
    if orders.says:
        await router.receive(orders.conversation, CustomerMessage("m1", orders.says))
    await asyncio.Event().wait()


def main() -> None:
    """Fork a worker per line of input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the dead
    set_tracing_disabled(True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(Orders(**json.loads(line)))
        print(pid, flush=True)


def _become(orders: Orders) -> None:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # a worker must not keep the pipes open
        os.dup2(null, stream)
    try:
        asyncio.run(work(orders))
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
