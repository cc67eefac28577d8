"""May this transfer happen? Pure decisions over the roster and the state; nothing is moved here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from handoffs.roster import HUMAN, AgentSpec, Roster, Step
from handoffs.state import RouterState
from sessions.model import Owner


@dataclass(frozen=True, slots=True)
class Accepted:
    """The transfer may happen."""

    to: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The transfer may not happen. `why` goes to the model with the allowed targets, so that it can correct itself."""

    to: str
    why: str
    allowed: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"Not transferred: {self.why} Allowed targets now: {', '.join(self.allowed) or 'none'}."


@dataclass(frozen=True, slots=True)
class LoopStopped:
    """The loop guard tripped: the conversation goes to `exit`, whatever was asked for."""

    exit: str
    why: str


@dataclass(frozen=True, slots=True)
class PlanStopped:
    """The loop guard ended a plan before `to`: the agent that spoke keeps the conversation. `why` is for operators."""

    to: str
    why: str


Decision = Accepted | Refused | LoopStopped
HasValue = Callable[[str], bool]
Closed = Callable[[str], bool]  # whether a target takes nobody right now
Decide = Callable[[str], Decision]


def owner_of(target: str) -> Owner:
    """The owner that a target of an agent file (`billing`, `human:support`) means."""
    if target.startswith(HUMAN):
        return Owner.queue(target.removeprefix(HUMAN))
    return Owner.ai(target)


def target_of(owner: Owner) -> str:
    """The target that names this owner in agent files; a person, whom no file names, is their login."""
    return HUMAN + owner.id if owner.kind == "queue" else owner.id


def unmet(agent: AgentSpec, has_value: HasValue) -> tuple[str, ...]:
    """The values that must be set before a transfer to `agent`, and are not."""
    return tuple(key for key in agent.requires if not has_value(key))


def never(_target: str) -> bool:
    """No target is ever closed."""
    return False


def allowed_targets(roster: Roster, agent: AgentSpec, has_value: HasValue, closed: Closed = never) -> tuple[str, ...]:
    """Where `agent` may transfer to right now: declared, existing, switched on, open, entry conditions met."""
    candidates = (*agent.transfer_to, *((agent.returns_to,) if agent.returns_to else ()))
    return tuple(
        target
        for target in dict.fromkeys(candidates)
        if target != agent.id
        and roster.available(target)
        and not (closed(target) if target.startswith(HUMAN) else unmet(roster[target], has_value))
    )


def decide(
    roster: Roster, agent: AgentSpec, to: str, *, state: RouterState, allowed: Sequence[str], has_value: HasValue
) -> Decision:
    """What becomes of `agent`'s wish to transfer to `to`. The first reason that applies is given."""
    refused = _forbidden(roster, agent, to, allowed, has_value)
    if refused:
        return Refused(to, refused, tuple(allowed))
    stopped = loop_guard(roster, agent, to, state)
    if stopped is None:
        return Accepted(to)
    if f"{agent.id}>{to}" in state.trail and len(state.trail) < roster.desk.limits.transfers_per_turn:
        others = tuple(target for target in allowed if target != to)
        return Refused(to, f"{to} has had this conversation in this turn already; answer yourself.", others)
    return stopped


def _forbidden(roster: Roster, agent: AgentSpec, to: str, allowed: Sequence[str], has_value: HasValue) -> str:
    if to in allowed:
        return ""
    if to == agent.id:
        return "you own this conversation already."
    if not roster.knows(to):
        return f"there is no target {to!r}."
    if not roster.available(to):
        return f"{to} is switched off."
    if to in agent.targets and to.startswith(HUMAN):
        return f"nobody is at {to} now."
    if to in agent.targets and to in roster:
        return f"{to} needs {', '.join(unmet(roster[to], has_value))} to be set first."
    return f"{agent.id} may not transfer to {to}."


def loop_guard(roster: Roster, agent: AgentSpec, to: str, state: RouterState) -> LoopStopped | None:
    """LoopStopped when one more transfer would pass a limit or repeat a pair; people are never a loop."""
    if to.startswith(HUMAN):
        return None
    limits = roster.desk.limits
    exit_ = exit_target(roster, agent)
    if f"{agent.id}>{to}" in state.trail:
        return LoopStopped(exit_, f"{agent.id} and {to} keep transferring to each other")
    if len(state.trail) >= limits.transfers_per_turn:
        return LoopStopped(exit_, f"{limits.transfers_per_turn} transfers in one turn")
    if state.transfers >= limits.transfers_per_conversation:
        return LoopStopped(exit_, f"{limits.transfers_per_conversation} transfers in one conversation")
    return None


def next_in_plan(
    roster: Roster, agent: AgentSpec, state: RouterState, value: Callable[[str], Any], closed: Closed = never
) -> tuple[Step, ...] | PlanStopped:
    """Who speaks after `agent` has answered, in order: the rest of the plan, then `agent`'s own `then:`. Often nobody.

    Conditions (`when:`) are asked once, now. Targets that are gone or whose entry conditions are not met are passed
    over, as are those that are switched off or closed; the loop guard ends a plan with PlanStopped.
    """
    if not state.plan and not agent.then:
        return ()
    wished: dict[str, Step] = {}
    for step in (*state.plan, *agent.then):
        condition = step.condition
        if condition is None or condition.holds(value, state.labels):
            wished.setdefault(step.to, Step(to=step.to, hidden=step.hidden))
    plan = tuple(
        step
        for step in wished.values()
        if step.to != agent.id
        and roster.available(step.to)
        and not (closed(step.to) if step.to.startswith(HUMAN) else unmet(roster[step.to], lambda key: bool(value(key))))
    )
    stopped = loop_guard(roster, agent, plan[0].to, state) if plan else None
    return plan if stopped is None else PlanStopped(plan[0].to, stopped.why)


def exit_target(roster: Roster, agent: AgentSpec) -> str:
    """Where a conversation goes that must not go round any longer: a human queue if there is one."""
    choice = roster.on_error(agent.id)
    if choice.startswith(HUMAN):
        return choice
    return next((HUMAN + queue for queue in roster.desk.queues), choice)


def approval_target(roster: Roster, agent: AgentSpec) -> str:
    """The human queue that decides about this agent's actions: its own first, then the desk's."""
    own = (agent.on_error, *agent.transfer_to)
    return next((target for target in own if target and target.startswith(HUMAN)), exit_target(roster, agent))
