"""Cost of a turn: CPU and wall clock at several history lengths, as ratios to the SDK with limit 40 in the same run.

`make bench` runs it on an embedded Valkey of its own. Cases are interleaved and shuffled, so that a busy moment hits
all of them. All conversations of a round and size are prepared before any is played, and the server has come to rest.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from redis import Redis

from bench.contestants import TURNS, Contestant, Frontdesk, SdkMemory, SdkRedis
from bench.settle import settle
from bench.trips import Trips
from sessions.connect import connect

RIVAL = "sdk-redis-limit40"  # the fair one: flat in history, as ours
Sample = tuple[float, float, int]  # CPU s, wall s, round trips


async def measure(contestant: Contestant, ready: Any, trips: Trips) -> Sample:
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
    client = Redis(unix_socket_path=str(backend.lease.socket))
    for number in range(rounds + 3):
        for history in sizes:
            cases = [(c, kind, await c.prepare(kind, history)) for kind in TURNS for c in contestants]
            gc.collect()  # what preparing left behind is no turn's
            await asyncio.to_thread(settle, client)
            random.shuffle(cases)
            for contestant, kind, ready in cases:
                sample = await measure(contestant, ready, trips)
                if number >= 3:  # the first rounds warm caches and connections
                    samples[contestant.name, kind, history].append(sample)
    client.close()
    return report(samples, str(rounds), backend.describe())


def report(samples: dict[tuple[str, str, int], list[Sample]], rounds: str, store: str) -> dict[str, Any]:
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
                "wall_ms": round(wall * 1000, 2),
                "turns": len(found),
                "round_trips": statistics.median(sample[2] for sample in found),
            }
        )
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"
    return {"machine": machine, "store": store.split(" in ")[0], "rounds": rounds, "rival": RIVAL, "rows": rows}


def ratio(value: float) -> str:
    """Three figures are what it is worth."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def table(result: dict[str, Any]) -> str:
    kinds, names = (list(dict.fromkeys(row[of] for row in result["rows"])) for of in ("turn", "contestant"))
    sizes = sorted({row["history"] for row in result["rows"]})
    cells = {(row["contestant"], row["turn"], row["history"]): row for row in result["rows"]}
    lines = [f"{result['machine']}; {result['store']}; {result['rounds']} turns a cell, interleaved; 1.00 = {RIVAL}"]
    for kind in kinds:
        head = " | ".join(f"n = {size}" for size in sizes)
        lines += ["", f"| {kind} turn, CPU (wall) | {head} | round trips |", "|---|" + "---|" * (len(sizes) + 1)]
        for name in names:
            found = [cells[name, kind, size] for size in sizes]
            ratios = " | ".join(f"{ratio(row['cpu_ratio'])} ({ratio(row['wall_ratio'])})" for row in found)
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
