"""The nemesis: breaks processes, the server and the clock, as the plan says, and counts what was really done."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable

from redis.exceptions import RedisError

from sessions.keys import PREFIX
from tests.faults.harness.nursery import Nursery
from tests.faults.harness.plan import Fault, FaultKind
from tests.faults.harness.server import ValkeyServer
from tests.faults.harness.worker import WorkerConfig

BACK_MS = 3_600_000  # a clock that jumps back an hour: everything that was stored lies an hour ahead

# What a clock set back by ARGV[1] ms looks like from inside: every stored time lies so much further in the future.
CLOCK_BACK = """
local moved = 0
for _, key in ipairs(redis.call('KEYS', ARGV[2] .. ':*:own')) do
  local lease = tonumber(redis.call('HGET', key, 'lease') or '0')
  if lease > 0 then
    redis.call('HSET', key, 'lease', string.format('%d', lease + ARGV[1]))
    moved = moved + 1
  end
end
for _, key in ipairs(redis.call('KEYS', ARGV[2] .. ':*:due')) do
  for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, ARGV[1], member) end
end
return moved
"""


class Workers:
    """The worker processes, by number. Signals go through pidfds: never to a stranger who got the same process id."""

    def __init__(self, nursery: Nursery, configs: list[WorkerConfig]) -> None:
        self._nursery = nursery
        self._configs = configs
        self._alive: dict[int, int] = {}  # number -> pidfd

    def start(self, number: int) -> None:
        """Fork worker `number`, unless it is there."""
        if number not in self._alive:
            self._alive[number] = os.pidfd_open(self._nursery.fork(self._configs[number]))

    def handle(self, number: int) -> int | None:
        """What `signal` needs; None while the worker is dead."""
        return self._alive.get(number)

    def kill(self, number: int) -> bool:
        """SIGKILL, stopped or not; False when it was dead already."""
        handle = self._alive.pop(number, None)
        if handle is None:
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)
        return True

    def signal(self, number: int, handle: int, what: signal.Signals) -> bool:
        """Send `what`, unless that process was killed meanwhile."""
        if self._alive.get(number) != handle:
            return False
        signal.pidfd_send_signal(handle, what)
        return True


class Nemesis:
    """Makes the planned faults at their times."""

    def __init__(self, server: ValkeyServer, workers: Workers) -> None:
        self.made: Counter[str] = Counter()
        self._server = server
        self._workers = workers
        self._server_turn = asyncio.Lock()

    async def run(self, faults: tuple[Fault, ...], elapsed: Callable[[], float]) -> None:
        """Start every fault at its time; returns when everything is whole again."""
        tasks = []
        for fault in faults:
            await asyncio.sleep(max(0.0, fault.at - elapsed()))
            tasks.append(asyncio.create_task(self._make(fault), name=fault.kind.value))
        await asyncio.gather(*tasks)

    async def _make(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.KILL_WORKER:
                await self._kill_worker(fault)
            case FaultKind.STOP_WORKER:
                await self._stop_worker(fault)
            case FaultKind.KILL_SERVER:
                await self._kill_server(fault)
            case FaultKind.STOP_SERVER:
                await self._stop_server(fault)
            case FaultKind.CLOCK_BACK:
                await self._set_clock_back(fault)

    async def _kill_worker(self, fault: Fault) -> None:
        if not self._workers.kill(fault.target):
            return
        self.made[fault.kind] += 1
        await asyncio.sleep(fault.lasts)
        self._workers.start(fault.target)

    async def _stop_worker(self, fault: Fault) -> None:
        handle = self._workers.handle(fault.target)
        if handle is None or not self._workers.signal(fault.target, handle, signal.SIGSTOP):
            return
        self.made[fault.kind] += 1
        await asyncio.sleep(fault.lasts)
        self._workers.signal(fault.target, handle, signal.SIGCONT)

    async def _kill_server(self, fault: Fault) -> None:
        async with self._server_turn:
            self._server.kill()
            self.made[fault.kind] += 1
            await asyncio.sleep(fault.lasts)
            self._server.spawn()
            await asyncio.to_thread(self._server.wait_ready)

    async def _stop_server(self, fault: Fault) -> None:
        async with self._server_turn:
            self._server.freeze()
            self.made[fault.kind] += 1
            await asyncio.sleep(fault.lasts)
            self._server.thaw()

    async def _set_clock_back(self, fault: Fault) -> None:
        """The worker that might renew by the new clock dies in the same moment, or the fault would heal by itself."""
        async with self._server_turn:
            try:
                with self._server.client() as client:
                    await asyncio.to_thread(client.eval, CLOCK_BACK, 0, BACK_MS, PREFIX)
            except (RedisError, OSError):
                return
            self.made[fault.kind] += 1
        self._workers.kill(fault.target)
        await asyncio.sleep(fault.lasts)
        self._workers.start(fault.target)
