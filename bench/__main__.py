"""`make bench`: turns, then throughput, then memory. `--quick` for a first look."""

from __future__ import annotations

import argparse
import asyncio

from bench import memory, throughput, turns


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer turns, no throughput")
    args = parser.parse_args()
    sizes, rounds = ([10, 100, 1000], 10) if args.quick else ([10, 100, 1000, 5000], 30)
    print(turns.table(asyncio.run(turns.run(sizes, rounds))))
    if not args.quick:
        print("\nTurns per second, as a ratio to the rival:")
        throughput.report(asyncio.run(throughput.compare(2)))
    print()
    memory.report(asyncio.run(memory.measure()))


if __name__ == "__main__":
    main()
