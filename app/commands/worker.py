"""`frontdesk worker`: runs turns and nothing else. Gateways (`frontdesk serve --no-worker`) bring the messages."""

from __future__ import annotations

import asyncio
import signal

from app.building import open_desk
from app.commands.output import out
from app.commands.serve import leave_if_stuck, new_loop, set_up_logging
from app.settings import Settings


def work(settings: Settings) -> None:
    """Run turns until Ctrl-C or SIGTERM, then drain. Raises before any turn when the parts cannot be opened."""
    set_up_logging(settings)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_work(settings))
        leave_if_stuck()


async def _work(settings: Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with open_desk(settings) as desk:
        out.print(f"Frontdesk worker {desk.store.worker} is ready", soft_wrap=True)
        out.print(f"  Store  {desk.backend.describe()}\n  Model  {desk.model_description}", soft_wrap=True)
        await stopping.wait()
