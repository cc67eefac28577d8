"""One worker process: a real Router on a real store, behind a door of JSON lines on a unix socket.

`frontdesk serve` has HTTP and WebSockets in front of the same Router; here the door is as thin as it can be, so that a
run of a minute makes enough operations.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from agents import set_tracing_disabled

from handoffs.router import CustomerMessage, Person, Router
from sessions.connect import Backend, connect
from sessions.errors import FrontdeskError, StoreError
from sessions.live import Live
from sessions.model import Token
from sessions.scripts import SCRIPTS, Scripts, source
from tests.faults.harness.history import Journal
from tests.faults.harness.model import PlannedModel
from tests.faults.harness.recorded import RecordedStore
from tests.handoffs.desks import router_for, shop

T = TypeVar("T")
RETRY_S = 0.1  # the server may be down when a worker starts


@dataclass(frozen=True, slots=True)
class Sabotage:
    """One change to a Lua script (`*`: to all of them) that breaks a promise: the harness must notice."""

    script: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker process is told; it travels as JSON."""

    name: str
    url: str
    door: str
    journal: str  # a folder
    folder: str
    lease_ms: int
    sweep_s: float
    sabotage: tuple[Sabotage, ...] = ()

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> WorkerConfig:
        row = json.loads(text)
        return cls(**{**row, "sabotage": tuple(Sabotage(**change) for change in row["sabotage"])})


def main(config: WorkerConfig) -> None:
    """Run until killed."""
    logging.basicConfig(filename=Path(config.folder) / f"{config.name}.log", level=logging.WARNING)
    set_tracing_disabled(True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the loop that `frontdesk serve` has
        runner.run(_serve(config))


def sabotaged(changes: Iterable[Sabotage]) -> dict[str, str]:
    """The texts of the scripts with the changes made; AssertionError when a script has no such text any more."""
    texts: dict[str, str] = {}
    for change in changes:
        for name in SCRIPTS if change.script == "*" else (change.script,):
            text = texts.get(name) or source(name)
            assert change.old in text, f"{name}.lua has no {change.old!r} to break"
            texts[name] = text.replace(change.old, change.new)
    return texts


async def _serve(config: WorkerConfig) -> None:
    backend = await _connected(config)
    life = f"{config.name}-{time.monotonic_ns()}"  # a worker that comes back starts a file of its own
    journal = Journal(Path(config.journal) / f"{life}.jsonl", life)
    scripts = Scripts(backend.cmd, sabotaged(config.sabotage))
    store = RecordedStore(backend, journal, worker=config.name, lease_ms=config.lease_ms, scripts=scripts)
    live = Live(backend, store)
    await _persist(live.start)
    desk = shop(limits={"transfers_per_conversation": 200})
    models = {agent_id: PlannedModel(agent_id, config.lease_ms) for agent_id in desk.agents}
    router = router_for(store, live, desk, models, Path(config.folder), sweep_s=config.sweep_s)
    await router.start()
    with contextlib.suppress(FileNotFoundError):  # of this worker's last life
        os.unlink(config.door)  # noqa: PTH108  # pathlib has no place in async code, says the linter
    server = await asyncio.start_unix_server(lambda reader, writer: _visitor(router, reader, writer), config.door)
    await server.serve_forever()


async def _connected(config: WorkerConfig) -> Backend:
    return await _persist(lambda: connect(config.url, data_dir=Path(config.folder)))


async def _persist(make: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await make()
        except (StoreError, TimeoutError) as error:
            logging.warning("not yet: %s", error)
            await asyncio.sleep(RETRY_S)


async def _visitor(router: Router, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One client's connection: a request per line, answered in turn."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while line := await reader.readline():
            try:
                answer = await handle(router, json.loads(line))
            except FrontdeskError as error:
                answer = {"error": type(error).__name__, "text": str(error)[:300]}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
    writer.close()


async def handle(router: Router, ask: dict[str, Any]) -> dict[str, Any]:
    """What the door does with a request; the router's own errors pass through."""
    conversation_id = str(ask["c"])
    if ask["op"] == "send":
        receipt = await router.receive(conversation_id, CustomerMessage(ask["id"], ask["text"]))
        return {"ids": [receipt.event_id], "duplicate": receipt.duplicate}
    person = Person(ask["person"], ask["person"].title())
    if ask["op"] == "take":
        taken = await router.take(conversation_id, person=person, force=ask["force"])
        return {"token": str(taken.token), "ids": [f"{taken.token.epoch}-{taken.seq}"]}
    token = Token.parse(ask["token"])
    if ask["op"] == "say":
        said = await router.say(conversation_id, token, person, ask["text"], ask["id"])
        return {"ids": list(said.event_ids), "duplicate": said.duplicate}
    back = await router.hand_back(conversation_id, token, person, ask["to"], "the harness hands back")
    return {"ids": list(back.event_ids), "duplicate": back.duplicate}
