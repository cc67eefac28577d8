"""The roster's models and the questions that the router and the doors ask it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from handoffs.hours import Hours
from handoffs.roster import AgentSpec, DeskSpec, QueueSpec, Roster, ValueContract, fill


def roster(**desk: Any) -> Roster:
    """A desk in English and Chinese with two agents and two queues."""
    settings: dict[str, Any] = {
        "name": "Desk",
        "start": "triage",
        "languages": ("en", "zh"),
        "queues": {"support": {"name": {"en": "Support", "zh": "客服"}}, "billing": {"name": "Accounts"}},
        "variables": {"shop_name": "Luma"},
    }
    agents = (
        AgentSpec(id="triage", intended_use="Greets."),
        AgentSpec(
            id="billing",
            name={"en": "Billing", "zh": "账务"},
            intended_use={"en": "Payments\n  and invoices.", "zh": "付款"},
            on_error="human:billing",
        ),
    )
    return Roster(desk=DeskSpec(**{**settings, **desk}), agents={agent.id: agent for agent in agents})


@pytest.mark.parametrize(
    ("ref", "language", "name"),
    [
        ("billing", "en", "Billing"),
        ("ai:billing", "zh", "账务"),
        ("billing", "zh-CN", "账务"),
        ("billing", "fr", "Billing"),
        ("triage", "zh", "Triage"),
        ("human:support", "zh", "客服"),
        ("queue:billing", "en", "Accounts"),
        ("human:ann", "en", "ann"),
        ("ai:gone", "en", "gone"),
    ],
)
def test_a_ref_has_the_name_that_a_customer_reads(ref: str, language: str, name: str) -> None:
    """Agents, queues and persons are named in the customer's language, else in the desk's first one."""
    assert roster().display_name(ref, language) == name


def test_an_announcement_names_the_new_owner_in_the_customers_language() -> None:
    """{name} and declared variables are filled in; the default sentence exists in both languages."""
    desk = roster()
    assert desk.announcement("billing", "en") == "You're now talking to Billing."
    assert desk.announcement("human:support", "zh") == "现在由客服为您服务。"
    own = roster(announce="{name} of {shop_name} {is} here")
    assert own.announcement("ai:billing", "en") == "Billing of Luma {is} here"


def test_only_declared_names_are_filled_in_and_values_are_not_filled_again() -> None:
    """A literal brace is just text, and a variable's value cannot smuggle in another variable."""
    assert fill("{shop} {other} {", {"shop": "{shop}"}) == "{shop} {other} {"
    assert fill("{a} {{a}}", {"a": "1"}) == "1 {1}"
    assert fill("{a}", {}) == "{a}"


def test_after_an_error_an_agents_own_owner_wins_then_the_desks_then_the_first_queue() -> None:
    """on_error has a defined answer for every agent, also for one that is gone."""
    desk = roster()
    assert desk.on_error("billing") == "human:billing"
    assert desk.on_error("triage") == "human:support"
    assert roster(on_error="billing").on_error("triage") == "billing"
    assert roster(queues={}).on_error("gone") == "triage"


def test_a_gone_agent_has_a_successor() -> None:
    """Successors are followed; a circle, an unknown one or none ends at the start agent."""
    desk = roster(successors={"sales": "orders", "orders": "billing", "a": "b", "b": "a", "x": "nobody"})
    assert desk.successor("sales") == "billing"
    assert desk.successor("a") == desk.successor("x") == desk.successor("unknown") == "triage"
    assert desk.successor("billing") == "billing"


def test_intended_use_is_one_line() -> None:
    """Targets are listed one per line in a tool description, so line ends inside would break it."""
    assert roster().intended_use("billing", "en") == "Payments and invoices."
    assert "person" in roster().intended_use("human:support")
    assert roster().intended_use("human:nobody") == ""


@pytest.mark.parametrize(
    ("contract", "value", "why"),
    [
        ({"type": "string", "pattern": "A-[0-9]{5}"}, "A-10023", None),
        ({"type": "string", "pattern": "A-[0-9]{5}"}, "A-10023 or so", "matches"),
        ({"type": "string", "max_length": 3}, "four", "at most 3"),
        ({"type": "integer"}, True, "expected integer, got bool"),
        ({"type": "integer"}, "5", "expected integer, got str"),
        ({"type": "number"}, 5, None),
        ({"type": "boolean"}, False, None),
        ({"type": "string", "allowed": ["gold", "silver"]}, "bronze", "one of gold, silver"),
        ({"type": "list"}, [1], None),
    ],
)
def test_a_contract_says_why_a_value_does_not_fit(contract: dict[str, Any], value: object, why: str | None) -> None:
    """None when it fits; else a sentence with what came and what is allowed."""
    said = ValueContract(**contract).why_not(value)
    assert said is None if why is None else said is not None and why in said


def test_hours_know_days_ranges_and_time_zones() -> None:
    """A queue is open inside its ranges, in its own time zone, and closed on days that are not named."""
    hours = Hours.model_validate(
        {"timezone": "UTC", "open": {"mon-fri": "09:00-12:00, 13:00-18:00", "sun-mon": "22:00-24:00"}}
    )
    monday = datetime(2026, 11, 30, tzinfo=UTC)
    assert hours.is_open(monday.replace(hour=9))
    assert not hours.is_open(monday.replace(hour=12, minute=30))
    assert not hours.is_open(monday.replace(hour=18))
    assert hours.is_open(monday.replace(hour=23, minute=59))
    assert not hours.is_open(datetime(2026, 12, 5, 10, tzinfo=UTC))
    assert Hours.model_validate("always").is_open(monday)
    assert QueueSpec(name="x").is_open(monday)


@pytest.mark.parametrize(
    "hours",
    [
        "sometimes",
        {"open": {}},
        {"open": {"monday": "9:00-10:00"}},
        {"open": {"mon": "18:00-09:00"}},
        {"open": {"mon": "9-5"}},
    ],
)
def test_unreadable_hours_are_refused(hours: object) -> None:
    """A queue that would silently never open is an error at loading."""
    with pytest.raises(ValidationError):
        Hours.model_validate(hours)


def test_the_models_are_frozen_and_refuse_unknown_fields() -> None:
    """A running turn cannot change a roster, and a typing error is never ignored."""
    agent = AgentSpec(id="billing", intended_use="Payments.")
    with pytest.raises(ValidationError):
        agent.model = "other"
    with pytest.raises(ValidationError):
        AgentSpec.model_validate({"id": "billing", "intended_use": "x", "transfer_too": []})
