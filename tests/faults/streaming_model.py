"""A model that streams character by character and tells how far it is, so that a test can strike at any of them."""

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

TICK_S = 0.002  # between two characters: an answer takes several flushes of the relay


class StreamingModel(Model):
    """Says `text` character by character. `reached(n)` is set once `n` characters are out; n may lie past the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.calls = 0
        self._marks: dict[int, asyncio.Event] = {}

    def reached(self, characters: int) -> asyncio.Event:
        """Set when so many characters were produced (0: when the model is asked; past the end: when it has ended)."""
        return self._marks.setdefault(characters, asyncio.Event())

    def _at(self, characters: int) -> None:
        for mark, event in self._marks.items():
            if mark <= characters:
                event.set()

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise NotImplementedError("the router always streams")

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        self.calls += 1
        item_id = f"msg_{id(self)}_{self.calls}"
        for number, character in enumerate(self.text):
            self._at(number)
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                item_id=item_id,
                output_index=0,
                content_index=0,
                delta=character,
                logprobs=[],
                sequence_number=number,
            )
            await asyncio.sleep(TICK_S)
        part = ResponseOutputText(text=self.text, type="output_text", annotations=[], logprobs=[])
        message = ResponseOutputMessage(
            id=item_id, type="message", role="assistant", status="completed", content=[part]
        )
        number = len(self.text)
        yield ResponseOutputItemDoneEvent(
            type="response.output_item.done", item=message, output_index=0, sequence_number=number
        )
        response = Response(
            id="resp_streaming",
            created_at=0,
            model="streaming",
            object="response",
            output=[message],
            tool_choice="none",
            tools=[],
            parallel_tool_calls=False,
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=number + 1)
        self._at(1 << 30)
