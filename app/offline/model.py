"""The offline model as the OpenAI Agents SDK sees it: a `Model` like any other."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from agents import Model, ModelResponse, ModelSettings, Tool, UserError
from agents.agent_output import AgentOutputSchemaBase
from agents.handoffs import Handoff
from agents.items import TResponseInputItem, TResponseStreamEvent
from agents.models.interface import ModelTracing
from openai.types.responses.response_prompt_param import ResponsePromptParam

from app.offline import summary
from app.offline.conversation import read
from app.offline.desk import FittedDesk
from app.offline.responder import Answer
from app.offline.situation import Situation
from app.offline.steps import Say
from app.offline.stream import Item, events_of, input_chars, item_of, response_of
from app.offline.toolset import Toolset, toolset_of

logger = logging.getLogger("frontdesk.offline")
NO_TOOLS = Toolset(targets={}, can_search=False, own=())


class OfflineModel(Model):
    """Answers for one agent (`agent_id`), or, without one, for the agent whose instructions the system text holds.

    It uses what a hosted model would get (system text, input items, tools) and the desk's example tables. It makes at
    most one call, or one message, per response. `delay_s` is the pause between streamed words, for people to watch.
    """

    def __init__(self, desk: FittedDesk, agent_id: str | None, delay_s: float) -> None:
        self._desk = desk
        self._agent_id = agent_id
        self._delay_s = delay_s

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> ModelResponse:
        """One response; UserError when a structured output is asked for, which this model cannot make."""
        item = await self._item(system_instructions, input, model_settings, tools, output_schema)
        return response_of(item, input_chars(system_instructions, input))

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """The same response as events; UserError as above."""
        item = await self._item(system_instructions, input, model_settings, tools, output_schema)
        chars = input_chars(system_instructions, input)
        async for event in events_of(item, chars, f"offline/{self._agent_id or ''}".rstrip("/"), self._delay_s):
            yield event

    async def _item(
        self,
        system: str | None,
        items: str | list[TResponseInputItem],
        settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
    ) -> Item:
        if output_schema is not None and not output_schema.is_plain_text():
            raise UserError("The offline model answers in plain text only; an agent with an output_type needs another.")
        if summary.is_wanted(system):
            return item_of(Say(summary.extract(items)))
        toolset = NO_TOOLS if settings.tool_choice == "none" else toolset_of(tools)
        answer = await asyncio.to_thread(self._answer, system, items, toolset)
        return item_of(answer.step)

    def _answer(self, system: str | None, items: str | list[Any], toolset: Toolset) -> Answer:
        me = self._agent_id or self._desk.directory.agent_of(system)
        answer = self._desk.responder().respond(Situation(me, read(items), toolset, self._desk.directory))
        if logger.isEnabledFor(logging.DEBUG) and answer.decision:
            logger.debug("%s decided %s", me, json.dumps(asdict(answer.decision), ensure_ascii=False))
        return answer
