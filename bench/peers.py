"""The handoff turn beside other projects: every contestant a process of its own, all cases interleaved in one run.

`make bench-peers` installs the peers into an environment outside the project and starts this. All Redis-backed ones
write to a server that has every write on the disk before it answers: ours and the SDK's to the embedded Valkey,
langgraph's to a Redis 8 with the modules that it needs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redis import Redis

from bench import driver_ours
from bench.contestants import TURNS
from bench.lines import Child
from bench.redis8 import redis8
from bench.settle import settle
from bench.turns import Sample, report, table
from sessions.embedded import acquire

SWARM_REDIS = ("swarm-redis", "swarm-redis-tuned", "swarm-redis-trim40")
SWARM_SQLITE = ("swarm-sqlite", "swarm-sqlite-tuned", "swarm-sqlite-trim40")
SQUAD = ("squad-memory", "squad-sqlite", "squad-sqlite-all")
SIZES = (10, 100, 1000, 5000)
ROUNDS = 24
QUICK = ((10, 100, 1000), 4)
WARM = 3  # first turns of each process, not counted: they load code and open connections
FEWER = ((1000, 2), (5000, 4))  # from that many messages on a half and a quarter of the rounds: one turn takes seconds


def divisor(history: int) -> int:
    return max((by for size, by in FEWER if history >= size), default=1)


def due(number: int, history: int) -> bool:
    """Whether round `number` has a turn of that size: the fewer ones are spread over the whole run."""
    return number % divisor(history) == 0


@contextlib.contextmanager
def contestants(environment: Path, folder: Path) -> Iterator[tuple[list[Child], list[Redis], str]]:
    """All processes, started; their servers' clients; what the servers are."""
    python = str(environment / "bin/python")
    site = Path(printed(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    lease = acquire(folder / "valkey")
    with contextlib.ExitStack() as open_now:
        open_now.callback(lease.release)
        socket = open_now.enter_context(redis8(site, folder))
        clients = [Redis(unix_socket_path=str(path), decode_responses=True) for path in (lease.socket, socket)]
        children = [
            *(Child(name, sys.executable, "bench.driver_ours", str(lease.folder)) for name in driver_ours.NAMES),
            *(Child(name, python, "bench.driver_swarm", str(socket)) for name in SWARM_REDIS),
            *(Child(name, python, "bench.driver_swarm", str(folder)) for name in SWARM_SQLITE),
            *(Child(name, python, "bench.driver_squad", str(folder)) for name in SQUAD),
        ]
        for child in children:
            open_now.callback(child.close)
        for child in children:
            child.started()
        version = clients[1].info("server")["redis_version"]
        yield children, clients, f"Valkey {lease.version}, Redis {version} for swarm-redis"


def printed(python: str, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def compare(environment: Path, sizes: tuple[int, ...], rounds: int, kinds: tuple[str, ...]) -> dict[str, Any]:
    samples: dict[tuple[str, str, int], list[Sample]] = defaultdict(list)
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="frontdesk-peers-") as folder,
        contestants(environment, Path(folder)) as (children, clients, servers),
    ):
        for _ in range(WARM):
            play(children, clients, min(sizes), kinds)
        for number in range(rounds):
            for history in sizes:
                if due(number, history):
                    for where, sample in play(children, clients, history, kinds).items():
                        samples[*where, history].append(sample)
            print(f"  round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    counts = ", ".join(str(-(-rounds // divisor(history))) for history in sizes)
    ordered = {(c.name, kind, n): samples[c.name, kind, n] for kind in kinds for c in children for n in sizes}
    result = report(ordered, counts, f"{servers}; load {load:.1f} to {os.getloadavg()[0]:.1f}")
    return {**result, "peers": printed(str(environment / "bin/python"), VERSIONS)}


SHOWN = ("langgraph-swarm", "langgraph", "langgraph-checkpoint-redis", "langgraph-checkpoint-sqlite", "agent-squad")
VERSIONS = f"from importlib.metadata import version as v; print(', '.join(f'{{name}} {{v(name)}}' for name in {SHOWN}))"


def play(
    children: list[Child], clients: list[Redis], history: int, kinds: tuple[str, ...]
) -> dict[tuple[str, str], Sample]:
    """One turn of each kind by each contestant, in a new order each time: whoever comes after a big one is unlucky."""
    cases = [(child, kind) for child in children for kind in kinds]
    ready = [(*case, case[0].ask(do="prepare", kind=case[1], history=history)["id"]) for case in cases]
    for client in clients:
        settle(client)
    random.shuffle(ready)
    found = {}
    for child, kind, number in ready:
        answer = child.ask(do="play", id=number)
        found[child.name, kind] = (answer["cpu"], answer["wall"], answer["trips"])
    for child, _, number in ready:
        child.ask(do="forget", id=number)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--environment", type=Path, required=True, help="where scripts/ensure-peers put the peers")
    parser.add_argument("--quick", action="store_true", help="a first look: no 5,000 messages, few turns")
    parser.add_argument("--plain", action="store_true", help="the plain turn as well")
    parser.add_argument("--rounds", type=int, help=f"turns measured at the smaller sizes; {ROUNDS} without --quick")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    args = parser.parse_args()
    sizes, rounds = QUICK if args.quick else (SIZES, ROUNDS)
    kinds = TURNS if args.plain else ("handoff",)
    result = compare(args.environment, sizes, args.rounds or rounds, kinds)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(f"{result['peers']}\n{table(result)}")


if __name__ == "__main__":
    main()
