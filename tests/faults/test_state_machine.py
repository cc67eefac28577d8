"""Hypothesis over the real scripts on a real server: no sequence of calls breaks an invariant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.machine import Bench, machine_for, open_bench

STEPS = 40


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The shipped scripts on a server of their own."""
    with open_bench(tmp_path) as opened:
        yield opened


def explore(bench: Bench, examples: int) -> None:
    run_state_machine_as_test(
        machine_for(bench),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_sequence_of_calls_breaks_an_invariant(bench: Bench) -> None:
    """Random calls of two workers, two people and three agents, with repetitions and stale tokens: I1 to I12 hold."""
    explore(bench, 60)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_sequence_of_calls_breaks_an_invariant_in_a_long_search(bench: Bench) -> None:
    """The same with twenty times as many sequences."""
    explore(bench, 1200)
