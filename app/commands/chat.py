"""`frontdesk chat`: a customer in the terminal, over the very protocol that the widget speaks."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import threading
import time
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
from rich.text import Text
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Origin, Subprotocol

from app.commands.client import answer_of, is_local, no_server
from app.commands.output import CommandFailed, ExitCode, err, safe
from app.commands.screen import Screen
from app.protocol import SUBPROTOCOL, VERSION

QUIET_S = 1.0  # an answer is whole when nothing came for so long and nobody works on it
PROMPT = "you: "
HTTP_TIMEOUT_S = 10.0


async def chat(url: str, *, site_key: str, language: str | None, once: str | None, timeout_s: float) -> None:
    """Talk until Ctrl-D, or send `once` and print the answer. CommandFailed when it cannot."""
    session = await _open_session(url, site_key, language)
    async with _connected(url, session["token"], language) as socket:
        line = Line(socket, timeout_s)
        reader = asyncio.create_task(line.read())
        talk = asyncio.create_task(line.say(once) if once is not None else line.converse())
        done, _ = await asyncio.wait({reader, talk}, return_when=asyncio.FIRST_COMPLETED)
        for task in (reader, talk):
            if task not in done:
                task.cancel()
        await asyncio.gather(reader, talk, return_exceptions=True)
        for task in done:
            task.result()


async def _open_session(url: str, site_key: str, language: str | None) -> dict[str, Any]:
    body = {"site_key": site_key} | ({"lang": language} if language else {})
    async with httpx2.AsyncClient(timeout=HTTP_TIMEOUT_S, trust_env=not is_local(url)) as http:
        try:
            response = await http.post(f"{url}/widget/session", json=body, headers={"Origin": url})
        except httpx2.HTTPError as error:
            raise no_server(url, error) from None
    return answer_of(response, url)


@asynccontextmanager
async def _connected(url: str, token: str, language: str | None) -> Any:
    """An open socket after `hello`."""
    address = "ws" + url.removeprefix("http") + "/ws"
    proxy: Literal[True] | None = None if is_local(url) else True
    try:
        async with connect(
            address, subprotocols=[Subprotocol(SUBPROTOCOL)], origin=Origin(url), compression=None, proxy=proxy
        ) as socket:
            hello = {"t": "hello", "v": VERSION, "token": token, "seq": 0, "client": "frontdesk chat"}
            await socket.send(json.dumps(hello | ({"lang": language} if language else {})))
            yield socket
    except ConnectionClosed as closed:
        reason = safe(closed.rcvd.reason) if closed.rcvd and closed.rcvd.reason else "it is gone"
        raise CommandFailed(f"The server closed the connection: {reason}", ExitCode.NO_SERVER) from None
    except (OSError, InvalidHandshake) as error:
        raise no_server(url, error) from None


class Line:
    """One open connection: reads frames into the screen, sends messages, waits for answers."""

    def __init__(self, socket: ClientConnection, timeout_s: float) -> None:
        self._socket = socket
        self._timeout_s = timeout_s
        self._screen = Screen(write=_write, note=_note)
        self._heard = asyncio.Condition()
        self._heard_at = time.monotonic()
        self._refused: str | None = None
        self._prompting = False
        self._number = 0
        self._ready = asyncio.Event()

    async def read(self) -> None:
        """Show what comes until the connection ends."""
        async for text in self._socket:
            frame = json.loads(text)
            if self._prompting and _will_print(frame):
                _write("\r")
            self._screen.show(frame)
            if self._prompting and _will_print(frame):
                _write(PROMPT)
            if frame["t"] == "ping":
                await self._socket.send(json.dumps({"t": "pong", "ack": self._screen.seq}))
            if frame["t"] == "bye":
                raise CommandFailed("The server is going down; the conversation is kept there", ExitCode.NO_SERVER)
            if frame["t"] == "err":
                self._refused = safe(str(frame.get("message")))
            if frame["t"] == "live":
                self._ready.set()
            async with self._heard:
                self._heard_at = time.monotonic()
                self._heard.notify_all()

    async def say(self, text: str) -> None:
        """Send one message and wait for its whole answer; CommandFailed (NO_ANSWER) when none comes in time."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ready.wait()
                self._number += 1
                client_id = secrets.token_hex(8)
                self._screen.ask(client_id)
                self._refused = None
                await self._socket.send(
                    json.dumps(
                        {"t": "send", "id": self._number, "cid": client_id, "text": text, "ack": self._screen.seq}
                    )
                )
                await self._answer()
        except TimeoutError:
            raise CommandFailed(f"No answer within {self._timeout_s:g} s", ExitCode.NO_ANSWER) from None

    async def _answer(self) -> None:
        while True:
            if self._refused is not None:
                raise CommandFailed(f"The server did not take the message: {self._refused}", ExitCode.REFUSED)
            done = self._screen.asked_at is not None and self._screen.answered and not self._screen.working
            left = QUIET_S - (time.monotonic() - self._heard_at)
            if done and left <= 0:
                return
            async with self._heard:
                try:
                    async with asyncio.timeout(max(left, 0.01) if done else None):
                        await self._heard.wait()
                except TimeoutError:
                    continue

    async def converse(self) -> None:
        """Read lines from the keyboard (or a pipe) until their end, one message each."""
        keyboard = Keyboard()
        await self._ready.wait()
        while True:
            self._prompting = sys.stdin.isatty()
            line = await keyboard.line(PROMPT if self._prompting else "")
            self._prompting = False
            if line is None:
                _write("\n" if sys.stdin.isatty() else "")
                return
            if not line.strip():
                continue
            try:
                await self.say(line.strip())
            except CommandFailed as failed:  # the conversation goes on; a person may still answer
                _note(str(failed))


class Keyboard:
    """Lines of stdin, read in a thread that may be left behind: a terminal cannot be read in any other way."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._read, daemon=True, name="keyboard").start()

    async def line(self, prompt: str) -> str | None:
        """The next line, None at the end."""
        _write(prompt)
        self._wanted.release()
        return await self._lines.get()

    def _read(self) -> None:
        while True:
            self._wanted.acquire()
            text = sys.stdin.readline()
            self._loop.call_soon_threadsafe(self._lines.put_nowait, text if text else None)


def _will_print(frame: dict[str, Any]) -> bool:
    return frame["t"] == "ev" and frame.get("e") in ("msg.created", "owner.changed", "notice")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(text: str) -> None:
    err.print(Text(f"— {text}", style="dim"), soft_wrap=True)
