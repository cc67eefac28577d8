"""The choice of models: decided by settings alone, contradictions refused, and no secret shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
from agents.retry import ModelRetryNormalizedError, RetryDecision, RetryPolicyContext
from agents.tracing import get_trace_provider
from agents.tracing.provider import DefaultTraceProvider

from app.errors import ModelMisconfigured
from app.models import HostedModel, ModelChoice, choose_models, retry_decision, uses_responses, wants_offline
from app.offline.encoder import SentenceEncoder
from app.settings import Settings, load_settings, variable_of
from handoffs.roster import AgentSpec, DeskSpec, Roster

KEY = "sk-very-secret"
SERVER = "http://user:hunter2@localhost:11434/v1"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting comes from the machine that runs the tests."""
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)
    monkeypatch.delenv("OPENAI_DEFAULT_MODEL", raising=False)
    yield


def roster(**models: str) -> Roster:
    agents = {
        agent_id: AgentSpec.model_validate({"id": agent_id, "intended_use": f"About {agent_id}.", "model": model})
        for agent_id, model in {"triage": "default", **models}.items()
    }
    return Roster(desk=DeskSpec(name="Shop", start="triage"), agents=agents, folder=Path())


def settings(**values: Any) -> Settings:
    return load_settings(env_file=None, **values)


def choose(desk: Roster | None = None, **values: Any) -> ModelChoice:
    return choose_models(settings(**values), desk or roster(), SentenceEncoder)


@pytest.mark.parametrize(
    ("values", "offline"),
    [
        ({}, True),
        ({"model": "offline", "openai_api_key": KEY}, True),
        ({"openai_api_key": KEY}, False),
        ({"openai_base_url": SERVER}, False),
        ({"model": "gpt-x"}, False),
    ],
)
def test_auto_is_offline_unless_a_key_or_a_server_is_set(values: dict[str, Any], offline: bool) -> None:
    """Nothing is sent anywhere until somebody configured where."""
    assert wants_offline(settings(**values)) is offline


async def test_a_key_alone_means_openai_and_its_default_model() -> None:
    """OPENAI_API_KEY is all that OpenAI needs."""
    choice = choose(openai_api_key=KEY)
    model = choice.provider.get_model(choice.default_name)
    assert isinstance(model, HostedModel) and isinstance(model.inner, OpenAIResponsesModel)
    assert "OpenAI" in choice.description and "Responses API" in choice.description and not choice.offline
    await choice.provider.aclose()


async def test_a_server_of_ones_own_speaks_chat_completions_unless_told() -> None:
    """Ollama, vLLM and llama.cpp all know Chat Completions; Responses only when it was set."""
    choice = choose(openai_base_url=SERVER, model="llama3.1")
    model = choice.provider.get_model(None)
    assert isinstance(model, HostedModel) and isinstance(model.inner, OpenAIChatCompletionsModel)
    assert model.name == "llama3.1"
    assert uses_responses(settings(openai_base_url=SERVER, openai_api="responses"))
    await choice.provider.aclose()


@pytest.mark.parametrize(
    ("values", "say"),
    [
        ({"model": "openai"}, "needs OPENAI_API_KEY"),
        ({"model": "gpt-x"}, "FRONTDESK_MODEL=gpt-x needs OPENAI_API_KEY"),
        ({"openai_base_url": SERVER}, "say which model"),
    ],
)
def test_a_contradiction_is_refused_with_the_variable_to_set(values: dict[str, Any], say: str) -> None:
    """A model that cannot be reached is an error at start-up, not at the first customer."""
    with pytest.raises(ModelMisconfigured, match=say):
        choose(**values)


async def test_each_agent_may_have_its_own_model() -> None:
    """`model:` in an agent file wins over FRONTDESK_MODEL for that agent, `offline` included."""
    desk = roster(billing="big-model", orders="offline")
    choice = choose(desk, openai_base_url=SERVER, model="small-model")
    names = [choice.name_for(agent) for agent in desk.agents.values()]
    assert names == ["small-model", "big-model", "offline/orders"]
    assert isinstance(choice.provider.get_model("big-model"), HostedModel)
    assert not isinstance(choice.provider.get_model("offline/orders"), HostedModel)
    assert "big-model" in choice.description
    await choice.provider.aclose()


def test_offline_says_that_it_is_and_which_wishes_it_ignores() -> None:
    """Nobody mistakes the offline model for a large one, and a `model:` that is not used is told."""
    choice = choose(roster(billing="big-model"))
    assert choice.offline and "offline" in choice.description
    assert [warning for warning in choice.warnings if "billing" in warning]
    assert choice.name_for(roster(billing="big-model")["billing"]) == "offline/billing"


async def test_no_description_holds_a_secret() -> None:
    """Banner, desk page and logs may show everything about the choice."""
    choice = choose(openai_base_url=SERVER, openai_api_key=KEY, model="m")
    for shown in (repr(choice), choice.description, repr(choice.provider), repr(choice.provider.get_model("m"))):
        assert KEY not in shown and "hunter2" not in shown
    await choice.provider.aclose()


def test_tracing_is_off_and_has_no_exporter() -> None:
    """A choice of models turns the SDK's upload of prompts off for the process, and nobody is there to do it."""
    choose()
    provider = get_trace_provider()
    assert isinstance(provider, DefaultTraceProvider)
    assert provider._multi_processor._processors == ()  # the SDK has no public way to ask
    assert provider.create_trace("turn").export() is None


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ModelRetryNormalizedError(status_code=429, retry_after=2.0), True),
        (ModelRetryNormalizedError(status_code=429, retry_after=60.0), False),
        (ModelRetryNormalizedError(status_code=429), True),
        (ModelRetryNormalizedError(status_code=503), True),
        (ModelRetryNormalizedError(is_network_error=True), True),
        (ModelRetryNormalizedError(is_network_error=True, is_timeout=True), False),
        (ModelRetryNormalizedError(status_code=401), False),
        (ModelRetryNormalizedError(status_code=400), False),
        (ModelRetryNormalizedError(), False),
    ],
)
def test_what_is_tried_again(error: ModelRetryNormalizedError, again: bool) -> None:
    """Passing troubles are tried again, within what a customer waits; mistakes and time-outs are not."""
    context = RetryPolicyContext(
        error=Exception(), attempt=1, max_retries=2, stream=True, normalized=error, provider_advice=None
    )
    decision = retry_decision(context)
    assert (decision.retry if isinstance(decision, RetryDecision) else decision) is again
    if isinstance(decision, RetryDecision):
        assert decision.delay == error.retry_after
