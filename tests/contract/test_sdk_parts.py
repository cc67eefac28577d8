"""What openai-agents does with agents, hooks, guardrails and sessions, where our code relies on it."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    ModelBehaviorError,
    ModelResponse,
    ModelSettings,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    Runner,
    Usage,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
    set_trace_provider,
)
from agents.memory import Session, SessionSettings
from agents.tracing.provider import DefaultTraceProvider
from pydantic import BaseModel

from handoffs.sdk_agents import id_of
from sessions.isolated import IsolatedSession
from sessions.model import Token
from sessions.store import Store
from tests.contract.sdk import Counting, calls, model, one, relied_on_by, run, says


@function_tool
def look() -> str:
    """Look something up."""
    return "found"


@relied_on_by("handoffs/team.py", "handoffs/sdk_clone.py")
async def test_instructions_are_asked_with_context_and_agent_before_each_model_call() -> None:
    """Values change in a run; the next model call reads the new ones."""
    seen: list[tuple[Any, str]] = []

    def instructions(ctx: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        seen.append((ctx.context, agent.name))
        return f"call {len(seen)}"

    scripted = model([calls("look")], [says("done")])
    context = {"a": object()}

    await run(one(scripted, look, instructions=instructions), context=context)

    assert [name for _, name in seen] == ["one", "one"]
    assert all(given is context for given, _ in seen)
    assert [call.system_instructions for call in scripted.calls] == ["call 1", "call 2"]


@relied_on_by("handoffs/team.py")
async def test_one_agent_object_serves_many_runs_at_once() -> None:
    """Team makes an agent once for each set of targets and shares it; each run keeps its own context."""

    @function_tool
    async def who(ctx: RunContextWrapper[Any]) -> str:
        """Who is it?"""
        await asyncio.sleep(0)
        return str(ctx.context)

    class Echo(Counting):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            given: Any = kwargs.get("input", args[1] if len(args) > 1 else None)
            outputs = [item["output"] for item in given if item.get("type") == "function_call_output"]
            step = [says(outputs[-1])] if outputs else [calls("who")]
            return ModelResponse(output=step, usage=Usage(requests=1), response_id=None)

    shared = one(Echo(), who)
    items = [[{"role": "user", "content": "?"}] for _ in range(20)]
    results = await asyncio.gather(*(run(shared, given, context=str(n)) for n, given in enumerate(items)))

    assert [result.final_output for result in results] == [str(n) for n in range(20)]


@relied_on_by("handoffs/sdk_clone.py")
async def test_tools_are_listed_by_the_agents_own_methods_before_each_model_call() -> None:
    """Our subclass of an agent's class changes get_all_tools and get_mcp_tools; both are asked each time."""
    asked: list[str] = []

    class Ours(Agent[Any]):
        async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Any]:
            asked.append("all")
            return [*await super().get_all_tools(run_context), look]

        async def get_mcp_tools(self, run_context: RunContextWrapper[Any]) -> list[Any]:
            asked.append("mcp")
            return await super().get_mcp_tools(run_context)

    scripted = model([calls("look")], [says("done")])
    await run(Ours(name="one", model=scripted))

    assert asked == ["all", "mcp", "all", "mcp"]
    assert [tool.name for tool in scripted.calls[0].tools] == ["look"]


@relied_on_by("handoffs/sdk_clone.py")
def test_an_agent_is_a_dataclass_whose_fields_make_an_equal_one() -> None:
    """A copy of an agent is made from its fields; a field that `__init__` does not take would be lost."""
    assert all(field.init for field in dataclasses.fields(Agent))
    settings = ModelSettings(temperature=0.5).resolve(ModelSettings(max_tokens=3))
    assert (settings.temperature, settings.max_tokens) == (0.5, 3)
    assert ModelSettings(temperature=0.5).resolve(ModelSettings(temperature=0.1)).temperature == 0.1


