"""Helpers for the tests that pin what openai-agents does where our code relies on it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from agents import Agent, Model, ModelResponse, RunConfig, Runner, RunResult
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from agents.testing import ScriptedModel, assistant_message, function_call

ROOT = Path(__file__).parents[2]
F = TypeVar("F", bound=Callable[..., Any])
_numbers = iter(range(1, 1_000_000))


def relied_on_by(*modules: str) -> Callable[[F], F]:
    """Mark a test; when it fails, the failure says which of our modules has to be looked at."""
    for module in modules:
        assert (ROOT / module).is_file(), f"{module} is gone: say which module relies on this now"

    def mark(test: F) -> F:
        @functools.wraps(test)
        async def run(*args: Any, **kwargs: Any) -> None:
            try:
                done = test(*args, **kwargs)
                if inspect.isawaitable(done):
                    await done
            except BaseException as failure:
                failure.add_note(
                    f"openai-agents {version('openai-agents')} is not as 0.24.0 was here. These modules rely on it: "
                    f"{', '.join(modules)}. Read what the test pins, change them, then change the test."
                )
                raise

        return run  # type: ignore[return-value]

    return mark


def says(text: str) -> Any:
    return assistant_message(text, item_id=f"msg_{next(_numbers)}")


def calls(name: str, call_id: str = "", **arguments: Any) -> Any:
    return function_call(name, arguments, call_id=call_id or f"call_{next(_numbers)}")


def model(*steps: Any) -> ScriptedModel:
    """A model that gives these outputs, one per call; a step may be an exception."""
    return ScriptedModel(list(steps))


class Counting(Model):
    """Gives its steps to get_response; counts what the Runner calls."""

    def __init__(self, *steps: Any) -> None:
        self.inner = ScriptedModel(list(steps))
        self.responses = 0
        self.streams = 0
        self.cleaned = 0
        self.first: tuple[Any, ...] = ()
        self.advice: ModelRetryAdvice | None = None

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        self.responses += 1
        names = list(inspect.signature(Model.get_response).parameters)[1:]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        self.first = tuple(given[name] for name in names[:3])
        return await self.inner.get_response(*args, **kwargs)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.streams += 1
        return self.inner.stream_response(*args, **kwargs)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        return self.advice

    async def _cleanup_on_run_end(self, owner: object) -> None:
        self.cleaned += 1


async def run(
    agent: Agent[Any], text: Any = "hello", *, context: Any = None, turns: int = 8, **config: Any
) -> RunResult:
    """One run as handoffs/run.py makes it."""
    config.setdefault("tracing_disabled", True)
    return await Runner.run(agent, text, context=context, max_turns=turns, run_config=RunConfig(**config))


def one(model_: Model, *tools: Any, **more: Any) -> Agent[Any]:
    return Agent(name="one", model=model_, tools=list(tools), **more)
