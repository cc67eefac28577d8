"""The generated parts of docs/reference/handoffs.md: what the code of a handoff refuses, decides, limits and says.

Refusals are asked of the code itself, on a desk of three; a `decided_by` or an alarm without a meaning here is a
KeyError, so that the page cannot miss one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

from pydantic import BaseModel

from handoffs.alarms import ALARMS
from handoffs.conditions import HOW, Comparison, Operator
from handoffs.errors import BudgetSpent, ModelFailed
from handoffs.hooks import STEPS, HandoffInfo
from handoffs.policy import LoopStopped, Refused, allowed_targets, decide
from handoffs.roster import (
    AgentLimits,
    AgentSpec,
    ApprovalSettings,
    Burst,
    Declared,
    Delegate,
    DeskLimits,
    DeskSpec,
    History,
    Host,
    Roster,
    Step,
)
from handoffs.state import RouterState
from handoffs.texts import SENTENCES
from handoffs.transfer import Brief

Rows = list[tuple[str, ...]]
CODE = Path(__file__).parent.parent / "handoffs"

WHEN: Mapping[str, str] = {
    "requested": "the owner asked for it, or a rule did",
    "accepted": "the target may own the conversation now",
    "refused": "the target may not; the model reads why, and nothing moves",
    "completed": "the new owner owns, in the same commit as this record",
}
DECIDED_BY: Mapping[str, str] = {
    "model": "the agent called `transfer_to_agent`",
    "rule": "`then` of an agent file, or `deterministic_transfer`",
    "ledger": "nobody knows whether a call that changes something took effect: people find out",
    "loop_guard": "a limit of transfers, or the same transfer again in one turn",
    "guardrail": "a guardrail stopped the agent",
    "failure": "the model failed, or a limit of the agent was used up",
    "person": "somebody took the conversation over or handed it back",
    "system": "the owner left the roster, or did not end its turn",
}
RINGS: Mapping[str, str] = {
    "loop_guard": "the loop guard sent a conversation to its exit",
    "announced_only": "an agent said that it hands on, and did not",
    "guardrail": "a guardrail stopped an agent",
}
MEANING: Mapping[Operator, str] = {
    "set": "it has a value that is not empty, 0 or false",
    "not set": "it has none",
    "==": "it is that text, number or truth value",
    "!=": "it is not",
    "<": "it is a number, and smaller",
    ">": "it is a number, and greater",
    "<=": "it is a number, and at most that",
    ">=": "it is a number, and at least that",
}


def steps() -> Rows:
    """The records of a handoff."""
    return [(f"`handoff.{step}`", WHEN[step]) for step in STEPS]


def info() -> Rows:
    """The fields of HandoffInfo."""
    return [(f"`{found.name}`", str(found.type).partition("[")[0]) for found in dataclasses.fields(HandoffInfo)]


def brief() -> Rows:
    """The parts of a brief."""
    kinds = {"string": "text", "array": "list of texts"}
    return [(f"`{name}`", kinds[found["type"]]) for name, found in Brief.model_json_schema()["properties"].items()]


def _desk() -> Roster:
    agents = (
        AgentSpec(id="triage", intended_use="x", transfer_to=("billing", "orders", "human:support")),
        AgentSpec(id="billing", intended_use="x", requires=("verified",), transfer_to=("triage", "human:support")),
        AgentSpec(id="orders", intended_use="x", disabled=True),
        AgentSpec(id="sales", intended_use="x"),
    )
    queue = {"name": "Support", "when_closed": "refuse", "hours": "always"}
    desk = DeskSpec.model_validate({"name": "x", "start": "triage", "queues": {"support": queue}})
    return Roster(desk=desk, agents={agent.id: agent for agent in agents})


def refusals() -> Rows:
    """What a model reads when its transfer is refused, as the code says it now."""
    asked: tuple[tuple[str, str, bool, RouterState], ...] = (
        ("the agent itself", "triage", False, RouterState()),
        ("a target that does not exist", "bilings", False, RouterState()),
        ("an agent that is `disabled`", "orders", False, RouterState()),
        ("a closed queue with `when_closed: refuse`", "human:support", False, RouterState()),
        ("`requires` is not met", "billing", False, RouterState()),
        ("a target that `transfer_to` does not name", "sales", False, RouterState()),
        (
            "the same transfer again in one turn",
            "billing",
            True,
            RouterState(trail=("triage>billing", "billing>triage")),
        ),
    )
    return [(why, _decided(to, ready, state)) for why, to, ready, state in asked]


def guards() -> Rows:
    """Why the loop guard trips, as the code says it now."""
    limits = _desk().desk.limits
    turn = tuple(f"a{number}>b{number}" for number in range(limits.transfers_per_turn))
    return [
        ("`transfers_per_turn`", _decided("billing", True, RouterState(trail=turn))),
        (
            "`transfers_per_conversation`",
            _decided("billing", True, RouterState(transfers=limits.transfers_per_conversation)),
        ),
    ]


def _decided(to: str, ready: bool, state: RouterState) -> str:
    roster = _desk()
    agent = roster["triage"]
    allowed = allowed_targets(roster, agent, lambda _: ready, lambda _: not ready)
    found = decide(roster, agent, to, state=state, allowed=allowed, has_value=lambda _: ready)
    if isinstance(found, Refused):
        return found.text
    if isinstance(found, LoopStopped):
        return f"{found.why} (goes to `{found.exit}`)"
    raise ValueError(f"nothing stops a transfer to {to}")


def decided_by() -> Rows:
    """Everybody who can decide a handoff; the code is searched for more than the table has."""
    source = "".join(path.read_text(encoding="utf-8") for path in CODE.glob("*.py"))
    written = set(re.findall(r'decided_by"?[=:] ?"([a-z_]+)"', source)) - DECIDED_BY.keys()
    if written:
        raise KeyError(f"no meaning of decided_by: {', '.join(sorted(written))}")
    return [(f"`{name}`", meaning) for name, meaning in DECIDED_BY.items()]


def failures() -> Rows:
    """What can go wrong with an owner, in the words of `turn.failed`."""
    return [
        ("`limits.model_calls`", str(BudgetSpent("billing", what="model_calls", limit=AgentLimits().model_calls))),
        ("`limits.seconds`", str(BudgetSpent("billing", what="seconds", limit=AgentLimits().seconds))),
        ("the model, also after the retries", str(ModelFailed("billing", "..."))),
    ]


def alarms() -> Rows:
    """The counters at /readyz."""
    return [(f"`alarms.{alarm}`", RINGS[alarm]) for alarm in ALARMS]


def conditions() -> Rows:
    """The tests of `when:`."""
    return [(f"`{_shown(operator)}`", MEANING[operator]) for operator in get_args(Operator)]


def _shown(operator: Operator) -> str:
    test = Comparison("amount", operator, "100")
    return (
        f"{test.subject} is {operator}" if operator in ("set", "not set") else f"{test.subject} {operator} {test.text}"
    )


def how_to_write() -> str:
    """The rule of `when:` in the words of its error message."""
    return f"{HOW[0].upper()}{HOW[1:]}.".replace("Expected", "Conditions are", 1)


def sentences() -> Rows:
    """What customers read from Frontdesk itself, in each language."""
    return [(f"`{key}`", *(table[key] for table in SENTENCES.values())) for key in SENTENCES["en"]]


def settings() -> Iterator[tuple[str, type[BaseModel]]]:
    """Every block of settings that concerns handoffs: where it stands, and its model."""
    yield "history", History
    yield "then", Step
    yield "burst", Burst
    yield "limits of an agent", AgentLimits
    yield "limits of the desk", DeskLimits
    yield "arguments and result of ask", Declared
    yield "host", Host
    yield "delegate", Delegate
    yield "approvals", ApprovalSettings
