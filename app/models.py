"""Which model answers: OpenAI, any OpenAI-compatible server, or the built-in offline model. One decision at start-up.

Also here: what a failed model call looks like to the rest of Frontdesk (`ModelCallFailed`), when it is tried again, and
that the SDK's tracing never leaves the machine.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

import httpx2
import openai
from agents import (
    Model,
    ModelProvider,
    ModelRetrySettings,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    set_trace_provider,
)
from agents.exceptions import AgentsException
from agents.items import ModelResponse, TResponseStreamEvent
from agents.models.default_models import get_default_model
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest, RetryDecision, RetryPolicyContext
from agents.tracing.provider import DefaultTraceProvider
from openai.types.responses import Response
from pydantic import SecretStr

from app.errors import ModelMisconfigured
from app.settings import Settings
from handoffs.encoder import Encoder
from handoffs.roster import AgentSpec, Roster
from sessions.errors import FrontdeskError

OFFLINE = "offline"
DEFAULT = "default"  # what an agent file says when it has no wish of its own
NO_KEY = "no-key"  # servers without keys still get an Authorization header: the openai client insists on one
CONNECT_TIMEOUT_S = 5.0  # a server that does not even accept the connection by then is down
LONGEST_RETRY_WAIT_S = 20.0  # a customer waits meanwhile; a server that asks for more counts as down
RETRIED_STATUS = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
MAX_DETAIL_CHARS = 300  # of a server's own words in our error


class ModelCallFailed(FrontdeskError):
    """A call to a hosted model failed for good. `kind` is one of the keys of SENTENCES.

    `status_code` and `headers` (only retry-after) are where the SDK's retry machinery looks for them.
    """

    def __init__(
        self, kind: str, model: str, *, detail: str = "", status_code: int | None = None, retry_after: str | None = None
    ) -> None:
        super().__init__(f"model {model}: {SENTENCES[kind]}" + (f" ({detail})" if detail else ""))
        self.kind = kind
        self.model = model
        self.status_code = status_code
        self.headers = {"retry-after": retry_after} if retry_after else {}


SENTENCES: Mapping[str, str] = {
    "key": "the server refused the key; check OPENAI_API_KEY",
    "unknown_model": "the server has no such model or address; check FRONTDESK_MODEL and OPENAI_BASE_URL",
    "rate_limited": "the server says too many requests",
    "refused": "the server refused the request",
    "unavailable": "the server failed",
    "unreachable": "the server cannot be reached",
    "timeout": "the server did not answer in time",
    "cut": "the answer broke off before its end",
    "garbage": "the server sent something that is not an answer",
    "empty": "the server sent an empty answer",
}


@runtime_checkable
class Warmable(Protocol):
    """A provider that can load ahead of time."""

    def warm(self) -> None: ...


@dataclass(frozen=True)
class ModelChoice:
    """The models of this process. `description` is a line for people; `settings` go into each run's RunConfig."""

    provider: ModelProvider
    default_name: str
    description: str
    offline: bool
    settings: ModelSettings
    warnings: tuple[str, ...] = ()

    def name_for(self, agent: AgentSpec) -> str:
        """The model name to ask the provider for when this agent runs."""
        if self.offline or agent.model == OFFLINE:
            return f"{OFFLINE}/{agent.id}"
        return self.default_name if agent.model == DEFAULT else agent.model

    def warm(self) -> None:
        """Load now what the first conversation would have to wait for (about 2 s, CPU-bound: call it in a thread)."""
        if isinstance(self.provider, Warmable):
            self.provider.warm()


def choose_models(settings: Settings, roster: Roster, encoder_factory: Callable[[], Encoder]) -> ModelChoice:
    """Decide by settings which models answer; ModelMisconfigured when they contradict each other.

    The offline model (and with it the encoder) is only loaded when something needs it.
    """
    keep_tracing_local()

    def offline_provider() -> ModelProvider:
        from app.offline.provider import OfflineProvider  # loads numpy and weights: only when it is used

        return OfflineProvider(roster, encoder_factory())

    if wants_offline(settings):
        return _offline_choice(settings, roster, offline_provider)
    return _hosted_choice(settings, roster, offline_provider)


def wants_offline(settings: Settings) -> bool:
    """Whether these settings mean the built-in offline model for every agent."""
    reachable = settings.openai_api_key is not None or settings.openai_base_url is not None
    return settings.model == OFFLINE or (settings.model == "auto" and not reachable)


