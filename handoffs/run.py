"""One agent's run: the SDK's Runner with this agent's own history in, and what it said, did and asked for out.

The history goes in as plain input and the new items come out of the result; the session is not handed to the Runner.
The Runner would read it, save it three times and inspect its methods on each call, which costs 10 to 15 % of a turn
(measured with bench/turns.py); what is remembered is the same, and one commit writes it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from agents import Agent, RunConfig, Runner, RunResultStreaming
from agents.exceptions import MaxTurnsExceeded
from agents.items import ItemHelpers, MessageOutputItem, TResponseInputItem

from handoffs.context import TurnContext
from handoffs.errors import BudgetSpent, ModelFailed
from handoffs.relay import Relay
from handoffs.roster import AgentSpec
from handoffs.transfer import TransferRequest
from sessions.errors import StaleOwner
from sessions.isolated import IsolatedSession
from sessions.model import Item


@dataclass(frozen=True, slots=True)
class Said:
    """What one run gave: text for the customer, a transfer, both, or a failure. `shown`: characters seen as a draft."""

    message_id: str
    text: str = ""
    request: TransferRequest | None = None
    refusals: tuple[dict[str, str], ...] = ()
    tools: tuple[str, ...] = ()
    error: Exception | None = None
    shown: int = 0


class AgentRun:
    """One run of one agent. `stop` may be called from anywhere: the model is cancelled and nothing more is shown."""

    def __init__(
        self, agent: Agent[TurnContext], spec: AgentSpec, context: TurnContext, relay: Relay, config: RunConfig
    ) -> None:
        self._agent = agent
        self._spec = spec
        self._context = context
        self._relay = relay
        self._config = config
        self._tools: list[str] = []
        self._result: RunResultStreaming | None = None
        self._stopped = False

    def stop(self) -> None:
        """Cancel the model; `speak` returns soon, with whatever there was."""
        self._stopped = True
        if self._result is not None:
            self._result.cancel("immediate")

    async def speak(self, session: IsolatedSession, asked: list[Item]) -> Said:
        """Let the agent answer `asked`. Its new items go to the session's buffer. Errors come back in `Said.error`."""
        error: Exception | None = None
        try:
            await self._stream([*await session.get_items(), *asked])
        except StaleOwner:
            raise
        except Exception as failure:  # whatever a model, a tool or the SDK does, the customer gets a defined next owner
            error = self._named(failure)
        finally:
            await self._relay.close()
        await session.add_items([*asked, *self._new_items()])
        text = self._text()
        if error is None and self._context.request is None and not text:
            error = ModelFailed(self._spec.id, "it said nothing")
        return Said(
            self._relay.message_id,
            text,
            self._context.request,
            tuple(self._context.refusals),
            tuple(self._tools),
            error,
            self._relay.sent,
        )

    async def _stream(self, items: list[Item]) -> None:
        result = self._result = Runner.run_streamed(
            self._agent,
            cast("list[TResponseInputItem]", items),
            context=self._context,
            max_turns=self._spec.limits.model_calls,
            run_config=self._config,
        )
        if self._stopped:
            result.cancel("immediate")
        last_item = ""
        try:
            async with asyncio.timeout(self._spec.limits.seconds):
                async for event in result.stream_events():
                    if self._stopped:
                        continue  # the run is being cancelled; keep draining or it goes on in the background
                    if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                        gap = "\n\n" if self._relay.text and event.data.item_id != last_item else ""
                        last_item = event.data.item_id
                        self._relay.write(gap + event.data.delta)
                    elif event.type == "run_item_stream_event" and event.name == "tool_called":
                        self._tools.append(str(getattr(event.item.raw_item, "name", "?")))
        except TimeoutError:
            raise BudgetSpent(self._spec.id, what="seconds", limit=self._spec.limits.seconds) from None
        if not self._stopped and result.run_loop_exception is not None:
            raise result.run_loop_exception

    def _new_items(self) -> list[Item]:
        if self._result is None:
            return []
        return [cast("dict[str, Any]", item.to_input_item()) for item in self._result.new_items]

    def _text(self) -> str:
        made = self._result.new_items if self._result is not None else []
        parts = [ItemHelpers.text_message_output(item) for item in made if isinstance(item, MessageOutputItem)]
        return "\n\n".join(part.strip() for part in parts if part.strip()) or self._relay.text.strip()

    def _named(self, failure: Exception) -> Exception:
        if isinstance(failure, MaxTurnsExceeded):
            return BudgetSpent(self._spec.id, what="model_calls", limit=self._spec.limits.model_calls)
        return failure
