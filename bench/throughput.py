"""Turns per second with many conversations at once, by one and by two processes, as ratios to the rival with as many.

Each process plays plain turns of 100 earlier messages, `at_once` conversations side by side, on one shared Valkey.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.contestants import Contestant, Frontdesk, SdkRedis
from sessions.connect import connect

RIVAL = "sdk-redis-limit40"
AT_ONCE = (1, 8, 32, 128)
HISTORY = 100
TURNS = 384  # a process' turns in one cell: three for each of 128 conversations


async def play(folder: str, name: str, at_once: int) -> float:
    """Turns per second of this process, from the moment that the parent says so."""
    backend = await connect(f"embedded://{folder}", data_dir=Path(folder))
    contestant: Contestant = Frontdesk(backend) if name == "frontdesk" else SdkRedis(backend, 40)
    ready = [await contestant.prepare("plain", HISTORY) for _ in range(at_once)]
    for one in ready[:4]:
        await contestant.play(one)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    begun = time.perf_counter()

    async def conversation(one: Any) -> None:
        for _ in range(TURNS // at_once):
            await contestant.play(one)

    await asyncio.gather(*(conversation(one) for one in ready))
    spent = time.perf_counter() - begun
    await backend.close()
    return at_once * (TURNS // at_once) / spent


def cell(folder: str, name: str, at_once: int, processes: int) -> float:
    """All processes' turns per second. `at_once` conversations are divided among them; all begin at the same moment."""
    share = max(1, at_once // processes)
    command = [sys.executable, "-m", "bench.throughput", "--child", folder, name, str(share)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for child in children:
        assert child.stdin is not None and child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise RuntimeError(f"a process of {name} did not start; see above")
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return sum(float(child.communicate()[0].strip().splitlines()[-1]) for child in children)


async def compare(rounds: int) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory(prefix="frontdesk-bench-") as folder:
        backend = await connect(f"embedded://{folder}", data_dir=Path(folder))
        for processes in (1, 2):
            for at_once in AT_ONCE:
                found: dict[str, list[float]] = {"frontdesk": [], RIVAL: []}
                for _ in range(rounds):  # interleaved, so that a busy moment hits both
                    for name in found:
                        found[name].append(await asyncio.to_thread(cell, folder, name, at_once, processes))
                best = {name: max(rates) for name, rates in found.items()}
                ratio = round(best["frontdesk"] / best[RIVAL], 2)
                rows.append({"processes": processes, "at_once": at_once, "ratio": ratio, **best})
                print(f"  {processes} process(es), {at_once} at once: {ratio} of the rival's turns/s", flush=True)
        await backend.close()
    return rows


def report(rows: list[dict[str, Any]]) -> None:
    print("\n| at once | " + " | ".join(str(n) for n in AT_ONCE) + " |\n|---|" + "---|" * len(AT_ONCE))
    for processes in (1, 2):
        ratios = " | ".join(f"{row['ratio']:.2f}" for row in rows if row["processes"] == processes)
        print(f"| {processes} process{'es' if processes > 1 else ''} | {ratios} |")


if __name__ == "__main__":
    if "--child" in sys.argv:
        folder, name, at_once = sys.argv[2:5]
        print(asyncio.run(play(folder, name, int(at_once))))
    else:
        report(asyncio.run(compare(2)))
