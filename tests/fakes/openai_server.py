"""A scripted OpenAI-compatible server: real HTTP on loopback, both APIs, streamed and whole, with every way to fail.

    async with fake_openai([RateLimit("0.05"), Call("track_parcel", {"number": "A-1"}), Say("Hello")]) as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="anything")

Each request takes the next step of the script; when the script is used up the answer is status 418, so that a test
which asks too often sees it. Event shapes are those of the real service (openai-python's own types read them).
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support import wait_until

PIECE_CHARS = 7  # of a streamed text: small enough that every answer comes in several pieces


@dataclass(frozen=True)
class Say:
    """Answer with this text; `pace_s` is the time between two streamed pieces."""

    text: str
    pace_s: float = 0.0


@dataclass(frozen=True)
class Call:
    """Call one function; `arguments` may be a text, to send what is not JSON."""

    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True)
class Calls:
    """Call several functions in one answer, after saying `text` when there is one."""

    calls: Sequence[Call]
    text: str = ""


@dataclass(frozen=True)
class Fail:
    """Answer with an HTTP error in OpenAI's shape."""

    status: int
    message: str = "scripted failure"
    headers: dict[str, str] = field(default_factory=dict)


def RateLimit(retry_after: str) -> Fail:
    """Status 429 that asks for this many seconds of patience."""
    return Fail(429, "Rate limit reached", {"retry-after": retry_after})


@dataclass(frozen=True)
class Hang:
    """Take the request and say nothing until the client goes away."""


@dataclass(frozen=True)
class Cut:
    """Stream the beginning of an answer, then drop the connection (`clean`: end the stream as if all were said)."""

    text: str
    clean: bool = False


@dataclass(frozen=True)
class Raw:
    """Send exactly these bytes with status 200."""

    body: bytes
    content_type: str = "text/event-stream"


@dataclass(frozen=True)
class Empty:
    """A complete answer that says nothing."""


Step = Say | Call | Calls | Fail | Hang | Cut | Raw | Empty


