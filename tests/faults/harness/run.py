"""One run: start everything, let customers, people and the nemesis work the plan, wait until it is quiet, collect."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # redis-py's clients: their types mix bytes and text

from sessions import replies
from sessions.attend import CLOCK_CHECK_EVERY
from sessions.live import POSITION_CHECK_S
from tests.faults.checkers.evidence import Evidence, Record, Shown
from tests.faults.harness.clients import Colleague, Customer, all_of
from tests.faults.harness.history import Journal, load
from tests.faults.harness.nemesis import Nemesis, Workers
from tests.faults.harness.nursery import Nursery
from tests.faults.harness.plan import SLOW_LEASES, FaultKind, Plan
from tests.faults.harness.screens import Screens
from tests.faults.harness.server import ValkeyServer
from tests.faults.harness.worker import Sabotage, WorkerConfig
from tests.support import SCALE, wait_until

PEOPLE = ("ann", "bob", "eve", "joe")
GIVE_UP_S = 10.0  # after the plan's end, clients stop repeating what nobody answers
START_S = 30.0  # a worker forks in milliseconds, but the nursery must import the SDK first
LOADED_S = 4.0  # on a machine that does other things as well


async def run(plan: Plan, folder: Path, sabotage: tuple[Sabotage, ...] = ()) -> Evidence:
    """Carry out `plan` in `folder` (short: unix sockets live in it) and give what is to be judged."""
    journals = folder / "journals"
    journals.mkdir()
    server = ValkeyServer(folder)
    server.start()
    try:
        with Nursery() as nursery:
            workers = Workers(nursery, [_config(plan, folder, number, sabotage) for number in range(plan.workers)])
            for number in range(plan.workers):
                workers.start(number)
            doors = [str(folder / f"w{number}.sock") for number in range(plan.workers)]
            await wait_until("every worker has its door open", lambda: all(map(os.path.exists, doors)), START_S)
            nemesis = Nemesis(server, workers)
            screens = await Screens.start(server.url, folder)
            await _work(plan, doors, journals, nemesis, screens)
            settled_s = await _settle(plan, server)
        with server.client() as client:
            records = collect(client)
        shown = await _look(screens, records)
    finally:
        server.kill()
    operations = tuple(load(journals.glob("*.jsonl")))
    return Evidence(operations, records, screens=shown, faults=dict(nemesis.made), settled_s=settled_s)


def _config(plan: Plan, folder: Path, number: int, sabotage: tuple[Sabotage, ...]) -> WorkerConfig:
    name = f"w{number}"
    return WorkerConfig(
        name=name,
        url=f"unix://{folder / 's'}",
        door=str(folder / f"{name}.sock"),
        journal=str(folder / "journals"),
        folder=str(folder),
        lease_ms=plan.lease_ms,
        sweep_s=plan.sweep_s,
        sabotage=sabotage,
    )


async def _work(plan: Plan, doors: list[str], journals: Path, nemesis: Nemesis, screens: Screens) -> None:
    began = time.monotonic()

    def elapsed() -> float:
        return time.monotonic() - began

    def over() -> bool:
        return elapsed() > plan.seconds

    def give_up() -> bool:
        return elapsed() > plan.seconds + GIVE_UP_S

    names = [f"customer{number}" for number in range(len(plan.customers))]
    files = {name: Journal(journals / f"{name}.jsonl", name) for name in (*names, *PEOPLE[: len(plan.people)])}
    customers = [
        Customer(name, plan, doors, files[name], steps, screens)
        for name, steps in zip(names, plan.customers, strict=True)
    ]
    people = [
        Colleague(name, plan, doors, files[name], steps, customers)
        for name, steps in zip(PEOPLE, plan.people, strict=False)
    ]
    await asyncio.gather(
        nemesis.run(plan.faults, elapsed),
        all_of(customers, over=over, give_up=give_up),
        all_of(people, over=over, give_up=give_up),
    )
    for journal in files.values():
        journal.close()


async def _settle(plan: Plan, server: ValkeyServer) -> float:
    """Wait until no message waits for an agent; how long that took. The checker finds those that wait all the same."""
    began = time.monotonic()
    lease_s = plan.lease_ms / 1000
    sweeps = CLOCK_CHECK_EVERY if any(fault.kind is FaultKind.CLOCK_BACK for fault in plan.faults) else 1
    allowed = lease_s + sweeps * plan.sweep_s * 1.25 + 2 * SLOW_LEASES * lease_s  # two slow owners after a transfer
    deadline = began + allowed * SCALE + LOADED_S
    with server.client() as client:
        while time.monotonic() < deadline and any(_unanswered(client)):  # noqa: ASYNC110  # no event
            await asyncio.sleep(0.1)
    return time.monotonic() - began


async def _look(screens: Screens, records: Mapping[str, Record]) -> Mapping[str, Shown]:
    """Give the screens the time that they promise to find a last event whose announcement was lost."""
    lengths = {conversation_id: record.seq for conversation_id, record in records.items()}
    deadline = time.monotonic() + POSITION_CHECK_S * 1.25 * SCALE + LOADED_S
    while time.monotonic() < deadline and screens.behind(lengths):  # noqa: ASYNC110  # no event
        await asyncio.sleep(0.1)
    return await screens.close()


def _unanswered(client: Any) -> list[str]:
    return [
        key
        for key in client.scan_iter("fd:*:own", count=1000)
        if client.hget(key, "kind") == "ai" and client.llen(key.removesuffix("own") + "in")
    ]


def collect(client: Any) -> Mapping[str, Record]:
    """What Redis holds now, by conversation."""
    records = {}
    for key in client.scan_iter("fd:*:own", count=1000):
        base = key.removesuffix("own")
        own = client.hgetall(key)
        conversation_id = base.split(":", 2)[2].removesuffix(":")
        records[conversation_id] = Record(
            conversation_id=conversation_id,
            start=own["start"],
            owner=f"{own['kind']}:{own['owner']}",
            epoch=int(own["epoch"]),
            seq=int(own["seq"]),
            draft=own.get("draft", ""),
            waiting=tuple(int(row.split("|", 1)[0]) for row in client.lrange(base + "in", 0, -1)),
            events=replies.events(client.xrange(base + "log")),
        )
    return records
