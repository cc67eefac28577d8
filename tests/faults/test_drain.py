"""A graceful stop of the real command: no turn is cut, sockets are told to come back, a stuck tool holds nobody up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import connect
from websockets.typing import Origin, Subprotocol

from tests.app.served import Peer
from tests.e2e.server import free_port
from tests.fakes.openai_server import Call, FakeOpenAI, Say, fake_openai
from tests.support import SCALE, wait_until

KEY = "the-desk-key-of-the-drain-tests"
ANSWER = "Here is a long answer that takes a while to be written."
DESK = "name: Drain\nstart: helper\nlanguages: [en]\nqueues:\n  people: {name: People}\n"
AGENT = "---\nintended_use: Everything.\ntools: [wait]\nread_only: [wait]\n---\nYou help.\n"
TOOL = '''
import time
from pathlib import Path
from agents import function_tool

@function_tool
def wait() -> str:
    """Wait."""
    Path("tool-began").touch()
    time.sleep(600)
    return "done"
'''


class Serving:
    """`frontdesk serve` on a hosted model, started again on the same port and data after it ended."""

    def __init__(self, folder: Path, model: FakeOpenAI, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.url = f"http://127.0.0.1:{free_port()}"
        self.model = model
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def command(self, *words: str) -> asyncio.subprocess.Process:
        """A process of `frontdesk` on this desk; what it prints goes to serve.log."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FRONTDESK_", "OPENAI_", "REDIS"))}
        own = {
            "FRONTDESK_DATA_DIR": str(self.folder / "data"),
            "FRONTDESK_AGENTS": str(self.folder / "agents"),
            "FRONTDESK_API_KEY": KEY,
            "FRONTDESK_LEASE_S": "2",
            "FRONTDESK_MODEL": "gpt-test",
            "OPENAI_API_KEY": "any",
            "OPENAI_BASE_URL": self.model.base_url,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        log = (self.folder / "serve.log").open("ab")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app.cli", *words),
            env={**kept, **own},
            cwd=self.folder,
            stdout=log,
            stderr=log,
        )
        log.close()
        return process

    async def start(self) -> None:
        """`frontdesk serve`, when it is ready."""
        self._process = await self.command("serve", "--port", self.url.rpartition(":")[2], *self.options)
        await wait_until("the server is ready", self._ready, timeout_s=60)

    async def _ready(self) -> bool:
        assert self.process.returncode is None, (self.folder / "serve.log").read_text()
        try:
            async with httpx2.AsyncClient() as client:
                return (await client.get(f"{self.url}/readyz")).status_code == 200
        except httpx2.TransportError:
            return False

    async def ended(self) -> int:
        """The exit status, waiting for it: no longer than the promised ten seconds (more on a slow machine)."""
        async with asyncio.timeout(10 * SCALE):
            return await self.process.wait()

    @asynccontextmanager
    async def widget(self) -> AsyncIterator[Peer]:
        """A customer's socket that was welcomed."""
        async with httpx2.AsyncClient() as client:
            answer = await client.post(
                f"{self.url}/widget/session", json={"site_key": "demo"}, headers={"Origin": self.url}
            )
        session: dict[str, Any] = answer.json()
        address = self.url.replace("http", "ws") + "/ws"
        async with connect(address, origin=Origin(self.url), subprotocols=[Subprotocol("chat.v1")]) as raw:
            peer = Peer(raw, conversation=session["conversation"])
            await peer.say(t="hello", v=1, token=session["token"])
            await peer.get("welcome")
            yield peer
            peer.stop()

    async def texts(self, conversation_id: str) -> list[str]:
        """Every message of a conversation, as the desk reads it."""
        async with httpx2.AsyncClient(headers={"X-API-Key": KEY}) as client:
            found = await client.get(f"{self.url}/v1/conversations/{conversation_id}")
        return [event["data"]["text"] for event in found.json()["events"] if event["type"] == "msg.created"]


@asynccontextmanager
async def serving(folder: Path, *script: Any, options: tuple[str, ...] = ()) -> AsyncIterator[Serving]:
    agents = folder / "agents"
    (agents / "helper").mkdir(parents=True)
    (agents / "desk.yaml").write_text(DESK)
    (agents / "helper" / "agent.md").write_text(AGENT)
    (agents / "helper" / "tools.py").write_text(TOOL)
    async with fake_openai(script) as model:
        server = Serving(folder, model, *options)
        await server.start()
        try:
            yield server
        finally:
            if server.process.returncode is None:
                server.process.kill()
                await server.process.wait()


async def test_a_stop_lets_the_answer_be_finished_and_sends_sockets_away(tmp_path: Path) -> None:
    """SIGTERM while an agent writes: the socket is closed with 1012, the whole answer is stored once, and exit is 0."""
    async with serving(tmp_path, Say(ANSWER, pace_s=0.15)) as server:
        async with server.widget() as peer:
            await peer.write("hello")
            await wait_until("the agent has begun to write", lambda: peer.all("eph"))
            server.process.send_signal(signal.SIGTERM)
            assert (await peer.get("bye"))["reconnect_ms"]
            assert (await peer.closed())[0] == 1012
        assert await server.ended() == 0

        await server.start()
        assert await server.texts(peer.conversation) == ["hello", ANSWER]


async def test_a_stop_is_not_held_up_by_a_tool_that_blocks(tmp_path: Path) -> None:
    """A tool that sleeps for ten minutes is left behind; the message still waits and the next process answers it."""
    async with serving(tmp_path, Call("wait", {}), Say(ANSWER)) as server:
        async with server.widget() as peer:
            await peer.write("hello")
            await wait_until("the tool blocks", lambda: (tmp_path / "tool-began").exists())
            server.process.send_signal(signal.SIGTERM)
        assert await server.ended() == 0

        await server.start()
        await wait_until("the next process answers", lambda: _has(server, peer.conversation, ANSWER), timeout_s=40)
        assert await server.texts(peer.conversation) == ["hello", ANSWER]


async def _has(server: Serving, conversation_id: str, text: str) -> bool:
    return text in await server.texts(conversation_id)
