"""Models and tools that play a record: each gives what it gave then, in the same order, and touches nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import Agent, FunctionTool, Model, ModelProvider, ModelResponse, ModelSettings, Tool
from agents.items import TResponseStreamEvent
from agents.tool_context import ToolContext
from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputItem
from pydantic import TypeAdapter, ValidationError

from handoffs.ask import PREFIX
from handoffs.context import TurnContext
from handoffs.roster import AgentSpec
from handoffs.shared_values import AgentValues
from handoffs.state import RouterState
from handoffs.team import Team
from handoffs.tools import SEARCH, TRANSFER, with_invocation

_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
_ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}


class NotRecorded(Exception):
    """The run asks for more than its record has."""


@dataclass
class Playing:
    """Where a replay stands in the record. `write` stores a customer's message; `notes` are for whoever reads it."""

    steps: Sequence[Mapping[str, Any]]
    notes: list[str] = field(default_factory=list)
    write: Callable[[Mapping[str, Any]], Awaitable[None]] | None = None
    _step: int = -1
    _call: int = 0
    _told: set[int] = field(default_factory=set)  # seqs of messages that the customer has written by now
    _applied: set[int] = field(default_factory=set)  # steps whose values are set

    def starts(self, agent_id: str) -> None:
        """An owner's run begins: the next step of the record."""
        later = range(self._step + 1, len(self.steps))
        self._step = next((n for n in later if self.steps[n]["owner"] == f"ai:{agent_id}"), len(self.steps))
        self._call = 0
        if not self._told:
            self._told = {message["seq"] for message in self.steps[0]["messages"]}
        if self._step == len(self.steps):
            self.notes.append(f"{agent_id} is asked now and was not then: its model has nothing to say")

    def _now(self) -> Mapping[str, Any]:
        return self.steps[self._step] if self._step < len(self.steps) else {}

    async def next_output(self, agent_id: str) -> list[Any]:
        """What the model of `agent_id` gave in its next call. Raises NotRecorded, or the error that it gave."""
        calls = answers(self._now())
        place, self._call = self._call, self._call + 1
        if place >= len(calls):
            raise NotRecorded(f"the model of {agent_id} was not asked again then")
        if place == len(calls) - 1:
            await self._customer_goes_on()
        if calls[place].get("error"):
            raise NotRecorded(str(calls[place]["error"]))
        return [_item(item) for item in calls[place]["output"]]

    async def _customer_goes_on(self) -> None:
        """What the customer wrote while this step ran, as the next step has it."""
        if self._step + 1 < len(self.steps) and self.write is not None:
            for message in self.steps[self._step + 1]["messages"]:
                if message["seq"] not in self._told:
                    self._told.add(message["seq"])
                    await self.write(message)

    def result(self, context: TurnContext, call_id: str, name: str) -> Any:
        """What a tool gave, with the values that the step set. A call without a result says so."""
        if self._step not in self._applied and isinstance(context.values, AgentValues):
            self._applied.add(self._step)
            for key, value in self._now().get("values", {}).items():
                if not context.values.played(key, value):
                    self.notes.append(f"step {self._step + 1}: {context.agent_id} may not set {key} any more")
        found = next((tool for tool in self._now().get("tools", ()) if tool["call_id"] == call_id), None)
        if found is None or found.get("result") is None:
            self.notes.append(f"step {self._step + 1}: there is no result of {name} in the record")
            return "There is no result in the record."
        return found["result"]


def answers(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The calls of the owner's model, without failed ones that were made again, and those of agents that it asked."""
    calls = [call for call in step.get("calls", ()) if not call.get("path") and not call.get("dropped")]
    return [call for place, call in enumerate(calls) if not call.get("error") or place == len(calls) - 1]


def _item(data: Mapping[str, Any]) -> Any:
    try:
        return _ITEM.validate_python(data)
    except ValidationError as error:
        raise NotRecorded(
            f"an output of the record is none that this version knows: {error.errors()[0]['msg']}"
        ) from None


class PlayedModel(Model):
    """The model of one agent, which says what it said."""

    def __init__(self, playing: Playing, agent_id: str) -> None:
        self._playing = playing
        self._agent_id = agent_id

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotRecorded("only the owner's answers are in a record")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        response = Response(
            id="played",
            created_at=0,
            model="played",
            object="response",
            output=await self._playing.next_output(self._agent_id),
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=0)


@dataclass
class PlayedModels(ModelProvider):
    """`handoffs.team.Models`: every agent has its played model."""

    playing: Playing
    settings: ModelSettings = field(default_factory=ModelSettings)

    @property
    def provider(self) -> ModelProvider:
        return self

    def name_for(self, agent: AgentSpec) -> str:
        return agent.id

    def get_model(self, model_name: str | None) -> Model:
        return PlayedModel(self.playing, str(model_name))


@dataclass(frozen=True)
class PlayedTeam(Team):
    """A team whose tools give what the record has. `transfer_to_agent` is real: it is what decides."""

    playing: Playing = field(default_factory=lambda: Playing(()))

    def agent(self, spec: AgentSpec, context: TurnContext, state: RouterState) -> Agent[TurnContext]:
        self.playing.starts(spec.id)
        self.tools[spec.id] = tuple(self._stub(spec, name) for name in self._named(spec))  # type: ignore[index]  # ours
        made = super().agent(spec, context, state)
        return made.clone(tools=[self._played(tool) for tool in made.tools])

    def _named(self, spec: AgentSpec) -> list[str]:
        """The tools that the agent called, as far as its file still allows them. No tools.py is read for it."""
        called = dict.fromkeys(
            str(tool["name"])
            for step in self.playing.steps
            if step["owner"] == f"ai:{spec.id}"
            for tool in step["tools"]
        )
        offered = {*spec.tools, SEARCH}
        return [name for name in called if name in offered and name != TRANSFER and not name.startswith(PREFIX)]

    def _stub(self, spec: AgentSpec, name: str) -> FunctionTool:
        async def never(_: ToolContext[Any], __: str) -> str:
            raise NotRecorded(name)

        waits = name in (*spec.approval, *spec.confirm)
        return FunctionTool(
            name=name,
            description=name,
            params_json_schema=_ANYTHING,
            on_invoke_tool=never,
            strict_json_schema=False,
            needs_approval=waits,
        )

    def _played(self, tool: Tool) -> Tool:
        if not isinstance(tool, FunctionTool) or tool.name == TRANSFER:
            return tool

        async def invoke(ctx: ToolContext[TurnContext], _: str) -> Any:
            return self.playing.result(ctx.context, ctx.tool_call_id, tool.name)

        return with_invocation(tool, invoke)
