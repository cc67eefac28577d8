"""`frontdesk serve`: the whole desk in one process, with one clear sentence when it cannot start."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from app.banner import EVERYWHERE, Banner, describe_roster, local_url, render
from app.building import open_desk
from app.commands.output import CommandFailed, ExitCode, out
from app.commands.version import frontdesk_version
from app.desk import Desk
from app.keys import desk_key_file
from app.main import Opener, create_app
from app.models import ModelChoice, choose_models
from app.settings import Settings, agents_folder
from handoffs.encoder import Encoder
from handoffs.errors import RosterInvalid
from handoffs.lint import check
from handoffs.roster import Roster

MAX_FRAME_BYTES = 65_536  # of a websocket frame; app/protocol.py refuses smaller ones with a reason
BACKLOG = 2048
REQUESTS_END_S = 1  # for requests under way when we stop; turns have FRONTDESK_STOP_GRACE_S after that, 10 s in all
POOL = str(Path("concurrent") / "futures" / "thread.py")


def serve(settings: Settings, *, works: bool = True) -> None:
    """Run until Ctrl-C or SIGTERM. Raises before anything listens when the desk cannot be opened.

    Without `works` this process only stores and shows messages; `frontdesk worker` processes answer them.
    """
    set_up_logging(settings)
    with _listen(settings.host, settings.port) as listener, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_serve(settings, listener, works))
        leave_if_stuck()


def leave_if_stuck() -> None:
    """End the process now when a tool still blocks a thread: Python would wait for it without limit.

    Everything is closed and given back by then; a thread cannot be stopped, only left behind.
    """
    busy = [ident for ident, frame in sys._current_frames().items() if _works_in_pool(frame)]
    if busy:
        logging.getLogger("frontdesk").warning("%s thread(s) of tools still run and are left behind", len(busy))
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


def _works_in_pool(frame: FrameType | None) -> bool:
    """Whether a thread of a pool is in somebody's function, and not just waiting for work."""
    depth = 0
    while frame is not None:
        if frame.f_code.co_name == "_worker" and frame.f_code.co_filename.endswith(POOL):
            return depth > 0
        depth += 1
        frame = frame.f_back
    return False


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, taken before anything else so that a second start fails at once."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise CommandFailed(f"There is no address {host!r}; set FRONTDESK_HOST or --host", ExitCode.ADDRESS) from None
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CommandFailed(_why_not(error, host, port), ExitCode.ADDRESS) from None
    return listener


def _why_not(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} of {host} is taken by another program; choose one with --port or FRONTDESK_PORT"
        case errno.EACCES:
            return f"This user may not listen on port {port}; ports from 1024 are free for everybody (--port)"
        case errno.EADDRNOTAVAIL:
            return f"This machine does not have the address {host}; set FRONTDESK_HOST or --host"
    return f"Cannot listen on {host}:{port}: {error.strerror}"


async def _serve(settings: Settings, listener: socket.socket, works: bool) -> None:
    doubts = await asyncio.to_thread(_check_agents, settings)
    chosen: list[ModelChoice] = []

    def choose(settings: Settings, roster: Roster, encoder: Callable[[], Encoder]) -> ModelChoice:
        chosen.append(choose_models(settings, roster, encoder))
        return chosen[0]

    async with open_desk(settings, choose=choose, works=works) as desk:
        url = local_url(settings.host, listener.getsockname()[1])
        idle = [] if works else ["this process answers nobody: start `frontdesk worker` with the same settings"]
        warnings = [*idle, *desk.backend.warnings, *chosen[0].warnings, *doubts, *_setting_warnings(settings)]
        banner = _banner(settings, desk, url, warnings)
        warming = asyncio.create_task(asyncio.to_thread(chosen[0].warm))  # while nobody has written yet
        server = _Server(_config(settings, desk), desk, ready=lambda: out.print(render(banner), soft_wrap=True))
        await server.serve(sockets=[listener])
        await warming


def _check_agents(settings: Settings) -> list[str]:
    """The warnings, as one line; RosterInvalid for what `frontdesk check` calls an error."""
    checked = check(agents_folder(settings))
    if checked.errors:
        raise RosterInvalid(checked.errors)
    count = len(checked.warnings)
    return (
        [f"the agent files have {count} {'warning' if count == 1 else 'warnings'}: `frontdesk check`"] if count else []
    )


def _config(settings: Settings, desk: Desk) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(settings, opener=_already_open(desk)),
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,  # short frames: compression costs more memory than it saves bytes
        log_config=None,
        access_log=settings.log_level == "debug",
        timeout_graceful_shutdown=REQUESTS_END_S,
    )


def _already_open(desk: Desk) -> Opener:
    @asynccontextmanager
    async def opener(settings: Settings) -> AsyncIterator[Desk]:
        yield desk

    return opener


class _Server(uvicorn.Server):
    """uvicorn, which says when it is ready, says goodbye to open sockets, and leaves cleanly after a signal."""

    def __init__(self, config: uvicorn.Config, desk: Desk, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._desk = desk
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._desk.drain()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again after serving, and the store would not be closed any more.
        self.force_exit = self.should_exit
        self.should_exit = True


def _banner(settings: Settings, desk: Desk, url: str, warnings: list[str]) -> Banner:
    generated = settings.api_key is None
    return Banner(
        version=frontdesk_version(),
        url=url,
        key_place=f"`frontdesk key` prints it, {desk_key_file(settings)}" if generated else "FRONTDESK_API_KEY",
        store=desk.backend.describe(),
        model=desk.model_description,
        roster=describe_roster(desk.roster, str(agents_folder(settings))),
        warnings=tuple(warnings),
    )


def _setting_warnings(settings: Settings) -> list[str]:
    found = []
    if settings.host in EVERYWHERE and not settings.production:
        found.append("everybody in the network can reach this development server; set FRONTDESK_ENV=production")
    if "*" in settings.allowed_origins:
        found.append("FRONTDESK_ALLOWED_ORIGINS=* lets every website open conversations here")
    return found


def set_up_logging(settings: Settings) -> None:
    """One line per record on stderr, at FRONTDESK_LOG_LEVEL."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    quiet = logging.DEBUG if settings.log_level == "debug" else logging.WARNING
    for name in ("uvicorn", "httpx2", "httpcore2", "openai", "bm25s"):  # their INFO is noise beside our own
        logging.getLogger(name).setLevel(quiet)
