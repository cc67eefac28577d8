"""langgraph-swarm as a process for `bench.peers`, run by the peers' Python: python -m bench.driver_swarm NAME PLACE.

PLACE is the Redis server's socket, or the folder for the SQLite file. The graph is the one of its README: two agents
made by `create_agent`, `create_handoff_tool`, `create_swarm`, a checkpointer; the answer is streamed token by token.

* swarm-redis, swarm-sqlite: everything as it comes.
* ...-tuned: the cheapest documented settings: `durability="exit"` (one checkpoint at the end of the turn instead of one
  after each step) and, on Redis, the shallow saver (only the newest checkpoint is kept).
* ...-trim40: tuned, and the documented middleware that removes all but the newest 40 messages before each model call.
  Those that it removes are gone from the store: flat in history, but not the same job.
"""
# mypy: disable-error-code="import-not-found, misc, untyped-decorator, no-any-return"
# Its packages are in the peers' environment only, so to mypy they are all unknown.

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import before_model
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.redis.aio import AsyncRedisSaver
from langgraph.checkpoint.redis.ashallow import AsyncShallowRedisSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph_swarm import create_handoff_tool, create_swarm

from bench.lines import ANSWER, QUESTION, earlier, serve
from bench.trips import Trips

KEEP = 40  # messages, as many as the SDK's rival is shown
LOOKED_AT = 100  # conversations up to this length are looked at after the turn; longer ones only cost time
_calls = itertools.count(1)


class InstantChat(BaseChatModel):
    """The zero-latency model: a transfer when it is triage and has the tool, the answer otherwise."""

    transfers: bool = False

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return _transferring if any(tool.name == "transfer_to_billing" for tool in tools) else self

    def _reply(self, messages: list[BaseMessage]) -> dict[str, Any]:
        if self.transfers and str(messages[0].content).startswith("You are triage"):
            call = {"name": "transfer_to_billing", "args": {}, "id": f"call_{next(_calls)}", "type": "tool_call"}
            return {"content": "", "tool_calls": [call]}
        return {"content": ANSWER}

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(**self._reply(messages)))])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
        return self._generate(messages)

    async def _astream(self, messages: list[BaseMessage], *_: Any, **__: Any) -> AsyncIterator[Any]:
        reply = self._reply(messages)
        calls = [
            {"name": call["name"], "args": "{}", "id": call["id"], "index": 0, "type": "tool_call_chunk"}
            for call in reply.get("tool_calls", ())
        ]
        yield ChatGenerationChunk(message=AIMessageChunk(content=reply["content"], tool_call_chunks=calls))


_transferring = InstantChat(transfers=True)


@before_model
def trim(state: Any, runtime: Any) -> dict[str, Any] | None:
    """LangChain's documented way to keep a conversation short, with 40 messages instead of its 3."""
    messages = state["messages"]
    if len(messages) <= KEEP:
        return None
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages[-KEEP:]]}


class Swarm:
    """See the top."""

    def __init__(self, name: str, saver: Any) -> None:
        self._saver = saver
        self._trims = name.endswith("-trim40")
        self._options = {} if name in ("swarm-redis", "swarm-sqlite") else {"durability": "exit"}
        middleware = [trim] if self._trims else []
        model = InstantChat()
        triage = create_agent(
            model,
            tools=[create_handoff_tool(agent_name="billing", description="Money.")],
            system_prompt="You are triage",
            name="triage",
            middleware=middleware,
        )
        billing = create_agent(
            model,
            tools=[create_handoff_tool(agent_name="triage", description="Everything.")],
            system_prompt="You are billing",
            name="billing",
            middleware=middleware,
        )
        self._graph = create_swarm([triage, billing], default_active_agent="triage").compile(checkpointer=saver)
        self._threads = (f"t{n}" for n in itertools.count(1))

    async def prepare(self, kind: str, history: int) -> tuple[dict[str, Any], int]:
        """With trimming the store never holds more than 40, however long the conversation was."""
        messages = earlier(history)[-KEEP:] if self._trims else earlier(history)
        config = {"configurable": {"thread_id": next(self._threads)}}
        owner = "billing" if kind == "plain" else "triage"
        await self._graph.aupdate_state(config, {"messages": messages, "active_agent": owner}, as_node=owner)
        return config, len(messages)

    async def play(self, ready: tuple[dict[str, Any], int]) -> None:
        text = ""
        async for _, (chunk, about) in self._graph.astream(
            {"messages": [{"role": "user", "content": QUESTION}]},
            ready[0],
            stream_mode="messages",
            subgraphs=True,
            **self._options,
        ):
            if about.get("langgraph_node") == "model" and isinstance(chunk, AIMessageChunk):
                text += str(chunk.content)
        assert text == ANSWER, f"the customer got {text!r}"

    async def forget(self, ready: tuple[dict[str, Any], int]) -> None:
        config, count = ready
        if count <= LOOKED_AT:
            stored = (await self._graph.aget_state(config)).values
            assert stored["active_agent"] == "billing", stored["active_agent"]
            assert [message.content for message in stored["messages"]].count(ANSWER) == 1
            if not self._trims:
                assert len(stored["messages"]) in (count + 2, count + 4)  # a transfer is a call and its result
        await self._saver.adelete_thread(config["configurable"]["thread_id"])


def saver_for(name: str, place: str) -> AbstractAsyncContextManager[Any]:
    """Each saver with the client or connection that it makes for itself."""
    if name.startswith("swarm-sqlite"):
        return AsyncSqliteSaver.from_conn_string(str(Path(place) / f"{name}.sqlite"))
    kind = AsyncRedisSaver if name == "swarm-redis" else AsyncShallowRedisSaver
    prefix = name.replace("-", "_")  # several contestants share the server
    return kind.from_conn_string(
        f"unix://{place}", checkpoint_prefix=f"{prefix}_c", checkpoint_write_prefix=f"{prefix}_w"
    )


async def main(name: str, place: str) -> None:
    trips = Trips()
    async with saver_for(name, place) as saver:
        await saver.setup()
        await serve(Swarm(name, saver), lambda: trips.count)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
