"""A real HTTP receiver of webhooks: it can be told to fail, to be slow, to redirect, and it verifies signatures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from standardwebhooks import Webhook

from tests.support import wait_until

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw9r8GKYqrTwj="
Answer = Callable[[dict[str, Any]], int]


def fine(_: dict[str, Any]) -> int:
    return 204


@dataclass
class Receiver:
    """What came, in its order. `answer(body)` gives the status; 0: none, until the client gives up."""

    port: int = 0
    answer: Answer = fine
    secret: str = SECRET
    headers: list[dict[str, str]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    extra: str = ""
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks"

    def steps(self, conversation_id: str = "") -> list[str]:
        """The types of what was taken, of one conversation or of all."""
        return [
            body["type"]
            for body in self.taken
            if not conversation_id or body["data"]["conversation_id"] == conversation_id
        ]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as many requests as the client sends over it."""
        self._open.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()

    def hang_up(self) -> None:
        """Close every connection."""
        for writer in self._open:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                self.paths.append(line.decode().split()[1])
                headers = {}
                while (row := (await reader.readline()).decode().strip()) != "":
                    name, _, value = row.partition(":")
                    headers[name.lower()] = value.strip()
                data = await reader.readexactly(int(headers.get("content-length", "0")))
                body = Webhook(self.secret).verify(data, headers)  # raises: the connection breaks, nothing is taken
                self.headers.append(headers)
                status = self.answer(body)
                if status == 0:
                    await reader.read()  # until the client hangs up
                    return
                (self.taken if 200 <= status < 300 else self.refused).append(body)
                writer.write(f"HTTP/1.1 {status} X\r\n{self.extra}content-length: 0\r\n\r\n".encode())
                await writer.drain()


@asynccontextmanager
async def receiving(receiver: Receiver) -> AsyncIterator[Receiver]:
    """The receiver listens, on its port if it had one before."""
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", receiver.port)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        receiver.hang_up()
        await wait_until("all connections are closed", lambda: not receiver._open)
