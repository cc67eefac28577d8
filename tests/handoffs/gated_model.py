"""A streaming model that a test can hold at any character: real SDK events, no delays of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse
from agents.items import TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)


class GatedModel(Model):
    """Says `text`, `size` characters at a time; `gate` must be open after `hold_after` characters for more to come."""

    def __init__(self, text: str, *, size: int = 4, hold_after: int = 8) -> None:
        self.text = text
        self.size = size
        self.hold_after = hold_after
        self.gate = asyncio.Event()
        self.holding = asyncio.Event()
        self.calls = 0

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError("the router always streams")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        self.calls += 1
        number = 0
        item_id = f"msg_{id(self)}_{self.calls}"
        for start in range(0, len(self.text), self.size):
            if start >= self.hold_after:
                self.holding.set()
                await self.gate.wait()
            number += 1
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                item_id=item_id,
                output_index=0,
                content_index=0,
                delta=self.text[start : start + self.size],
                logprobs=[],
                sequence_number=number,
            )
        part = ResponseOutputText(text=self.text, type="output_text", annotations=[], logprobs=[])
        message = ResponseOutputMessage(
            id=item_id, type="message", role="assistant", status="completed", content=[part]
        )
        yield ResponseOutputItemDoneEvent(
            type="response.output_item.done", item=message, output_index=0, sequence_number=number + 1
        )
        response = Response(
            id="resp_gated",
            created_at=0,
            model="gated",
            object="response",
            output=[message],
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=number + 2)