@relied_on_by("handoffs/sdk_handoffs.py")
async def test_a_handoff_object_knows_its_agent_and_checks_its_input() -> None:
    """_agent_ref, default description, on_invoke_handoff(ctx, json) -> agent, and an error for what does not fit."""

    class Why(BaseModel):
        level: int

    got: list[Any] = []
    two = Agent[Any](name="two", handoff_description="About two.")
    plain = handoff(two)
    typed = handoff(two, on_handoff=lambda ctx, why: got.append(why), input_type=Why)
    ctx = RunContextWrapper[Any](None)

    assert plain._agent_ref is not None and plain._agent_ref() is two
    assert plain.tool_description == plain.default_tool_description(two)
    assert not plain.input_json_schema.get("properties")
    assert list(typed.input_json_schema["properties"]) == ["level"]
    assert await plain.on_invoke_handoff(ctx, "") is two
    assert await typed.on_invoke_handoff(ctx, '{"level": 3}') is two and got == [Why(level=3)]
    with pytest.raises(ModelBehaviorError):
        await typed.on_invoke_handoff(ctx, '{"level": "high"}')


@relied_on_by("handoffs/sdk_agents.py")
async def test_chinese_names_collide_in_native_handoffs_which_is_why_ours_have_ids() -> None:
    """The SDK derives tool names from agent names; `账单` and `售后` both become `transfer_to___`."""
    names = {handoff(Agent(name=name)).tool_name for name in ("账单", "售后")}
    assert names == {"transfer_to___"}
    assert id_of("账单") != id_of("售后")


@relied_on_by("handoffs/sdk_clone.py", "handoffs/sdk_handoffs.py")
async def test_hooks_of_an_agent_are_called_by_position_and_in_this_order() -> None:
    """_Hooks hands on (context, *rest); the order is what observers read."""
    order: list[str] = []

    class Hooks(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            order.append("start")

        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            order.append("llm_start")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            order.append("llm_end")

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            order.append("tool_start")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            order.append("tool_end")

        async def on_end(self, context: Any, agent: Any, output: Any) -> None:
            order.append("end")

    await run(one(model([calls("look")], [says("done")]), look, hooks=Hooks()))

    assert order == ["start", "llm_start", "llm_end", "tool_start", "tool_end", "llm_start", "llm_end", "end"]


@relied_on_by("handoffs/sdk_clone.py", "handoffs/turn.py")
async def test_input_guardrails_run_once_in_a_run_and_a_tripwire_is_an_exception() -> None:
    """Each owner is a run of its own, so that each owner's guardrails see the message."""
    checked: list[str] = []

    @input_guardrail
    def guard(ctx: RunContextWrapper[Any], agent: Agent[Any], input: Any) -> GuardrailFunctionOutput:
        checked.append(agent.name)
        return GuardrailFunctionOutput(None, tripwire_triggered=False)

    @input_guardrail
    def stop(ctx: RunContextWrapper[Any], agent: Agent[Any], input: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=True)

    await run(one(model([calls("look")], [says("done")]), look, input_guardrails=[guard]))

    assert checked == ["one"]
    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(one(model([says("done")]), input_guardrails=[stop]))


@relied_on_by("handoffs/sdk_clone.py")
async def test_output_guardrails_also_see_an_output_that_tools_made() -> None:
    """A run that ends with a transfer has an output; our wrapper keeps guardrails from judging it."""
    seen: list[Any] = []

    @output_guardrail
    def guard(ctx: RunContextWrapper[Any], agent: Agent[Any], output: Any) -> GuardrailFunctionOutput:
        seen.append(output)
        return GuardrailFunctionOutput(None, tripwire_triggered=output == "found")

    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(one(model([calls("look")]), look, output_guardrails=[guard], tool_use_behavior="stop_on_first_tool"))
    assert seen == ["found"]


@relied_on_by("handoffs/sdk_source.py")
async def test_a_typed_output_is_an_object_in_the_result_and_json_in_the_message() -> None:
    """`say` gets the object; the history keeps the model's own JSON."""

    class Answer(BaseModel):
        text: str

    result = await run(one(model([says('{"text": "hi"}')]), output_type=Answer))

    assert result.final_output == Answer(text="hi")
    assert '{"text": "hi"}' in str(result.new_items[0].to_input_item())


# --- sessions and the rest ------------------------------------------------------------------------------------------


@relied_on_by("sessions/isolated.py")
async def test_our_session_is_one_of_the_sdks(store: Store) -> None:
    """handoffs.md 4: IsolatedSession implements the SDK's protocol, and the Runner works with it."""
    history = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "yes"}]
    session = IsolatedSession(store, "c_1", "one", Token(1, "f"), history)
    scripted = model([calls("look", "c1")], [says("done")])

    assert isinstance(session, Session)
    await Runner.run(one(scripted, look), "now", session=session, run_config=RunConfig(tracing_disabled=True))

    assert [item.get("content") for item in scripted.calls[0].input if isinstance(item, dict)] == [
        "earlier",
        "yes",
        "now",
    ]
    assert [item.get("type", item.get("role")) for item in session.new_items] == [
        "user",
        "function_call",
        "function_call_output",
        "message",
    ]


