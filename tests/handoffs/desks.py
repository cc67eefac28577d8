"""A small desk for router tests: rosters in memory, scripted models, everything else real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents import Model, ModelProvider, ModelSettings
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from handoffs.roster import AgentSpec, DeskSpec, Roster
from handoffs.router import Router
from handoffs.team import Team
from sessions.live import Live
from sessions.store import Store


class Scripts(ModelProvider):
    """One model per agent, by agent id."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self.models = models

    def get_model(self, model_name: str | None) -> Model:
        return self.models[str(model_name)]


@dataclass
class ScriptedModels:
    """`handoffs.team.Models` whose models are scripted; an agent without a script must not be asked."""

    models: Mapping[str, Model]
    settings: ModelSettings = field(default_factory=ModelSettings)

    @property
    def provider(self) -> ModelProvider:
        return Scripts(self.models)

    def name_for(self, agent: AgentSpec) -> str:
        return agent.id


def agent(id_: str, **settings: Any) -> AgentSpec:
    """An agent with plain instructions."""
    settings.setdefault("intended_use", f"Everything about {id_}.")
    return AgentSpec(id=id_, instructions=f"You are {id_}.", **settings)


def roster(*agents: AgentSpec, **desk: Any) -> Roster:
    """A desk whose first agent starts; one queue `support`; English and Chinese."""
    settings = {
        "name": "Test desk",
        "start": agents[0].id,
        "languages": ("en", "zh"),
        "queues": {"support": {"name": {"en": "Support team", "zh": "客服团队"}}},
        **desk,
    }
    return Roster(desk=DeskSpec.model_validate(settings), agents={spec.id: spec for spec in agents}, version="test")


def shop(**desk: Any) -> Roster:
    """triage -> billing, orders, people; both may go back."""
    return roster(
        agent("triage", transfer_to=("billing", "orders", "human:support")),
        agent(
            "billing",
            name={"en": "Billing", "zh": "账单"},
            transfer_to=("orders", "human:support"),
            returns_to="triage",
        ),
        agent("orders", name="Orders", transfer_to=("billing", "human:support"), returns_to="triage"),
        **desk,
    )


_calls = iter(range(1, 1_000_000))


def transfer(to: str, *, reason: str = "", **brief: Any) -> Any:
    """A call of transfer_to_agent, as a model makes it."""
    arguments = {"agent_id": to, "reason": reason, "brief": brief}
    return function_call("transfer_to_agent", arguments, call_id=f"call_{next(_calls)}")


def says(text: str) -> Any:
    """A message of a model."""
    return assistant_message(text, item_id=f"msg_{next(_calls)}")


def script(*steps: list[Any] | Exception | ModelStep) -> ScriptedModel:
    """A model that gives these outputs, one per call."""
    return ScriptedModel(list(steps))


def router_for(
    store: Store,
    live: Live,
    roster_: Roster,
    models: Mapping[str, Model],
    data_dir: Path,
    *,
    works: bool = True,
    sweep_s: float = 0.2,
) -> Router:
    """A router that is ready but not started: it answers what it receives, and sweeps only after `start`."""
    team = Team.load(roster_, ScriptedModels(models), data_dir=data_dir)
    return Router(store, live, team, works=works, sweep_s=sweep_s)
