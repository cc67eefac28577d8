"""The fault harness: processes are killed, stopped and restarted, and no promise breaks. Broken scripts are noticed.

The seed of every run is in its report; `python -m tests.faults.harness --seed N` runs that plan again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness.plan import FaultKind, Plan, make_plan
from tests.faults.harness.report import Report
from tests.faults.harness.run import run
from tests.faults.harness.worker import Sabotage, sabotaged
from tests.support import SCALE

SEED = int(os.environ.get("FRONTDESK_FAULT_SEED", "0")) or secrets.randbelow(1_000_000) + 1
CI_CALLS, CI_FAULTS = 10_000, 20  # of the one-minute run
MINUTES = 4  # at most, when the machine has other things to do

FENCE = "if not holds(o, ARGV[3], ARGV[4]) then return fenced(o) end"
BROKEN = {
    "commit does not look at the token": (
        Sabotage("commit", FENCE, "if not o then return {'NOCONV'} end"),
        {"stale token was accepted", "spoke without owning", "message answered twice", "answered what does not wait"},
    ),
    "enqueue stores a repeated message again": (
        Sabotage("enqueue", "if first then", "if false then"),
        {"message is there twice", "request took effect twice"},
    ),
    "takeover keeps the epoch": (
        Sabotage("takeover", "return int(math.max(tonumber(o.epoch) + 1, now))", "return o.epoch"),
        {"owner changed in the same epoch"},
    ),
    "commit leaves the answered messages in the inbox": (
        Sabotage("commit", "redis.call('LTRIM', IN, answered, -1)", "redis.call('LTRIM', IN, 0, -1)"),
        {"message answered twice"},
    ),
    "relay shows what a stale owner writes": (
        Sabotage("relay", FENCE, "if not o then return {'NOCONV'} end"),
        {"stray piece on a screen", "draft was left behind"},
    ),
    "a clock that was set back is believed": (
        Sabotage("*", "o.lease <= now + MAX_LEASE", "true"),
        {"message waits for ever"},
    ),
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: unix sockets have room for 107 characters."""
    made = Path(tempfile.mkdtemp(prefix="fdf-"))
    yield made
    shutil.rmtree(made)


def judged(plan: Plan, folder: Path, *sabotage: Sabotage) -> Report:
    """Carry the plan out and let the checkers judge it."""
    evidence = asyncio.run(run(plan, folder, sabotage))
    report = Report.judge(evidence)
    print(f"seed {plan.seed}\n{report.text()}")
    return report


def test_same_seed_gives_the_same_plan() -> None:
    """A run that failed can be planned again from its seed; another seed is another plan."""
    assert make_plan(7, 30) == make_plan(7, 30)
    assert make_plan(7, 30) != make_plan(8, 30)


def test_minute_of_the_plan_has_enough_of_every_fault() -> None:
    """Whatever the seed, a minute has at least twenty faults, and over some seeds every kind of them."""
    plans = [make_plan(seed, 60, customers=1, people=1) for seed in range(50)]

    assert min(len(plan.faults) for plan in plans) >= CI_FAULTS
    assert {fault.kind for plan in plans for fault in plan.faults} == set(FaultKind)


@pytest.mark.parametrize("broken", [broken for broken, _ in BROKEN.values()], ids=BROKEN.keys())
def test_rule_that_is_taken_out_is_in_the_scripts(broken: Sabotage) -> None:
    """The slow tests below take these rules out: here a script that was reworded is noticed at once."""
    assert sabotaged([broken])


@pytest.mark.timeout(180)
def test_short_run_keeps_every_promise(folder: Path) -> None:
    """A few seconds of kills, stops, restarts and takeovers: nothing lost, nothing twice, one owner, all answered."""
    report = judged(make_plan(SEED, 8 * SCALE, fault_every_s=(0.5, 1.2)), folder)

    assert report.good, report.text()
    assert report.faults >= 3
    assert report.messages_acknowledged > 100


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_minute_of_faults_keeps_every_promise(folder: Path) -> None:
    """The CI form: a minute with at least 10,000 calls of the store's scripts and 20 faults, and no violation.

    A machine that is too busy for so many calls in one minute gets more minutes, each with the next seed.
    """
    calls = faults = 0
    for minute in range(MINUTES):
        place = folder / str(minute)
        place.mkdir()
        report = judged(make_plan(SEED + minute, 60), place)
        assert report.good, report.text()
        calls, faults = calls + report.store_calls, faults + report.faults
        if calls >= CI_CALLS and faults >= CI_FAULTS:
            return
    pytest.fail(f"only {calls} calls and {faults} faults in {MINUTES} minutes")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("broken", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_script_is_noticed(folder: Path, broken: Sabotage, expected: set[str]) -> None:
    """With one rule taken out of one script, a short run finds the violation by name: the harness can fail."""
    report = judged(make_plan(SEED, 15 * SCALE, fault_every_s=(0.4, 1.0)), folder, broken)

    found = {violation.kind for violation in report.violations}
    assert found & expected, report.text()