@relied_on_by("sessions/isolated.py")
async def test_an_empty_input_with_a_session_adds_nothing(store: Store) -> None:
    """After a transfer the next owner starts from its seed alone: input=[] is no message."""
    session = IsolatedSession(store, "c_1", "one", Token(1, "f"), [{"role": "user", "content": "the seed"}])
    scripted = model([says("done")])

    await Runner.run(one(scripted), [], session=session, run_config=RunConfig(tracing_disabled=True))

    assert scripted.calls[0].input == [{"role": "user", "content": "the seed"}]
    assert [item.get("role") for item in session.new_items] == ["assistant"]


@relied_on_by("sessions/isolated.py", "handoffs/run.py")
async def test_a_session_is_saved_in_pieces_which_is_why_the_router_does_not_hand_it_over() -> None:
    """The input before the first model call, calls with their results, then the answer: three writes, not one."""
    saves: list[list[str]] = []

    class Recording:
        session_id = "s"
        session_settings: SessionSettings | None = None

        async def get_items(self, limit: int | None = None) -> list[Any]:
            return []

        async def add_items(self, items: list[Any]) -> None:
            saves.append([str(item.get("type") or item.get("role")) for item in items])

        async def pop_item(self) -> Any:
            return None

        async def clear_session(self) -> None:
            return None

    scripted = model([calls("look")], [says("done")])
    await Runner.run(one(scripted, look), "hi", session=Recording(), run_config=RunConfig(tracing_disabled=True))

    assert saves == [["user"], ["function_call", "function_call_output"], ["message"]]


@relied_on_by("handoffs/context.py", "handoffs/tools.py")
async def test_the_context_object_is_passed_on_and_never_copied() -> None:
    """A tool writes the request into it, and the router reads it after the run."""
    context: dict[str, Any] = {}

    @function_tool
    def write(ctx: RunContextWrapper[Any]) -> str:
        """Write."""
        ctx.context["request"] = "billing"
        return "ok"

    result = await run(one(model([calls("write")], [says("done")]), write), context=context)

    assert context == {"request": "billing"}
    assert result.context_wrapper.context is context


@relied_on_by("app/models.py")
def test_tracing_that_is_switched_off_starts_no_thread() -> None:
    """`keep_tracing_local`: a disabled provider never builds the exporter."""
    before = threading.active_count()
    provider = DefaultTraceProvider()
    provider.set_disabled(True)
    set_trace_provider(provider)
    assert threading.active_count() == before


@relied_on_by("handoffs/team.py")
def test_the_run_config_takes_what_the_team_sets() -> None:
    """Fields by name; a wrong value of a policy is refused by the SDK itself."""
    names = {field.name for field in dataclasses.fields(RunConfig)}
    assert {
        "model",
        "model_provider",
        "tracing_disabled",
        "trace_include_sensitive_data",
        "workflow_name",
        "tool_not_found_behavior",
        "tool_name_collision_policy",
        "tool_error_formatter",
    } <= names
