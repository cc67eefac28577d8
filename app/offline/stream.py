"""What a step looks like to the SDK: output items, a response, and the events of a stream."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agents import ModelResponse, Usage
from agents.items import TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from app.offline.steps import Say, Step

Item = ResponseOutputMessage | ResponseFunctionToolCall
CHARS_PER_TOKEN = 4  # usage is an estimate: there is no tokenizer that would mean anything to a bill
HAN_PER_CHUNK = 2  # Chinese has no spaces to cut at
_CHUNK = re.compile(rf"[\u3400-\u9fff]{{1,{HAN_PER_CHUNK}}}\S?|[^\s\u3400-\u9fff]+\s*|\s+")


def item_of(step: Step) -> Item:
    """The output item of a step, with ids that no other item ever has."""
    key = uuid.uuid4().hex
    if isinstance(step, Say):
        content = [ResponseOutputText(text=step.text, type="output_text", annotations=[], logprobs=[])]
        return ResponseOutputMessage(
            id=f"msg_{key}", type="message", role="assistant", status="completed", content=list(content)
        )
    arguments = json.dumps(dict(step.arguments), ensure_ascii=False)
    return ResponseFunctionToolCall(
        id=f"fc_{key}", call_id=f"call_{key}", type="function_call", name=step.name, arguments=arguments,
        status="completed",
    )  # fmt: skip


def response_of(item: Item, input_chars: int) -> ModelResponse:
    """The plain form of an answer. Token counts are estimates at four characters each."""
    used, made = _tokens(item, input_chars)
    usage = Usage(requests=1, input_tokens=used, output_tokens=made, total_tokens=used + made)
    return ModelResponse(output=[item], usage=usage, response_id=None)


async def events_of(item: Item, input_chars: int, model: str, delay_s: float) -> AsyncIterator[TResponseStreamEvent]:
    """The same answer as a stream: created, item added, deltas of about a word each, item done, completed."""
    number = iter(range(1_000_000))
    response = _response(model)
    yield ResponseCreatedEvent(type="response.created", response=response, sequence_number=next(number))
    begun = item.model_copy(update={"status": "in_progress", **_emptied(item)})
    yield ResponseOutputItemAddedEvent(
        type="response.output_item.added", item=begun, output_index=0, sequence_number=next(number)
    )
    if isinstance(item, ResponseOutputMessage):
        async for event in _text_events(item, number, delay_s):
            yield event
    else:
        yield ResponseFunctionCallArgumentsDoneEvent(
            type="response.function_call_arguments.done", item_id=str(item.id),
            arguments=item.arguments, output_index=0, sequence_number=next(number),
        )  # fmt: skip
    yield ResponseOutputItemDoneEvent(
        type="response.output_item.done", item=item, output_index=0, sequence_number=next(number)
    )
    done = response.model_copy(update={"output": [item], "status": "completed", "usage": _usage(item, input_chars)})
    yield ResponseCompletedEvent(type="response.completed", response=done, sequence_number=next(number))


async def _text_events(item: ResponseOutputMessage, number: Any, delay_s: float) -> AsyncIterator[TResponseStreamEvent]:
    place: dict[str, Any] = {"item_id": item.id, "output_index": 0, "content_index": 0}
    part = item.content[0]
    text = part.text if isinstance(part, ResponseOutputText) else ""
    empty = ResponseOutputText(text="", type="output_text", annotations=[], logprobs=[])
    yield ResponseContentPartAddedEvent(
        type="response.content_part.added", part=empty, sequence_number=next(number), **place
    )
    for k, chunk in enumerate(chunks(text)):
        if k and delay_s > 0:
            await asyncio.sleep(delay_s)
        yield ResponseTextDeltaEvent(
            type="response.output_text.delta", delta=chunk, logprobs=[], sequence_number=next(number), **place
        )
    yield ResponseTextDoneEvent(
        type="response.output_text.done", text=text, logprobs=[], sequence_number=next(number), **place
    )
    yield ResponseContentPartDoneEvent(
        type="response.content_part.done", part=part, sequence_number=next(number), **place
    )


def chunks(text: str) -> list[str]:
    """`text` in pieces of about a word; joined they are `text` again."""
    return _CHUNK.findall(text)


def input_chars(system: str | None, items: str | Sequence[Any]) -> int:
    """The size of a model's input, for the usage estimate."""
    return len(system or "") + (len(items) if isinstance(items, str) else sum(len(str(item)) for item in items))


def _emptied(item: Item) -> dict[str, Any]:
    return {"content": []} if isinstance(item, ResponseOutputMessage) else {"arguments": ""}


def _tokens(item: Item, chars: int) -> tuple[int, int]:
    made = item.arguments if isinstance(item, ResponseFunctionToolCall) else str(item.content)
    return chars // CHARS_PER_TOKEN + 1, len(made) // CHARS_PER_TOKEN + 1


def _usage(item: Item, chars: int) -> ResponseUsage:
    used, made = _tokens(item, chars)
    return ResponseUsage(
        input_tokens=used,
        output_tokens=made,
        total_tokens=used + made,
        input_tokens_details=InputTokensDetails.model_validate({"cached_tokens": 0, "cache_write_tokens": 0}),
        output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
    )


def _response(model: str) -> Response:
    return Response(
        id=f"resp_{uuid.uuid4().hex}", created_at=time.time(), model=model, object="response", output=[],
        tool_choice="auto", tools=[], parallel_tool_calls=False, status="in_progress",
    )  # fmt: skip
