"""What openai-agents does with tools, where our code relies on it. An upgrade that changes one of these fails here."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    FunctionToolResult,
    ModelBehaviorError,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    StopAtTools,
    ToolErrorFormatterArgs,
    ToolsToFinalOutputResult,
    UserError,
    function_tool,
    handoff,
)
from agents.tool_context import ToolContext

from tests.contract.sdk import calls, model, one, relied_on_by, run, says


@function_tool
def look() -> str:
    """Look something up."""
    return "found"


@function_tool
def broken() -> str:
    """Fail."""
    raise RuntimeError("secret-path")


def by_hand(name: str, invoke: Any) -> FunctionTool:
    """A tool as handoffs/tools.py makes them: without the SDK's own error text."""
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    return FunctionTool(name=name, description="", params_json_schema=schema, on_invoke_tool=invoke)


def outputs(result_input: Any) -> list[str]:
    return [str(item["output"]) for item in result_input if item.get("type") == "function_call_output"]


# --- how a run ends -------------------------------------------------------------------------------------------------


@relied_on_by("handoffs/tools.py", "handoffs/sdk_clone.py")
async def test_a_callable_tool_use_behavior_is_asked_once_a_response_with_all_results() -> None:
    """`end_on_request` gets the context and every result, after all calls of the response have run."""
    asked: list[tuple[Any, list[str]]] = []

    def behaviour(ctx: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        asked.append((ctx.context, [f"{result.tool.name}={result.output}" for result in results]))
        return ToolsToFinalOutputResult(is_final_output=len(asked) == 2, final_output="over")

    @function_tool
    async def slow() -> str:
        """Slow."""
        await asyncio.sleep(0.02)
        return "slow"

    scripted = model([calls("slow"), calls("look")], [calls("look")], [says("never")])
    context = object()

    result = await run(one(scripted, slow, look, tool_use_behavior=behaviour), context=context)

    assert asked == [(context, ["slow=slow", "look=found"]), (context, ["look=found"])]
    assert result.final_output == "over" and len(scripted.calls) == 2


@relied_on_by("handoffs/tools.py")
async def test_a_callable_tool_use_behavior_is_not_asked_when_no_tool_was_called() -> None:
    """A plain answer never asks it."""

    def behaviour(ctx: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        raise AssertionError("asked")

    result = await run(one(model([says("done")]), look, tool_use_behavior=behaviour))

    assert result.final_output == "done"


@relied_on_by("handoffs/tools.py")
async def test_stop_at_tools_ends_on_a_tool_that_failed_which_is_why_we_do_not_use_it() -> None:
    """A refused or failed transfer would end the run; the callable asks whether one was recorded."""
    behaviour = StopAtTools(stop_at_tool_names=["broken"])
    scripted = model([calls("broken")], [says("never")])

    await run(one(scripted, broken, tool_use_behavior=behaviour))

    assert len(scripted.calls) == 1


@relied_on_by("handoffs/tools.py", "handoffs/lone_transfer.py")
async def test_all_calls_of_a_response_run_to_their_end_and_keep_their_order() -> None:
    """Two transfers in one response both execute: `record` lets the first win and refuses the others."""
    ran: list[str] = []

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        ran.append(ctx.tool_call_id)
        return ctx.tool_call_id

    scripted = model([calls("t", "c1"), calls("t", "c2"), calls("t", "c3")], [says("done")])

    result = await run(one(scripted, by_hand("t", invoke)))

    assert sorted(ran) == ["c1", "c2", "c3"]
    assert outputs([item.to_input_item() for item in result.new_items]) == ["c1", "c2", "c3"]


@relied_on_by("handoffs/tools.py")
async def test_calls_of_one_response_start_in_their_order() -> None:
    """ "First wins" means the first in the response: nothing before the first await of a tool is reordered."""
    started: list[str] = []

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        started.append(ctx.tool_call_id)
        await asyncio.sleep(0.01)
        return "ok"

    await run(one(model([calls("t", f"c{n}") for n in range(5)], [says("done")]), by_hand("t", invoke)))

    assert started == ["c0", "c1", "c2", "c3", "c4"]


# --- errors ---------------------------------------------------------------------------------------------------------


def formatter(seen: list[ToolErrorFormatterArgs[Any]]) -> Any:
    def explain(args: ToolErrorFormatterArgs[Any]) -> str | None:
        seen.append(args)
        return f"told about {args.kind}"

    return explain


@relied_on_by("handoffs/toolbox.py")
async def test_a_failing_function_tool_is_told_in_the_words_of_the_formatter() -> None:
    """`explain_tool_error` gets kind, tool name and the exception; its text goes to the model, and the run goes on."""
    seen: list[ToolErrorFormatterArgs[Any]] = []
    scripted = model([calls("broken")], [says("done")])

    await run(one(scripted, broken), tool_error_formatter=formatter(seen))

    assert [(args.kind, args.tool_name, str(args.error)) for args in seen] == [
        ("tool_exception", "broken", "secret-path")
    ]
    assert outputs(scripted.calls[1].input) == ["told about tool_exception"]


@relied_on_by("handoffs/toolbox.py")
async def test_arguments_that_do_not_fit_are_a_model_behavior_error_for_the_formatter() -> None:
    """Bad JSON and wrong types: the model is told and may call again; nobody's run ends."""
    seen: list[ToolErrorFormatterArgs[Any]] = []

    @function_tool
    def add(n: int) -> str:
        """Add."""
        return str(n)

    bad = calls("add")
    bad.arguments = "{not json"
    scripted = model([bad], [calls("add", n="many")], [says("done")])

    await run(one(scripted, add), tool_error_formatter=formatter(seen))

    assert [args.kind for args in seen] == ["tool_exception", "tool_exception"]
    assert all(isinstance(args.error, ModelBehaviorError) for args in seen)
    assert len(scripted.calls) == 3


@relied_on_by("handoffs/run.py", "handoffs/ledger.py")
async def test_an_exception_of_a_tool_made_by_hand_ends_the_run_with_its_cause() -> None:
    """A stale owner's tool must not go on: what the journal raises ends the run, and is the cause of what comes out."""

    class Stale(Exception):
        pass

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        raise Stale("somebody else owns")

    with pytest.raises(Exception) as raised:  # wrapped or not: the cause is what counts
        await run(one(model([calls("t")], [says("never")]), by_hand("t", invoke)))

    causes = [raised.value, raised.value.__cause__, raised.value.__context__]
    assert any(isinstance(cause, Stale) for cause in causes)


@relied_on_by("handoffs/team.py", "handoffs/sdk_handoffs.py")
async def test_a_tool_that_does_not_exist_is_told_to_the_model() -> None:
    """`tool_not_found_behavior="return_error_to_model"`: native `transfer_to_x` names and typos do not end a run."""
    scripted = model([calls("transfer_to_billing")], [says("done")])

    result = await run(one(scripted, look), tool_not_found_behavior="return_error_to_model")

    assert result.final_output == "done"
    assert "not found" in outputs(scripted.calls[1].input)[0]
    with pytest.raises(ModelBehaviorError):
        await run(one(model([calls("nothing")]), look))


@relied_on_by("handoffs/team.py")
async def test_two_tools_of_one_name_are_refused() -> None:
    """`tool_name_collision_policy="error"`: a tool of somebody's called transfer_to_agent never hides ours."""

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        return ""

    two = Agent[Any](name="look")
    clash = one(model([says("done")]), by_hand("transfer_to_look", invoke), handoffs=[handoff(two)])
    with pytest.raises(UserError):
        await run(clash, tool_name_collision_policy="error")


@relied_on_by("app/offline/model.py", "handoffs/ledger.py")
async def test_a_call_id_must_be_new_in_a_run() -> None:
    """The offline model numbers its calls; the journal does not use call ids, which differ when a turn runs again."""
    with pytest.raises(ModelBehaviorError):
        await run(one(model([calls("look", "same")], [calls("broken", "same")], [says("done")]), look, broken))


# --- copies of tools ------------------------------------------------------------------------------------------------


@relied_on_by("handoffs/tools.py", "handoffs/ledger.py", "handoffs/sdk_clone.py")
async def test_a_copy_of_a_tool_with_another_invocation_is_what_runs() -> None:
    """`with_invocation`: copy.copy and a new on_invoke_tool; the tool that was given stays as it is."""
    changed = copy.copy(look)

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        return "instead of " + str(await look.on_invoke_tool(ctx, arguments))

    changed.on_invoke_tool = invoke
    scripted = model([calls("look")], [says("done")])

    await run(one(scripted, changed))

    assert outputs(scripted.calls[1].input) == ["instead of found"]
    assert look.on_invoke_tool is not invoke


@relied_on_by("handoffs/tools.py")
async def test_the_time_limit_of_a_tool_holds_for_its_copy() -> None:
    """function_tool(timeout=...) is kept outside of the invocation; what comes is a text for the model."""

    @function_tool(timeout=0.05)
    async def slow() -> str:
        """Slow."""
        await asyncio.Event().wait()
        return "never"

    changed = copy.copy(slow)

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        return await slow.on_invoke_tool(ctx, arguments)

    changed.on_invoke_tool = invoke
    scripted = model([calls("slow")], [says("done")])

    await run(one(scripted, changed))

    assert "timed out" in outputs(scripted.calls[1].input)[0]


@relied_on_by("handoffs/sdk_source.py")
async def test_a_copy_of_a_tool_context_may_hold_another_context() -> None:
    """SDK agents see their own context object: copy.copy(ctx) with `context` replaced."""

    @function_tool
    def who(ctx: RunContextWrapper[Any]) -> str:
        """Who?"""
        return f"{ctx.context} {ctx.usage.requests}"

    changed = copy.copy(who)

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        own = copy.copy(ctx)
        own.context = "theirs"
        return await who.on_invoke_tool(own, arguments)

    changed.on_invoke_tool = invoke
    scripted = model([calls("who")], [says("done")])

    await run(one(scripted, changed), context="ours")

    assert outputs(scripted.calls[1].input) == ["theirs 1"]


@relied_on_by("handoffs/tools.py", "handoffs/ledger.py")
async def test_a_tool_context_tells_the_call() -> None:
    """Call id, name, arguments as sent, the run's configuration, the agent."""
    seen: list[ToolContext[Any]] = []

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        seen.append(ctx)
        return "ok"

    agent = one(model([calls("t", "c1")], [says("done")]), by_hand("t", invoke))
    await run(agent, workflow_name="frontdesk")

    (ctx,) = seen
    assert (ctx.tool_call_id, ctx.tool_name, ctx.tool_arguments) == ("c1", "t", "{}")
    assert ctx.run_config is not None and ctx.run_config.workflow_name == "frontdesk"
    assert ctx.agent is agent


@relied_on_by("handoffs/tools.py")
async def test_the_schema_of_a_tool_made_by_hand_is_what_the_model_gets() -> None:
    """The enum of allowed targets reaches the model untouched."""
    schema = {
        "type": "object",
        "properties": {"agent_id": {"type": "string", "enum": ["billing", "human:support"]}},
        "required": ["agent_id"],
        "additionalProperties": False,
    }

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        return ""

    tool = FunctionTool(name="t", description="d", params_json_schema=schema, on_invoke_tool=invoke)
    scripted = model([says("done")])

    await run(one(scripted, tool))

    (offered,) = scripted.calls[0].tools
    assert isinstance(offered, FunctionTool)
    assert (offered.name, offered.description, offered.params_json_schema) == ("t", "d", schema)


# --- agents as tools ------------------------------------------------------------------------------------------------


@relied_on_by("handoffs/tools.py")
async def test_an_agent_as_tool_takes_over_the_run_config_of_its_caller_with_the_model() -> None:
    """Why `apart` takes the model out: the inner agent would speak through the model that shows its words."""
    inner = Agent[Any](name="inner", model=model())
    tool = inner.as_tool("ask", "Ask.")
    outer = model([calls("ask", input="?")], [says("inner words")], [says("done")])

    assert tool._is_agent_tool and not look._is_agent_tool
    await run(one(model(), tool), model=outer)

    assert len(outer.calls) == 3


@relied_on_by("handoffs/tools.py", "handoffs/sdk_source.py")
async def test_an_agent_as_tool_shares_context_and_usage_and_nothing_of_the_history() -> None:
    """The inner run sees the request alone; the outer history gets the answer alone."""
    seen: list[Any] = []

    @function_tool
    def peek(ctx: RunContextWrapper[Any]) -> str:
        """Peek."""
        seen.append(ctx.context)
        return "peeked"

    inner_model = model([calls("peek")], [says("the answer")])
    inner = Agent[Any](name="inner", model=inner_model, tools=[peek])
    outer_model = model([calls("ask", input="what?")], [says("done")])
    context = object()

    result = await run(one(outer_model, inner.as_tool("ask", "Ask.")), "a secret", context=context)

    assert seen == [context]
    assert "a secret" not in json.dumps(inner_model.calls[0].input)
    assert outputs(outer_model.calls[1].input) == ["the answer"]
    assert "peeked" not in json.dumps(outer_model.calls[1].input)
    assert result.context_wrapper.usage.requests == 4


@relied_on_by("handoffs/ask.py", "handoffs/host.py")
async def test_an_agent_as_tool_takes_its_input_limits_hooks_and_result_from_us() -> None:
    """ask_<agent>: `input_builder` gives the first items, the run's own configuration and hooks hold inside, and
    `custom_output_extractor` makes the result."""
    hooked: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            hooked.append(agent.name)

    async def extract(result: Any) -> str:
        return f"<{result.final_output}>"

    def build(options: Any) -> Any:
        return json.loads(options["params"]["input"])

    inner_model, outer_model = model([says("inner")]), model([calls("ask", input="?")], [says("done")])
    tool = Agent[Any](name="inner", model="by-name").as_tool(
        "ask",
        "Ask.",
        custom_output_extractor=extract,
        run_config=RunConfig(model=inner_model, tracing_disabled=True),
        max_turns=3,
        hooks=Hooks(),
        failure_error_function=None,
        input_builder=build,
    )
    changed = copy.copy(tool)

    async def invoke(ctx: ToolContext[Any], arguments: str) -> Any:
        items = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
        return await tool.on_invoke_tool(ctx, json.dumps({"input": json.dumps(items)}))

    changed.on_invoke_tool = invoke

    await run(one(model(), changed), model=outer_model)

    assert inner_model.calls[0].input == [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    assert hooked == ["inner"] and outputs(outer_model.calls[1].input) == ["<inner>"]


@relied_on_by("handoffs/ask.py")
async def test_a_failure_inside_an_agent_as_tool_comes_out_when_nobody_explains_it() -> None:
    """`failure_error_function=None`: the asked agent's failure is ours to tell, with its cause."""

    class Down(Exception):
        pass

    inner = Agent[Any](name="inner", model=model(Down("down")))
    tool = inner.as_tool("ask", "Ask.", failure_error_function=None, max_turns=1)
    ctx = ToolContext(context=None, tool_name="ask", tool_call_id="c", tool_arguments="{}")

    with pytest.raises(Exception) as raised:  # wrapped or not: the cause is what counts
        await tool.on_invoke_tool(ctx, json.dumps({"input": "?"}))

    found: BaseException | None = raised.value
    causes = []
    while found is not None:
        causes.append(type(found))
        found = found.__cause__ or found.__context__
    assert Down in causes


@relied_on_by("handoffs/host.py", "handoffs/ask.py")
async def test_a_tool_sees_what_its_agents_model_read() -> None:
    """A host's specialists get the customer's messages from ToolContext.turn_input."""
    seen: list[Any] = []

    async def invoke(ctx: ToolContext[Any], arguments: str) -> str:
        seen.extend(ctx.turn_input)
        return "ok"

    items = [{"role": "user", "content": "a question"}]
    await run(one(model([calls("t")], [says("done")]), by_hand("t", invoke)), items)

    assert seen[:1] == items


@relied_on_by("handoffs/sdk_clone.py")
async def test_is_enabled_of_a_tool_is_asked_before_each_model_call() -> None:
    """A tool may appear in the middle of a run."""
    on = {"now": False}

    @function_tool(is_enabled=lambda ctx, agent: on["now"])
    def later() -> str:
        """Later."""
        return "ok"

    @function_tool
    def switch() -> str:
        """Switch it on."""
        on["now"] = True
        return "on"

    scripted = model([calls("switch")], [says("done")])

    await run(one(scripted, later, switch))

    assert [[tool.name for tool in call.tools] for call in scripted.calls] == [["switch"], ["later", "switch"]]


def test_run_config_keeps_the_formatter_it_is_given() -> None:
    """handoffs/team.py builds one RunConfig for all runs."""
    explain = formatter([])
    assert RunConfig(tool_error_formatter=explain).tool_error_formatter is explain
