"""agent-squad as a process for `bench.peers`, run by the peers' Python: python -m bench.driver_squad NAME FOLDER.

It routes by a classifier, which is a model call before each turn: here an instant one that picks billing. Its agents
are not transferred to and see nothing of what the others said. It keeps the newest 100 messages of each agent.

* squad-memory, squad-sqlite: its two storages without a cloud, as they come.
* squad-sqlite-all: with MAX_MESSAGE_PAIRS_PER_AGENT so high that nothing is forgotten.
"""
# mypy: disable-error-code="import-not-found, misc, no-any-return"
# Its packages are in the peers' environment only, so to mypy they are all unknown.

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent_squad.agents import Agent, AgentOptions, AgentStreamResponse
from agent_squad.classifiers import Classifier, ClassifierResult
from agent_squad.orchestrator import AgentSquad
from agent_squad.storage import InMemoryChatStorage, SqlChatStorage
from agent_squad.types import AgentSquadConfig, ConversationMessage

from bench.lines import ANSWER, QUESTION, earlier, serve

USER = "customer"
EVERYTHING = 1_000_000  # messages: more than any conversation here has


class InstantAgent(Agent):
    """Streams the answer at once."""

    def is_streaming_enabled(self) -> bool:
        return True

    async def process_request(self, *_: Any, **__: Any) -> Any:
        return self._stream()

    async def _stream(self) -> AsyncIterator[Any]:
        yield AgentStreamResponse(text=ANSWER)
        yield AgentStreamResponse(final_message=message("assistant", ANSWER))


class InstantClassifier(Classifier):
    """Money is billing's."""

    async def process_request(self, input_text: str, chat_history: Any) -> Any:
        return ClassifierResult(selected_agent=self.agents["billing"], confidence=1.0)


def message(role: str, text: str) -> Any:
    return ConversationMessage(role=role, content=[{"text": text}])


class Squad:
    """See the top."""

    def __init__(self, storage: Any, keep: int | None) -> None:
        options = AgentSquadConfig() if keep is None else AgentSquadConfig(MAX_MESSAGE_PAIRS_PER_AGENT=keep)
        self._keep = options.MAX_MESSAGE_PAIRS_PER_AGENT
        self._storage = storage
        self._squad = AgentSquad(options=options, storage=storage, classifier=InstantClassifier())
        for name in ("triage", "billing"):
            self._squad.add_agent(InstantAgent(AgentOptions(name=name, description=name)))
        self._sessions = (f"s{n}" for n in itertools.count(1))

    async def prepare(self, kind: str, history: int) -> str:
        """Saved by its own storage, with its own limit."""
        session = next(self._sessions)
        messages = [message(item["role"], item["content"]) for item in earlier(history)]
        owner = "billing" if kind == "plain" else "triage"
        await self._storage.save_chat_messages(USER, session, owner, messages, self._keep)
        return session

    async def play(self, ready: str) -> None:
        response = await self._squad.route_request(QUESTION, USER, ready, stream_response=True)
        text = "".join([chunk.text async for chunk in response.output])
        assert text == ANSWER, f"the customer got {text!r}"

    async def forget(self, ready: str) -> None:
        newest = (await self._storage.fetch_chat(USER, ready, "billing"))[-2:]
        assert [item.content[0]["text"] for item in newest] == [QUESTION, ANSWER]
        if isinstance(self._storage, InMemoryChatStorage):  # its turn looks through all conversations of all customers
            for agent in ("triage", "billing"):
                self._storage.conversations.pop(f"{USER}#{ready}#{agent}", None)
        else:
            await self._storage.client.execute("DELETE FROM conversations WHERE session_id = ?", [ready])


async def main(name: str, folder: str) -> None:
    if name == "squad-memory":
        storage = InMemoryChatStorage()
    else:
        storage = SqlChatStorage(f"file:{Path(folder) / f'{name}.sqlite'}")
        await storage.initialize()
    await serve(Squad(storage, EVERYTHING if name.endswith("-all") else None))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
