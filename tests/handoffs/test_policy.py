"""Transfer decisions, without I/O."""

from __future__ import annotations

from handoffs.policy import (
    Accepted,
    LoopStopped,
    Refused,
    allowed_targets,
    approval_target,
    decide,
    exit_target,
    owner_of,
    target_of,
)
from handoffs.roster import Roster
from handoffs.state import RouterState
from sessions.model import Owner
from tests.handoffs.desks import agent, roster, shop

NOTHING = RouterState()


def unset(key: str) -> bool:
    return False


def decided(desk: Roster, origin: str, to: str, state: RouterState = NOTHING) -> Accepted | Refused | LoopStopped:
    spec = desk[origin]
    return decide(desk, spec, to, state=state, allowed=allowed_targets(desk, spec, unset), has_value=unset)


def test_targets_and_owners_translate_both_ways() -> None:
    """`billing` is an agent, `human:support` a queue; the way back gives the same words."""
    assert owner_of("billing") == Owner.ai("billing")
    assert owner_of("human:support") == Owner.queue("support")
    assert [target_of(owner_of(target)) for target in ("billing", "human:support")] == ["billing", "human:support"]


def test_declared_target_is_accepted() -> None:
    """handoffs.md 2.1: A target in transfer_to, or in returns_to, is fine."""
    assert decided(shop(), "triage", "billing") == Accepted("billing")
    assert decided(shop(), "billing", "triage") == Accepted("triage")
    assert decided(shop(), "billing", "human:support") == Accepted("human:support")


def test_refusals_say_why_and_what_is_allowed() -> None:
    """handoffs.md 2.2: unknown, own, and undeclared targets are told apart."""
    desk = roster(agent("triage", transfer_to=("billing",)), agent("billing"), agent("orders"))

    reasons = {to: decided(desk, "triage", to) for to in ("nobody", "triage", "orders")}

    assert [refusal.why for refusal in reasons.values() if isinstance(refusal, Refused)] == [
        "there is no target 'nobody'.",
        "you own this conversation already.",
        "triage may not transfer to orders.",
    ]
    assert all(isinstance(r, Refused) and r.text.endswith("Allowed targets now: billing.") for r in reasons.values())


def test_unmet_condition_takes_a_target_off_the_list() -> None:
    """handoffs.md 2.1 and 2.9: `requires` is checked against values, and the refusal names what is missing."""
    desk = roster(agent("triage", transfer_to=("vault",)), agent("vault", requires=("verified",)))

    assert allowed_targets(desk, desk["triage"], unset) == ()
    assert allowed_targets(desk, desk["triage"], lambda key: key == "verified") == ("vault",)
    refusal = decided(desk, "triage", "vault")
    assert isinstance(refusal, Refused)
    assert refusal.why == "vault needs verified to be set first."


def test_repeated_pair_is_refused_first_and_stopped_at_the_limit() -> None:
    """handoffs.md 2.7: A -> B -> A -> B: refused while transfers are left, so the model can answer; at the limit
    the exit is taken.
    """
    state = NOTHING.moved("triage", "billing").moved("billing", "orders").moved("orders", "billing")
    refused = decided(shop(), "billing", "orders", state)
    assert isinstance(refused, Refused)
    assert "orders" not in refused.allowed

    stopped = decided(shop(), "billing", "orders", state.moved("billing", "triage"))
    assert stopped == LoopStopped("human:support", "billing and orders keep transferring to each other")


def test_limits_per_turn_and_per_conversation() -> None:
    """handoffs.md 2.7: both limits stop a transfer between agents; people can always be reached."""
    desk = shop(limits={"transfers_per_turn": 2, "transfers_per_conversation": 5})
    busy_turn = NOTHING.moved("a", "b").moved("b", "c")
    long_conversation = RouterState(transfers=5)

    assert decided(desk, "triage", "billing", busy_turn) == LoopStopped("human:support", "2 transfers in one turn")
    assert decided(desk, "triage", "billing", long_conversation) == LoopStopped(
        "human:support", "5 transfers in one conversation"
    )
    assert decided(desk, "triage", "human:support", busy_turn) == Accepted("human:support")
    assert decided(desk, "triage", "billing", busy_turn.rested()) == Accepted("billing")


def test_exit_and_approval_prefer_the_agents_own_people() -> None:
    """on_error's queue, then the queues an agent may reach, then the desk's first queue."""
    queues = {"support": {"name": "S"}, "money": {"name": "M"}}
    desk = roster(
        agent("triage", transfer_to=("human:money",)), agent("b", on_error="human:money"), agent("c"), queues=queues
    )

    assert exit_target(desk, desk["triage"]) == "human:support"
    assert exit_target(desk, desk["b"]) == "human:money"
    assert approval_target(desk, desk["triage"]) == "human:money"
    assert approval_target(desk, desk["c"]) == "human:support"
    assert exit_target(roster(agent("lonely"), queues={}), agent("lonely")) == "lonely"
