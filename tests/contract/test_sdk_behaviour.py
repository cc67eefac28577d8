"""What openai-agents does in a run, where our code relies on it. An upgrade that changes one of these fails here.

Agents and sessions are pinned in test_sdk_parts.py, tools in test_sdk_tools.py, approvals in test_sdk_approvals.py.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
from importlib.metadata import version
from typing import Any

import pytest
from agents import (
    Agent,
    MaxTurnsExceeded,
    Model,
    ModelBehaviorError,
    ModelProvider,
    ModelResponse,
    ModelRetrySettings,
    ModelSettings,
    ModelTracing,
    RunConfig,
    Runner,
    Usage,
    UserError,
    function_tool,
)
from agents.exceptions import AgentsException
from agents.models.default_models import get_default_model
from agents.retry import ModelRetryAdvice, RetryDecision
from agents.testing import ModelStep
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent

from tests.contract.sdk import Counting, calls, model, one, relied_on_by, run, says


@function_tool
def look() -> str:
    """Look something up."""
    return "found"


def test_the_version_is_the_one_that_was_pinned() -> None:
    """After an upgrade, first read what the other tests of this kind say, then change this line."""
    assert version("openai-agents").startswith("0.24."), "a new version of openai-agents: run tests/contract/test_sdk_*"


# --- models ---------------------------------------------------------------------------------------------------------


@relied_on_by("handoffs/run.py", "handoffs/shown_model.py")
async def test_the_runner_asks_once_for_each_model_call_and_never_for_a_stream() -> None:
    """Runner.run calls get_response, once per step: ShownModel streams inside of it."""
    counting = Counting([calls("look")], [says("done")])

    await run(one(counting, look))

    assert (counting.responses, counting.streams, counting.cleaned) == (2, 0, 1)


@relied_on_by("handoffs/shown_model.py")
async def test_the_first_arguments_of_a_model_are_instructions_input_and_settings() -> None:
    """ShownModel names three parameters and hands the rest on."""
    names = list(inspect.signature(Model.get_response).parameters)
    counting = Counting([says("done")])

    await run(one(counting, instructions="Be good."))

    assert names[1:4] == ["system_instructions", "input", "model_settings"]
    assert counting.first[0] == "Be good."
    assert isinstance(counting.first[2], ModelSettings)


@relied_on_by("handoffs/run.py")
async def test_input_items_reach_the_model_as_they_were_given() -> None:
    """`since` finds the question again in what the model read, by equality; nothing is added, dropped or reordered."""
    items = [
        {"role": "user", "content": "一"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
        {"role": "user", "content": '<handoff-note id="x">\n...</handoff-note>'},
        {"role": "user", "content": "two"},
        {"role": "user", "content": "two"},
    ]
    counting = Counting([says("done")])

    await run(one(counting), items)

    assert counting.first[1] == items


@relied_on_by("handoffs/run.py")
async def test_model_of_the_run_config_is_used_instead_of_the_agents() -> None:
    """ShownModel is put over the owner's model by RunConfig(model=...)."""
    inner, outer = Counting(), Counting([says("outer")])

    await run(one(inner), model=outer)

    assert (inner.responses, outer.responses) == (0, 1)


@relied_on_by("handoffs/run.py")
async def test_a_run_config_may_be_copied_and_given_another_model() -> None:
    """Each run copies the team's configuration (copy.copy) and sets its own model; the team's stays as it is."""
    shared = RunConfig(tracing_disabled=True)
    mine = copy.copy(shared)
    mine.model = Counting([says("mine")])

    result = await Runner.run(one(Counting()), "hello", run_config=mine)

    assert (result.final_output, shared.model) == ("mine", None)


@relied_on_by("handoffs/recorder.py")
async def test_the_usage_of_a_call_has_these_numbers() -> None:
    """Run records keep input, output, cached and reasoning tokens of each call."""
    usage = Usage(requests=1, input_tokens=5, output_tokens=3, total_tokens=8)

    assert (usage.input_tokens, usage.output_tokens) == (5, 3)
    assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (0, 0)


@relied_on_by("handoffs/run.py")
async def test_model_names_are_asked_of_the_provider_of_the_run_config() -> None:
    """`model_of` chooses like the Runner: a Model object as it is, a name (or None) by the provider."""
    asked: list[str | None] = []

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Model:
            asked.append(model_name)
            return model([says("done")])

    await run(Agent(name="one", model="by-name"), model_provider=Provider())
    await run(Agent(name="one"), model_provider=Provider())

    assert asked == ["by-name", None]


@relied_on_by("handoffs/run.py", "handoffs/lone_transfer.py")
async def test_an_exception_of_ours_from_a_model_comes_out_unwrapped() -> None:
    """RunOver, StaleOwner and ModelCallFailed go through the Runner as they are, and the second has no run_data."""

    class Ours(Exception):
        pass

    with pytest.raises(Ours) as raised:
        await run(one(model([calls("look")], Ours("now")), look))

    assert getattr(raised.value, "run_data", None) is None


@relied_on_by("handoffs/run.py")
async def test_an_sdk_exception_carries_what_the_run_had_made() -> None:
    """`made_before` keeps finished calls of a failed run: AgentsException.run_data.new_items."""
    with pytest.raises(AgentsException) as raised:
        await run(one(model([calls("look")], ModelBehaviorError("nonsense")), look))

    assert raised.value.run_data is not None
    made = [item.to_input_item() for item in raised.value.run_data.new_items]
    assert [item["type"] for item in made] == ["function_call", "function_call_output"]


