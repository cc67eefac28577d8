"""The plan of a run: everything that customers, people and the nemesis will do, from the seed alone. No I/O, no clock.

Times are seconds from the start. What the machine makes of a plan differs from run to run; the plan does not.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

QUIET_S = 2.0  # at the end of a run nothing is broken any more
FAULT_EVERY_S = (1.2, 2.8)  # kill -9 of the server every few of these leaves it time to do work
CONVERSATION_MESSAGES = 20  # then a customer opens a new conversation: logs stay short enough to search
SLOW_LEASES = 1.5  # a slow answer takes so many leases: the worker must renew, or lose it


class Act(StrEnum):
    """What the model does with a customer's message; the message says it."""

    SAY = "say"  # answers at once
    STREAM = "stream"  # answers in pieces, long enough for some of them to be shown
    SLOW = "slow"  # answers later than the lease lasts
    BILLING = "billing"  # transfers
    ORDERS = "orders"
    TRIAGE = "triage"
    PEOPLE = "people"  # transfers to the human queue
    FAIL = "fail"  # the model raises at once
    BREAK = "break"  # the model raises after it has shown something


ACTS = {
    Act.SAY: 32,
    Act.STREAM: 30,
    Act.SLOW: 3,
    Act.BILLING: 12,
    Act.ORDERS: 10,
    Act.TRIAGE: 6,
    Act.PEOPLE: 2,
    Act.FAIL: 1,
    Act.BREAK: 2,
}


class FaultKind(StrEnum):
    """What the nemesis does."""

    KILL_WORKER = "kill -9 worker"
    STOP_WORKER = "SIGSTOP worker"
    KILL_SERVER = "kill -9 server"
    STOP_SERVER = "SIGSTOP server"
    CLOCK_BACK = "clock set back"  # and the worker that holds leases by the old clock dies


FAULTS = {
    FaultKind.KILL_WORKER: 30,
    FaultKind.STOP_WORKER: 30,
    FaultKind.KILL_SERVER: 25,
    FaultKind.STOP_SERVER: 5,
    FaultKind.CLOCK_BACK: 10,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """At `at`, break `target` (a worker's number, ignored for the server) for `lasts` seconds."""

    at: float
    kind: FaultKind
    target: int
    lasts: float


@dataclass(frozen=True, slots=True)
class Say:
    """A customer's message, `after` seconds after the last one was acknowledged; `twice`: sent two times at once."""

    conversation_id: str
    message_id: str
    act: Act
    after: float
    twice: bool
    door: int

    @property
    def text(self) -> str:
        return f"#{self.message_id} {self.act.value}"


@dataclass(frozen=True, slots=True)
class Shift:
    """A person takes a conversation `after` seconds after the last one, says something, and hands it back or leaves."""

    conversation_id: str
    after: float
    force: bool
    sayings: int
    pause: float
    back_to: str  # an agent; empty: leaves without handing back
    twice: bool
    door: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `customers` and `people` are each one's own steps, in order, more than the time will allow."""

    seed: int
    seconds: float
    workers: int
    lease_ms: int
    sweep_s: float
    faults: tuple[Fault, ...]
    customers: tuple[tuple[Say, ...], ...]
    people: tuple[tuple[Shift, ...], ...]


def make_plan(
    seed: int,
    seconds: float,
    *,
    workers: int = 4,
    customers: int = 24,
    people: int = 2,
    lease_ms: int = 900,
    sweep_s: float = 0.6,
    fault_every_s: tuple[float, float] = FAULT_EVERY_S,
) -> Plan:
    """The plan of `seed`: equal arguments give equal plans."""
    return Plan(
        seed=seed,
        seconds=seconds,
        workers=workers,
        lease_ms=lease_ms,
        sweep_s=sweep_s,
        faults=_faults(_random(seed, "nemesis"), seconds, workers, lease_ms / 1000, fault_every_s),
        customers=tuple(_sayings(_random(seed, f"customer{i}"), i, seconds, workers) for i in range(customers)),
        people=tuple(_shifts(_random(seed, f"person{i}"), seconds, workers, customers) for i in range(people)),
    )


def _random(seed: int, who: str) -> random.Random:
    return random.Random(f"{seed}:{who}")  # noqa: S311  # a plan must be repeatable


def _faults(
    rnd: random.Random, seconds: float, workers: int, lease_s: float, every: tuple[float, float]
) -> tuple[Fault, ...]:
    out = []
    at = rnd.uniform(*every)
    while at < seconds - QUIET_S:
        kind = rnd.choices(list(FAULTS), list(FAULTS.values()))[0]
        lasts = {
            FaultKind.KILL_WORKER: rnd.uniform(0.02, 0.5),
            FaultKind.STOP_WORKER: lease_s * rnd.uniform(0.3, 2.5),
            FaultKind.KILL_SERVER: rnd.uniform(0.0, 0.4),
            FaultKind.STOP_SERVER: rnd.uniform(0.2, 1.2),
            FaultKind.CLOCK_BACK: rnd.uniform(0.02, 0.3),
        }[kind]
        out.append(Fault(round(at, 3), kind, rnd.randrange(workers), round(lasts, 3)))
        at += rnd.uniform(*every)
    return tuple(out)


def conversation(customer: int, number: int) -> str:
    """A customer's n-th conversation."""
    return f"c{customer}-{number}"


def _sayings(rnd: random.Random, customer: int, seconds: float, workers: int) -> tuple[Say, ...]:
    out = []
    for n in range(int(seconds * 40)):
        out.append(
            Say(
                conversation_id=conversation(customer, n // CONVERSATION_MESSAGES),
                message_id=f"m{customer}.{n}",
                act=rnd.choices(list(ACTS), list(ACTS.values()))[0],
                after=round(rnd.choice((0.0, 0.01, 0.03, 0.1, 0.25)) * rnd.random(), 4),
                twice=rnd.random() < 0.08,
                door=rnd.randrange(workers),
            )
        )
    return tuple(out)


def _shifts(rnd: random.Random, seconds: float, workers: int, customers: int) -> tuple[Shift, ...]:
    """Conversations are named by customer only; who takes one takes the customer's newest (clients.py knows it)."""
    out = []
    for _ in range(int(seconds * 20)):
        out.append(
            Shift(
                conversation_id=f"c{rnd.randrange(customers)}",
                after=round(rnd.uniform(0.0, 0.3), 4),
                force=rnd.random() < 0.4,
                sayings=rnd.choice((0, 1, 1, 2)),
                pause=round(rnd.uniform(0.0, 0.12), 4),
                back_to=rnd.choice(("triage", "billing", "orders")) if rnd.random() < 0.92 else "",
                twice=rnd.random() < 0.1,
                door=rnd.randrange(workers),
            )
        )
    return tuple(out)
