"""The zero-latency model that all contestants share: it answers at once, by the tools it is offered."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelProvider, ModelResponse, ModelSettings, Usage
from agents.items import TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from bench.lines import ANSWER

_ids = itertools.count(1)


def message(text: str = ANSWER) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(
        id=f"msg_{next(_ids)}", type="message", role="assistant", status="completed", content=[part]
    )


def call(name: str, arguments: dict[str, Any]) -> ResponseFunctionToolCall:
    number = next(_ids)
    return ResponseFunctionToolCall(
        id=f"fc_{number}", call_id=f"call_{number}", type="function_call", name=name, arguments=json.dumps(arguments)
    )


class InstantModel(Model):
    """Transfers to billing when it is triage (by its instructions) and may; answers otherwise."""

    def decide(self, system: str | None, tools: list[Any], handoffs: list[Any]) -> list[Any]:
        if system and system.startswith("You are triage"):
            if any(tool.name == "transfer_to_agent" for tool in tools):
                brief = {"goal": "", "facts": [], "tried": [], "promised": [], "open_questions": []}
                return [call("transfer_to_agent", {"agent_id": "billing", "reason": "money", "brief": brief})]
            if handoffs:
                return [call(handoffs[0].tool_name, {})]
        return [message()]

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **_: Any,
    ) -> ModelResponse:
        output = self.decide(system_instructions, tools, handoffs)
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: ModelSettings,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **_: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        output = self.decide(system_instructions, tools, handoffs)
        for index, item in enumerate(output):
            if isinstance(item, ResponseOutputMessage):
                yield ResponseTextDeltaEvent(
                    type="response.output_text.delta",
                    item_id=item.id,
                    output_index=index,
                    content_index=0,
                    delta=ANSWER,
                    logprobs=[],
                    sequence_number=index,
                )
        response = Response(
            id="resp",
            created_at=0,
            model="instant",
            object="response",
            output=output,
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=9)


class InstantModels(ModelProvider):
    """`handoffs.team.Models` and the SDK's provider in one: every agent gets the instant model."""

    settings = ModelSettings()

    def __init__(self) -> None:
        self.model = InstantModel()

    @property
    def provider(self) -> ModelProvider:
        return self

    def name_for(self, agent: object) -> str:
        return "instant"

    def get_model(self, model_name: str | None) -> Model:
        return self.model
