"""What the numbers of `make bench-peers` rest on. The peers themselves are not installed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from bench.lines import Child
from bench.peers import ROUNDS, SIZES, due
from bench.settle import settle
from bench.turns import RIVAL, report, table
from sessions.embedded import acquire


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    started = Child("frontdesk", sys.executable, "bench.driver_ours", str(tmp_path))
    started.started()
    yield started
    started.close()


def test_driver_plays_a_transfer_in_three_round_trips(child: Child) -> None:
    """A contestant in a process of its own does the work that tests/handoffs/test_round_trips.py counts."""
    first, second = (child.ask(do="prepare", kind="handoff", history=4)["id"] for _ in range(2))
    child.ask(do="play", id=first)  # loads scripts, opens connections

    played = child.ask(do="play", id=second)

    assert played["trips"] == 3
    assert played["cpu"] > 0
    assert played["wall"] > 0


def test_error_in_a_driver_names_the_contestant(child: Child) -> None:
    """A turn that fails ends the run and says whose it was: no number is made of it."""
    with pytest.raises(RuntimeError, match="frontdesk: KeyError: 99"):
        child.ask(do="play", id=99)


def test_long_conversations_have_fewer_turns_over_the_whole_run() -> None:
    """5,000 messages are played in every fourth round, from the first to the last quarter."""
    rounds = {size: [number for number in range(ROUNDS) if due(number, size)] for size in SIZES}

    assert [len(found) for found in rounds.values()] == [24, 24, 12, 6]
    assert rounds[5000] == [0, 4, 8, 12, 16, 20]


def test_table_shows_each_contestant_as_a_ratio_to_the_rival() -> None:
    """Medians, CPU first, wall clock in brackets, in three figures; round trips as they were counted."""
    samples = {
        (RIVAL, "handoff", 10): [(0.010, 0.020, 14)] * 3,
        ("peer", "handoff", 10): [(0.005, 0.010, 33), (2.75, 5.4, 33), (9.0, 9.0, 33)],
    }

    lines = table(report(samples, "3", "Valkey")).splitlines()

    assert lines[0].endswith("3 turns a cell, interleaved; 1.00 = sdk-redis-limit40")
    assert lines[-2:] == ["| sdk-redis-limit40 | 1.00 (1.00) | 14 |", "| peer | 275 (270) | 33 |"]


def test_settle_waits_for_the_end_of_a_log_rewrite(tmp_path: Path) -> None:
    """No turn is measured while the server rewrites what preparing has written."""
    lease = acquire(tmp_path)
    client = Redis(unix_socket_path=str(lease.socket))
    for number in range(200):
        client.set(f"k{number}", "x" * 50_000)
    client.bgrewriteaof()

    settle(client)

    facts = client.info("persistence")
    client.close()
    lease.release()
    assert facts["aof_rewrite_in_progress"] == 0
    assert facts["aof_rewrite_scheduled"] == 0
