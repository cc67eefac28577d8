"""A real server for tests of the doors: uvicorn as in production, over the test's own store, live reader and router."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from agents import Model
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from app.desk import Desk, Times
from app.identity import Identity
from app.main import create_app
from app.settings import Settings
from handoffs.roster import Roster
from sessions.connect import Backend
from sessions.live import Live
from sessions.store import Store
from tests.handoffs.desks import router_for, shop
from tests.support import SCALE, wait_until

API_KEY = "a-key-for-the-tests-only"
SECRET = "a-secret-for-the-tests-only"
SITE = "https://shop.example"
Frame = dict[str, Any]


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # pytest keeps its own handlers


@dataclass
class Served:
    """A running server: its desk and its address."""

    desk: Desk
    address: str

    @property
    def http(self) -> str:
        return f"http://{self.address}"

    @property
    def ws(self) -> str:
        return f"ws://{self.address}/ws"

    def client(self, **headers: str) -> httpx2.AsyncClient:
        """An HTTP client of this server that holds the API key."""
        return httpx2.AsyncClient(base_url=self.http, headers={"X-API-Key": API_KEY, **headers})

    async def session(self, **body: Any) -> dict[str, Any]:
        """Tokens for a visitor of the server's own page."""
        async with httpx2.AsyncClient(base_url=self.http) as client:
            answer = await client.post(
                "/widget/session", json={"site_key": "demo", **body}, headers={"Origin": self.http}
            )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @asynccontextmanager
    async def socket(self, origin: str | None = None) -> AsyncIterator[Peer]:
        """A socket that has said nothing yet."""
        page = Origin(origin or self.http)
        async with connect(self.ws, origin=page, subprotocols=[Subprotocol("chat.v1")], max_size=None) as raw:
            peer = Peer(raw)
            yield peer
            peer.stop()

    @asynccontextmanager
    async def widget(self, session: dict[str, Any] | None = None, **hello: Any) -> AsyncIterator[Peer]:
        """A socket that has said hello and been welcomed."""
        session = session or await self.session()
        async with self.socket() as peer:
            peer.conversation = session["conversation"]
            await peer.say(t="hello", v=1, token=session["token"], **hello)
            await peer.get("welcome")
            yield peer


@dataclass
class Peer:
    """One end of a socket, which keeps all that it was sent."""

    raw: ClientConnection
    frames: list[Frame] = field(default_factory=list)
    conversation: str = ""

    def __post_init__(self) -> None:
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for text in self.raw:
            self.frames.append(json.loads(text))

    def stop(self) -> None:
        self._reading.cancel()

    async def say(self, **frame: Any) -> None:
        await self.raw.send(json.dumps(frame, ensure_ascii=False))

    async def write(self, text: str, cid: str = "client-id-1", number: int = 1, **more: Any) -> None:
        await self.say(t="send", id=number, cid=cid, text=text, **more)

    def all(self, kind: str) -> list[Frame]:
        return [frame for frame in self.frames if frame["t"] == kind]

    def events(self, name: str) -> list[Frame]:
        return [frame for frame in self.all("ev") if frame["e"] == name]

    async def get(self, kind: str, **fields: Any) -> Frame:
        """The first frame of this kind with these fields, waiting for it."""

        def found() -> list[Frame]:
            return [f for f in self.all(kind) if all(f.get(key) == value for key, value in fields.items())]

        frames: list[Frame] = await wait_until(f"a frame {kind} {fields}", found)
        return frames[0]

    async def said(self, text: str) -> Frame:
        """The event of a message whose text is `text`."""

        def found() -> list[Frame]:
            return [frame for frame in self.events("msg.created") if frame["d"]["text"] == text]

        frames: list[Frame] = await wait_until(f"the message {text!r}", found)
        return frames[0]

    async def closed(self) -> tuple[int | None, str | None]:
        """Close code and reason, waiting for them."""
        async with asyncio.timeout(10 * SCALE):
            await self.raw.wait_closed()
        return self.raw.close_code, self.raw.close_reason


@asynccontextmanager
async def served(
    backend: Backend,
    store: Store,
    live: Live,
    data_dir: Path,
    models: dict[str, Model],
    *,
    roster: Roster | None = None,
    times: Times | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    """A server whose agents answer by `models` (agent id -> model)."""
    router = router_for(store, live, roster or shop(), models, data_dir)
    desk = Desk(
        settings=Settings(data_dir=data_dir, **settings),
        backend=backend,
        store=store,
        live=live,
        router=router,
        identity=Identity(SECRET),
        api_key=API_KEY,
        model_description="scripted",
        offline=True,
        times=times or Times(),
    )
    await router.start()
    try:
        async with _listening(desk) as address:
            yield Served(desk, address)
    finally:
        await router.stop(1)


@asynccontextmanager
async def _listening(desk: Desk) -> AsyncIterator[str]:
    @asynccontextmanager
    async def opener(settings: Settings) -> AsyncIterator[Desk]:
        yield desk

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(desk.settings, opener=opener),
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=65_536,
        ws_per_message_deflate=False,
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await wait_until("the server listens", lambda: server.started)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        listener.close()
