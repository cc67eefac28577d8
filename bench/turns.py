"""Cost of a turn: CPU and wall clock at several history lengths, as ratios to the SDK with limit 40 in the same run.

`make bench` runs it on an embedded Valkey of its own. Cases are interleaved, so that a busy moment hits all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from redis.asyncio.connection import AbstractConnection

from bench.contestants import TURNS, Contestant, Frontdesk, SdkMemory, SdkRedis
from sessions.connect import connect

RIVAL = "sdk-redis-limit40"  # the fair one: flat in history, as ours
Sample = tuple[float, float, int]  # CPU s, wall s, round trips


class Trips:
    """Counts how often a connection to Redis sends and waits: one is one round trip, a pipeline is one too."""

    def __init__(self) -> None:
        self.count = 0
        send = AbstractConnection.send_packed_command

        async def counted(connection: AbstractConnection, *args: Any, **kwargs: Any) -> None:
            self.count += 1
            await send(connection, *args, **kwargs)

        AbstractConnection.send_packed_command = counted  # type: ignore[method-assign, assignment]  # for this process, for good


async def measure(contestant: Contestant, kind: str, history: int, trips: Trips) -> Sample:
    ready = await contestant.prepare(kind, history)
    before = trips.count
    wall, cpu = time.perf_counter(), time.process_time()
    await contestant.play(ready)
    return time.process_time() - cpu, time.perf_counter() - wall, trips.count - before


async def run(sizes: list[int], rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="frontdesk-bench-") as folder:
        backend = await connect(f"embedded://{folder}", data_dir=Path(folder))
        try:
            return await compare(backend, sizes, rounds)
        finally:
            await backend.close()


async def compare(backend: Any, sizes: list[int], rounds: int) -> dict[str, Any]:
    trips = Trips()
    contestants: list[Contestant] = [
        Frontdesk(backend),
        SdkRedis(backend, 40),
        SdkRedis(backend),
        SdkMemory(backend),
    ]
    samples: dict[tuple[str, str, int], list[Sample]] = defaultdict(list)
    for number in range(rounds + 3):
        for history in sizes:
            for kind in TURNS:
                for contestant in contestants:
                    sample = await measure(contestant, kind, history, trips)
                    if number >= 3:  # the first rounds warm caches and connections
                        samples[contestant.name, kind, history].append(sample)
    return report(samples, sizes, rounds, backend.describe())


def report(
    samples: dict[tuple[str, str, int], list[Sample]], sizes: list[int], rounds: int, store: str
) -> dict[str, Any]:
    rows = []
    for (name, kind, history), found in samples.items():
        rival = samples[RIVAL, kind, history]
        cpu, wall = (statistics.median(sample[i] for sample in found) for i in (0, 1))
        rows.append(
            {
                "contestant": name,
                "turn": kind,
                "history": history,
                "cpu_ratio": round(cpu / statistics.median(sample[0] for sample in rival), 2),
                "wall_ratio": round(wall / statistics.median(sample[1] for sample in rival), 2),
                "cpu_ms": round(cpu * 1000, 2),
                "round_trips": statistics.median(sample[2] for sample in found),
            }
        )
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"
    return {"machine": machine, "store": store.split(" in ")[0], "rounds": rounds, "rival": RIVAL, "rows": rows}


def table(result: dict[str, Any]) -> str:
    sizes = sorted({row["history"] for row in result["rows"]})
    names = list(dict.fromkeys(row["contestant"] for row in result["rows"]))
    cells = {(row["contestant"], row["turn"], row["history"]): row for row in result["rows"]}
    lines = [f"{result['machine']}; {result['store']}; {result['rounds']} turns a cell, interleaved; 1.00 = {RIVAL}"]
    for kind in TURNS:
        head = " | ".join(f"n = {size}" for size in sizes)
        lines += ["", f"| {kind} turn, CPU (wall) | {head} | round trips |", "|---|" + "---|" * (len(sizes) + 1)]
        for name in names:
            found = [cells[name, kind, size] for size in sizes]
            ratios = " | ".join(f"{row['cpu_ratio']:.2f} ({row['wall_ratio']:.2f})" for row in found)
            lines.append(f"| {name} | {ratios} | {found[0]['round_trips']:g} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,100,1000", help="history lengths, in messages")
    parser.add_argument("--rounds", type=int, default=30, help="turns measured in each cell")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    args = parser.parse_args()
    result = asyncio.run(run([int(size) for size in args.sizes.split(",")], args.rounds))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(table(result))


if __name__ == "__main__":
    main()