@relied_on_by("handoffs/run.py", "handoffs/turn.py")
async def test_max_turns_counts_model_calls() -> None:
    """`limits.model_calls` is max_turns: exactly so many calls are made, then MaxTurnsExceeded."""
    counting = Counting(*[[calls("look")] for _ in range(5)])

    with pytest.raises(MaxTurnsExceeded) as raised:
        await run(one(counting, look), turns=3)

    assert counting.responses == 3
    assert raised.value.run_data is not None and len(raised.value.run_data.new_items) == 6


@relied_on_by("handoffs/run.py")
async def test_cancelling_the_task_of_a_run_cancels_the_model_call() -> None:
    """`stop` cancels the task: the call in flight is cancelled, CancelledError comes out, nothing runs on."""
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_: Any) -> Any:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    before = asyncio.all_tasks()
    task = asyncio.create_task(run(one(model(ModelStep.respond(hang)))))
    await reached.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()
    assert asyncio.all_tasks() == before


@relied_on_by("handoffs/run.py")
async def test_a_time_limit_around_a_run_is_a_timeout_error() -> None:
    """`limits.seconds` is an asyncio.timeout around Runner.run."""

    async def hang(_: Any) -> Any:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run(one(model(ModelStep.respond(hang))))


@relied_on_by("app/models.py", "handoffs/shown_model.py")
async def test_retries_ask_the_same_model_again_with_the_same_input() -> None:
    """ModelSettings.retry makes the Runner call get_response again; the input is not doubled."""
    counting = Counting(RuntimeError("down"), RuntimeError("down"), [says("back")])

    def policy(_: Any) -> RetryDecision:
        return RetryDecision(retry=True, delay=0.0)

    settings = ModelSettings(retry=ModelRetrySettings(max_retries=2, policy=policy))
    result = await run(one(counting, model_settings=settings), [{"role": "user", "content": "hello"}])

    assert counting.responses == 3
    assert counting.first[1] == [{"role": "user", "content": "hello"}]
    assert result.final_output == "back"


@relied_on_by("handoffs/shown_model.py")
async def test_a_model_may_forbid_a_retry() -> None:
    """ShownModel advises against a second try once the customer has read a part: the policy is overruled."""
    counting = Counting(RuntimeError("down"), [says("again")])
    counting.advice = ModelRetryAdvice(suggested=False, replay_safety="unsafe", response_started=True, reason="shown")

    def policy(_: Any) -> RetryDecision:
        return RetryDecision(retry=True, delay=0.0)

    settings = ModelSettings(retry=ModelRetrySettings(max_retries=2, policy=policy))
    with pytest.raises(RuntimeError, match="down"):
        await run(one(counting, model_settings=settings))

    assert counting.responses == 1


@relied_on_by("handoffs/shown_model.py")
async def test_a_model_response_is_output_usage_and_ids() -> None:
    """ShownModel makes one from a stream; these are all of its fields, and the usage is added up in the result."""

    class Twice(Counting):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            response = await super().get_response(*args, **kwargs)
            usage = Usage(requests=1, input_tokens=10, output_tokens=2, total_tokens=12)
            return ModelResponse(output=response.output, usage=usage, response_id="r", request_id="q")

    result = await run(one(Twice([calls("look")], [says("done")]), look))

    assert {"output", "usage", "response_id", "request_id"} <= {f.name for f in dataclasses.fields(ModelResponse)}
    assert (result.context_wrapper.usage.requests, result.context_wrapper.usage.total_tokens) == (2, 24)


@relied_on_by("handoffs/shown_model.py")
async def test_a_stream_is_deltas_and_one_completed_event_with_the_whole_output() -> None:
    """What every model of the SDK streams: `response.output_text.delta` (item_id, delta), `response.completed`."""
    events = [
        event
        async for event in model([says("Hello")]).stream_response(
            None,
            "hi",
            ModelSettings(),
            [],
            None,
            [],
            ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
    ]

    deltas = [event for event in events if isinstance(event, ResponseTextDeltaEvent)]
    done = [event for event in events if isinstance(event, ResponseCompletedEvent)]
    assert "".join(event.delta for event in deltas) == "Hello"
    assert len(done) == 1 and done[0].type == "response.completed"
    assert deltas[0].type == "response.output_text.delta" and deltas[0].item_id == done[0].response.output[0].id


@relied_on_by("handoffs/run.py")
async def test_a_streamed_run_that_is_cancelled_at_once_keeps_nothing_of_the_turn() -> None:
    """`cancel("immediate")` ends a streamed run: the reply in the making is in no item. We cancel the task instead."""
    hold = asyncio.Event()

    async def hang(_: Any) -> Any:
        await hold.wait()

    result = Runner.run_streamed(
        one(model(ModelStep.respond(hang))), "hello", run_config=RunConfig(tracing_disabled=True)
    )
    result.cancel("immediate")
    async with asyncio.timeout(5):
        events = [event async for event in result.stream_events()]

    assert result.new_items == []
    assert [event for event in events if event.type == "run_item_stream_event"] == []


@relied_on_by("app/models.py")
def test_the_default_model_has_a_name() -> None:
    """With a key and no FRONTDESK_MODEL, the SDK's own default is asked for."""
    assert isinstance(get_default_model(), str) and get_default_model()


async def test_a_failing_test_of_this_kind_names_our_modules() -> None:
    """The note of `relied_on_by` is on the exception that pytest shows."""

    @relied_on_by("handoffs/run.py")
    async def changed() -> None:
        raise UserError("different")

    with pytest.raises(UserError) as raised:
        await changed()
    assert "These modules rely on it: handoffs/run.py" in str(raised.value.__notes__)
