"""`python -m tests.faults.harness`: runs of the fault harness by hand, one minute each, until the time is up.

Prints each run's seed and verdict; keeps the evidence of a run that failed, and ends with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.harness.plan import make_plan
from tests.faults.harness.report import Report
from tests.faults.harness.run import run


def main() -> int:
    """Run until `--minutes` are over (one run without), then 0 if no promise was broken."""
    parser = argparse.ArgumentParser(description="Break Frontdesk's processes and check what is left.")
    parser.add_argument("--seed", type=int, default=None, help="of the first run; the next ones count up from it")
    parser.add_argument("--seconds", type=float, default=60.0, help="of one run")
    parser.add_argument("--minutes", type=float, default=0.0, help="go on with new runs for so long")
    parser.add_argument("--workers", type=int, default=4)
    chosen = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if chosen.seed is None else chosen.seed
    until = time.monotonic() + chosen.minutes * 60
    bad = 0
    while True:
        bad += not _one(seed, chosen.seconds, chosen.workers)
        seed += 1
        if time.monotonic() >= until:
            return 1 if bad else 0


def _one(seed: int, seconds: float, workers: int) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="fdf-"))
    plan = make_plan(seed, seconds, workers=workers)
    print(f"seed {seed}: {seconds:.0f} s, {workers} workers, {len(plan.faults)} faults planned", flush=True)
    evidence = asyncio.run(run(plan, folder))
    report = Report.judge(evidence)
    print(report.text(), flush=True)
    if report.good:
        shutil.rmtree(folder)
    else:
        print(f"  the evidence is in {folder}; again with: --seed {seed} --seconds {seconds:.0f}", flush=True)
    return report.good


if __name__ == "__main__":
    sys.exit(main())