def _offline_choice(settings: Settings, roster: Roster, make: Callable[[], ModelProvider]) -> ModelChoice:
    why = "FRONTDESK_MODEL=offline" if settings.model == OFFLINE else "no OPENAI_API_KEY or OPENAI_BASE_URL is set"
    ignored = [a.id for a in roster.agents.values() if a.model not in (DEFAULT, OFFLINE)]
    warnings = (f"the model named in the files of {', '.join(ignored)} is not used: {why}",) if ignored else ()
    return ModelChoice(
        provider=make(),
        default_name=OFFLINE,
        description=f"built-in offline model ({why}); it routes by similarity and quotes the knowledge files",
        offline=True,
        settings=ModelSettings(timeout=settings.model_timeout_s),
        warnings=warnings,
    )


def _hosted_choice(settings: Settings, roster: Roster, make_offline: Callable[[], ModelProvider]) -> ModelChoice:
    name = _hosted_name(settings)
    provider = HostedProvider(settings, default_name=name, make_offline=make_offline)
    others = sorted({a.model for a in roster.agents.values()} - {DEFAULT, name})
    also = f"; some agents use {', '.join(others)}" if others else ""
    return ModelChoice(
        provider=provider,
        default_name=name,
        description=f"{name} at {_place(settings)} ({_api_words(settings)}){also}",
        offline=False,
        settings=_hosted_settings(settings),
    )


def _hosted_name(settings: Settings) -> str:
    if settings.openai_api_key is None and settings.openai_base_url is None:
        raise ModelMisconfigured(
            f"FRONTDESK_MODEL={settings.model} needs OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own; "
            "FRONTDESK_MODEL=offline needs neither"
        )
    if settings.model not in ("auto", "openai"):
        return settings.model
    if settings.openai_base_url is not None and settings.model == "auto":
        raise ModelMisconfigured(
            f"OPENAI_BASE_URL is set ({_place(settings)}), so say which model that server should run: "
            "FRONTDESK_MODEL=<name>, for example FRONTDESK_MODEL=llama3.1"
        )
    return get_default_model()


def uses_responses(settings: Settings) -> bool:
    """Responses API (True) or Chat Completions (False): what was set, else Responses only at OpenAI itself."""
    if settings.openai_api == "auto":
        return settings.openai_base_url is None
    return settings.openai_api == "responses"


def _api_words(settings: Settings) -> str:
    return "Responses API" if uses_responses(settings) else "Chat Completions API"


