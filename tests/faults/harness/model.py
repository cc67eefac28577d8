"""The model of a run: it does what the newest customer message says (plan.py, `Act`). Real SDK events, no network."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse
from agents.items import TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from tests.faults.harness.plan import SLOW_LEASES, Act

PIECE_S = 0.03  # between two pieces of a streamed answer: about one piece per flush of the relay
TARGETS = {Act.BILLING: "billing", Act.ORDERS: "orders", Act.TRIAGE: "triage", Act.PEOPLE: "human:support"}


class PlannedFailure(Exception):
    """What the model raises when the plan says so."""


class PlannedModel(Model):
    """The model of one agent."""

    def __init__(self, agent_id: str, lease_ms: int) -> None:
        self.agent_id = agent_id
        self._slow_s = lease_ms / 1000 * SLOW_LEASES

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError("the router always streams")

    async def stream_response(
        self, system_instructions: str | None, input: str | list[Any], *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        number, act = wanted(input)
        if act is Act.FAIL:
            raise PlannedFailure(f"{self.agent_id} fails on {number}")
        target = TARGETS.get(act, self.agent_id)
        if target != self.agent_id and not _was_refused(input):
            call = ResponseFunctionToolCall(
                type="function_call",
                name="transfer_to_agent",
                arguments=json.dumps({"agent_id": target, "reason": f"{number} is for {target}", "brief": {}}),
                call_id=f"call_{secrets.token_hex(6)}",
            )
            yield ResponseOutputItemDoneEvent(
                type="response.output_item.done", item=call, output_index=0, sequence_number=1
            )
            yield _completed(call, 2)
            return
        async for event in self._talk(number, act):
            yield event

    async def _talk(self, number: str, act: Act) -> AsyncIterator[TResponseStreamEvent]:
        item_id = f"msg_{secrets.token_hex(8)}"
        pieces = [
            f"{self.agent_id} answers {number}",
            " with some words",
            " that come",
            " piece by piece",
            " so that",
            " a takeover",
            " finds a draft",
            " that is half",
            " written.",
        ]
        pause = {Act.STREAM: PIECE_S, Act.BREAK: PIECE_S, Act.SLOW: self._slow_s / len(pieces)}.get(act, 0.0)
        for n, piece in enumerate(pieces):
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                item_id=item_id,
                output_index=0,
                content_index=0,
                delta=piece,
                logprobs=[],
                sequence_number=n + 1,
            )
            if pause:
                await asyncio.sleep(pause)
        if act is Act.BREAK:
            raise PlannedFailure(f"{self.agent_id} breaks off on {number}")
        part = ResponseOutputText(text="".join(pieces), type="output_text", annotations=[], logprobs=[])
        message = ResponseOutputMessage(
            id=item_id, type="message", role="assistant", status="completed", content=[part]
        )
        yield ResponseOutputItemDoneEvent(
            type="response.output_item.done", item=message, output_index=0, sequence_number=len(pieces) + 1
        )
        yield _completed(message, len(pieces) + 2)


def wanted(input: str | list[Any]) -> tuple[str, Act]:
    """The number and the act of the newest customer message (`#m3.17 billing`)."""
    for item in reversed(input if isinstance(input, list) else []):
        text = item.get("content") if item.get("role") == "user" else None
        if isinstance(text, str) and text.startswith("#"):
            number, _, act = text.partition(" ")
            return number, Act(act)
    return "#?", Act.SAY


def _was_refused(input: str | list[Any]) -> bool:
    return isinstance(input, list) and bool(input) and input[-1].get("type") == "function_call_output"


def _completed(output: ResponseOutputMessage | ResponseFunctionToolCall, number: int) -> ResponseCompletedEvent:
    response = Response(
        id="resp_planned",
        created_at=0,
        model="planned",
        object="response",
        output=[output],
        tool_choice="none",
        tools=[],
        parallel_tool_calls=False,
    )
    return ResponseCompletedEvent(type="response.completed", response=response, sequence_number=number)