@dataclass
class Recorded:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class FakeOpenAI:
    """The running server: its address, what it still has to say, and what it was asked."""

    base_url: str
    script: list[Step]
    requests: list[Recorded] = field(default_factory=list)
    ids: Iterable[int] = field(default_factory=lambda: itertools.count(1))

    async def respond(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.requests.append(Recorded(request.url.path, dict(request.headers), body))
        step = self.script.pop(0) if self.script else Fail(418, "the script is used up")
        number = next(iter(self.ids))
        if isinstance(step, Fail):
            return JSONResponse(_error(step), status_code=step.status, headers=step.headers)
        if isinstance(step, Raw):
            return Response(step.body, media_type=step.content_type)
        if isinstance(step, Hang):
            await _until_gone(request)
            return Response(status_code=499)
        speak = _responses if request.url.path.endswith("/responses") else _chat
        whole, events = speak(step, body, number)
        if not body.get("stream"):
            return JSONResponse(whole)
        return StreamingResponse(_sse(events, step), media_type="text/event-stream")


@asynccontextmanager
async def fake_openai(script: Sequence[Step]) -> AsyncIterator[FakeOpenAI]:
    """Serve `script` on a free loopback port while the block runs."""
    fake = FakeOpenAI(base_url="", script=list(script))
    paths = ("/v1/responses", "/v1/chat/completions")
    app = Starlette(routes=[Route(path, fake.respond, methods=["POST"]) for path in paths])
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none")
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    try:
        await wait_until("the fake server listens", lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        fake.base_url = f"http://127.0.0.1:{port}/v1"
        yield fake
    finally:
        server.should_exit = True
        await task


class _Dropped(Exception):
    """Raised inside a response body: uvicorn then closes the connection without the end of the message."""


async def _sse(events: list[dict[str, Any]], step: Step) -> AsyncIterator[bytes]:
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        yield f"{name}data: {json.dumps(event)}\n\n".encode()
        await asyncio.sleep(step.pace_s if isinstance(step, Say) else 0)  # lets the pieces leave one by one
    if isinstance(step, Cut) and not step.clean:
        raise _Dropped
    if events and "type" not in events[0] and not isinstance(step, Cut):
        yield b"data: [DONE]\n\n"


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _error(step: Fail) -> dict[str, Any]:
    return {"error": {"message": step.message, "type": "server_error", "param": None, "code": None}}


def _pieces(text: str) -> list[str]:
    return [text[i : i + PIECE_CHARS] for i in range(0, len(text), PIECE_CHARS)]


def _parts(step: Step) -> tuple[str, list[tuple[str, str]]]:
    """The text and the function calls (name, arguments as text) of a step."""
    if isinstance(step, Say | Cut):
        return step.text, []
    calls = [step] if isinstance(step, Call) else list(step.calls) if isinstance(step, Calls) else []
    written = [(c.name, c.arguments if isinstance(c.arguments, str) else json.dumps(c.arguments)) for c in calls]
    return (step.text if isinstance(step, Calls) else ""), written


# --- Responses API -------------------------------------------------------------------------------------------------


def _responses(step: Step, body: dict[str, Any], number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    text, calls = _parts(step)
    items: list[dict[str, Any]] = []
    if text:
        items.append(_message_item(f"msg_{number:04d}", text))
    for index, (name, arguments) in enumerate(calls):
        items.append(_call_item(f"{number:04d}_{index}", name, arguments))
    empty = {**_response(body, number), "status": "in_progress"}
    whole = {**_response(body, number), "output": items, "usage": _USAGE}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": empty}]
    events.append({"type": "response.in_progress", "response": empty})
    for index, item in enumerate(items):
        events += _message_events(item, index) if item["type"] == "message" else _call_events(item, index)
    if isinstance(step, Cut):  # everything up to the last piece of text, and no end
        last = max(i for i, event in enumerate(events) if event["type"] == "response.output_text.delta")
        events = events[: last + 1]
    else:
        events.append({"type": "response.completed", "response": whole})
    for sequence, event in enumerate(events):
        event["sequence_number"] = sequence
    return whole, events


_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 16,
}


def _response(body: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number:04d}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": None,
    }


def _message_item(item_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def _call_item(suffix: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"fc_{suffix}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{suffix}",
        "name": name,
        "arguments": arguments,
    }


def _message_events(item: dict[str, Any], index: int) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    part = item["content"][0]
    started = {**item, "status": "in_progress", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": index, "item": started},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
    ]
    for piece in _pieces(part["text"]):
        events.append({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []})
    events.append({"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []})
    events.append({"type": "response.content_part.done", **place, "part": part})
    events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return events


def _call_events(item: dict[str, Any], index: int) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    started = {**item, "status": "in_progress", "arguments": ""}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": index, "item": started}]
    for piece in _pieces(item["arguments"]):
        events.append({"type": "response.function_call_arguments.delta", **place, "delta": piece})
    done = {"arguments": item["arguments"], "name": item["name"]}
    events.append({"type": "response.function_call_arguments.done", **place, **done})
    events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    return events


# --- Chat Completions API ------------------------------------------------------------------------------------------


def _chat(step: Step, body: dict[str, Any], number: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    text, calls = _parts(step)
    base = {"id": f"chatcmpl-{number:04d}", "created": 1_700_000_000, "model": body["model"]}
    finish = "tool_calls" if calls else "stop"
    tool_calls = [_chat_call(number, index, name, arguments) for index, (name, arguments) in enumerate(calls)]
    message = {"role": "assistant", "content": text or None, "refusal": None}
    if tool_calls:
        message["tool_calls"] = tool_calls  # type: ignore[assignment]  # a JSON object, not one kind of value
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
    whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}

    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in _pieces(text)]
    for index, call in enumerate(tool_calls):
        opening = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        deltas.append({"tool_calls": [opening]})
        for piece in _pieces(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    chunks = [_chunk(base, delta, None) for delta in deltas]
    if not isinstance(step, Cut):
        chunks.append(_chunk(base, {}, finish))
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**base, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return whole, chunks


def _chat_call(number: int, index: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number:04d}_{index}", "type": "function", "function": function}


def _chunk(base: dict[str, Any], delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {**base, "object": "chat.completion.chunk", "choices": [choice]}