def _place(settings: Settings) -> str:
    """Where the model runs, without a password that the URL may hold."""
    if settings.openai_base_url is None:
        return "OpenAI"
    parts = urlsplit(settings.openai_base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _hosted_settings(settings: Settings) -> ModelSettings:
    retry = ModelRetrySettings(
        max_retries=settings.model_retries,
        backoff={"initial_delay": 0.5, "max_delay": 8.0, "multiplier": 2.0, "jitter": True},
        policy=retry_decision,
    )
    return ModelSettings(timeout=settings.model_timeout_s, retry=retry)


def retry_decision(context: RetryPolicyContext) -> bool | RetryDecision:
    """Try again after 429, 5xx and network errors, when the server asks for no more than a customer would wait.

    The SDK never asks once the customer has seen a part of the answer. A time-out is not tried again: the customer
    has waited the full time already.
    """
    error = context.normalized
    if error.is_timeout or not (error.is_network_error or error.status_code in RETRIED_STATUS):
        return False
    if error.retry_after is not None and error.retry_after > LONGEST_RETRY_WAIT_S:
        return False
    return RetryDecision(retry=True, delay=error.retry_after)


class HostedProvider(ModelProvider):
    """Models of one OpenAI-compatible server, by name; `offline` is the built-in one. Owns its HTTP client."""

    def __init__(self, settings: Settings, *, default_name: str, make_offline: Callable[[], ModelProvider]) -> None:
        key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else NO_KEY
        timeout = httpx2.Timeout(settings.model_timeout_s, connect=CONNECT_TIMEOUT_S)
        self._client = openai.AsyncOpenAI(
            api_key=key,
            base_url=settings.openai_base_url,
            timeout=timeout,
            max_retries=0,  # the SDK's Runner retries by `retry_decision`; two layers would multiply
        )
        self._secret = SecretStr(key)
        self._responses = uses_responses(settings)
        self._default_name = default_name
        self._make_offline = make_offline
        self._offline: ModelProvider | None = None
        self._models: dict[str, Model] = {}

    def get_model(self, model_name: str | None) -> Model:
        name = self._default_name if model_name in (None, DEFAULT) else str(model_name)
        if name not in self._models:
            self._models[name] = self._make(name)
        return self._models[name]

    def _make(self, name: str) -> Model:
        if name.partition("/")[0] == OFFLINE:
            self._offline = self._offline or self._make_offline()
            return self._offline.get_model(name)
        if self._responses:
            return HostedModel(name, OpenAIResponsesModel(name, self._client), secret=self._secret)
        # Small servers cut tool calls into pieces in ways of their own: wait for each call to be whole.
        chat = _CheckedChat(name, self._client, buffer_streamed_tool_calls=True)
        return HostedModel(name, chat, secret=self._secret)

    async def aclose(self) -> None:
        if self._offline is not None:
            await self._offline.aclose()
        await self._client.close()


class _CheckedChat(OpenAIChatCompletionsModel):
    """The SDK's Chat Completions model, which takes a stream that just stops for an answer unless OpenAI sent it."""

    async def _fetch_response(self, *args: Any, **kwargs: Any) -> Any:
        fetched = await super()._fetch_response(*args, **kwargs)
        if not isinstance(fetched, tuple):
            return fetched
        response, stream = fetched
        return response, _UntilFinished(stream, str(self.model))


class _UntilFinished:
    """A stream of chunks that must say why it ends (`finish_reason`). Everything else is the stream's own."""

    def __init__(self, stream: Any, model: str) -> None:
        self._stream = stream
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aiter__(self) -> AsyncIterator[Any]:
        finished = False
        async for chunk in self._stream:
            finished = finished or any(choice.finish_reason for choice in chunk.choices)
            yield chunk
        if not finished:
            raise ModelCallFailed("cut", self._model)


@dataclass(repr=False)
class HostedModel(Model):
    """One of the SDK's own models; whatever goes wrong in it becomes a `ModelCallFailed` that a person understands."""

    name: str
    inner: Model
    secret: SecretStr

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        try:
            response = await self.inner.get_response(*args, **kwargs)
        except Exception as error:
            raise explain_failure(error, self.name, self.secret) from None
        if not _says_something(response.output):
            raise ModelCallFailed("empty", self.name)
        return response

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        begun = False
        final: Response | None = None
        stream = self.inner.stream_response(*args, **kwargs)
        try:
            async for event in stream:
                begun = True
                if event.type == "response.completed":
                    final = event.response
                    if not _says_something(final.output):
                        raise ModelCallFailed("empty", self.name)
                yield event
        except Exception as error:
            raise explain_failure(error, self.name, self.secret, begun=begun) from None
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()
        if final is None:
            raise ModelCallFailed("cut", self.name)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self.inner.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.inner._cleanup_on_run_end(owner)

    async def close(self) -> None:
        await self.inner.close()


def _says_something(output: list[Any]) -> bool:
    """Whether an answer holds a tool call, a refusal or some visible text."""
    for item in output:
        if item.type not in ("message", "reasoning"):
            return True
        if item.type == "message" and any(getattr(p, "text", "") or getattr(p, "refusal", "") for p in item.content):
            return True
    return False


def explain_failure(error: Exception, model: str, secret: SecretStr, *, begun: bool = False) -> Exception:
    """The ModelCallFailed for what the openai client or the HTTP layer raised; the SDK's own errors stay as they are.

    `begun`: the answer had started to arrive, so a lost connection is a cut and not an absent server.
    """
    if isinstance(error, ModelCallFailed | AgentsException):
        return error
    detail = _detail(error, secret)
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        retry_after = error.response.headers.get("retry-after")
        return ModelCallFailed(_status_kind(status), model, detail=detail, status_code=status, retry_after=retry_after)
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException | TimeoutError):
        return ModelCallFailed("timeout", model)
    if isinstance(error, openai.APIConnectionError | httpx2.TransportError):
        return ModelCallFailed("cut" if begun else "unreachable", model, detail=detail)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | openai.APIResponseValidationError):
        return ModelCallFailed("garbage", model)
    if isinstance(error, openai.APIError):
        return ModelCallFailed("unavailable", model, detail=detail)
    return ModelCallFailed("garbage", model, detail=f"{type(error).__name__}: {detail}")


def _status_kind(status: int) -> str:
    kinds = {401: "key", 403: "key", 404: "unknown_model", 408: "timeout", 429: "rate_limited"}
    return kinds.get(status, "unavailable" if status >= 500 else "refused")


def _detail(error: Exception, secret: SecretStr) -> str:
    text = " ".join(str(error).split()).replace(secret.get_secret_value(), "***")
    return text[:MAX_DETAIL_CHARS]


def keep_tracing_local() -> None:
    """Turn the SDK's tracing off, without ever building its exporter (which starts a thread and sends prompts away)."""
    provider = DefaultTraceProvider()
    provider.set_disabled(True)
    set_trace_provider(provider)
