"""The owner's model with a window: it streams the answer, shows each piece to the customer and gives the whole back.

The Runner calls a model once a step and wants one response. Its own streaming mode gives the same events, but walks
them through a queue, a second task and a copy of each item, which costs a tenth of a turn (bench/turns.py); pieces are
all that the relay needs, so they are taken where they arise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Protocol, cast

from agents import Model, ModelBehaviorError, ModelResponse, Usage
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from openai.types.responses import Response, ResponseUsage

from handoffs.recorder import Recorder
from sessions.model import Item

UNFINISHED = ("response.incomplete", "response.failed", "response.error", "error")


class Window(Protocol):
    """Where pieces of the answer go; `handoffs.relay.Relay` is one."""

    def write(self, piece: str) -> None: ...


class ShownModel(Model):
    """`inner`, for one run of one agent. `asked` is what the model read last.

    `settle` sees each response before the Runner does, and may end the run by an exception.
    """

    def __init__(
        self,
        inner: Model,
        window: Window,
        recorder: Recorder | None = None,
        settle: Callable[[ModelResponse], None] | None = None,
    ) -> None:
        self._inner = inner
        self._window = window
        self._recorder = recorder
        self._settle = settle
        self._message = ""  # the id of the message that the last piece belongs to
        self._final = False  # the present call was seen by the customer or came to its end: it is not made again
        self.asked: list[Item] = []

    async def get_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        """The whole response of one call. Raises what `inner` raises, ModelBehaviorError when it does not finish."""
        self.asked = cast("list[Item]", input)
        self._final = False
        events = self._inner.stream_response(system_instructions, input, model_settings, *args, **kwargs)
        answer = await self._recorded(events, system_instructions)
        if self._settle is not None:
            self._settle(answer)
        return answer

    async def _recorded(self, events: Any, system_instructions: str | None) -> ModelResponse:
        if self._recorder is None:
            return await self._whole(events)
        call = self._recorder.call(system_instructions, self.asked)
        try:
            answer = await self._whole(events)
        except BaseException as error:
            call.failed(error)
            raise
        call.answered(answer)
        return answer

    async def _whole(self, events: Any) -> ModelResponse:
        made: list[Any] = []
        response: Response | None = None
        async with aclosing(events):
            async for event in events:
                kind = event.type
                if kind == "response.output_text.delta":
                    self._show(event.item_id, event.delta)
                elif kind == "response.output_item.done":
                    made.append(event.item)
                elif kind == "response.completed":
                    response = event.response
                elif kind in UNFINISHED:
                    raise ModelBehaviorError(f"the model did not finish its answer: {unfinished(event)}")
        if response is None:
            raise ModelBehaviorError("the model's answer stopped before its end")
        self._final = True
        return ModelResponse(
            output=response.output or made,  # some servers leave the output of the last event empty
            usage=used(response.usage),
            response_id=response.id,
            request_id=getattr(response, "_request_id", None),
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        """The stream of `inner`, shown to nobody."""
        return self._inner.stream_response(*args, **kwargs)

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """What `inner` advises; never again once the customer has seen a part of the answer."""
        if self._final:
            return ModelRetryAdvice(
                suggested=False, replay_safety="unsafe", response_started=True, reason="a part of the answer was shown"
            )
        return self._inner.get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self._inner._cleanup_on_run_end(owner)

    async def close(self) -> None:
        """Nothing: `inner` belongs to its provider."""

    def _show(self, message: str, piece: str) -> None:
        gap = "\n\n" if self._message and message != self._message else ""
        self._message = message
        self._final = True
        self._window.write(gap + piece)


def used(usage: ResponseUsage | None) -> Usage:
    """One call's tokens, as the SDK counts them in a run."""
    if usage is None:
        return Usage(requests=1)
    return Usage(
        requests=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        input_tokens_details=usage.input_tokens_details,
        output_tokens_details=usage.output_tokens_details,
    )


def unfinished(event: Any) -> str:
    """Why a response ended early, in a few words of the server's."""
    response = getattr(event, "response", None)
    error = getattr(response, "error", None) or getattr(response, "incomplete_details", None) or event
    return str(getattr(error, "message", None) or getattr(error, "reason", None) or event.type)[:200]
