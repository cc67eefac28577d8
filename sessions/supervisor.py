"""The supervisor: a process of its own that keeps one Valkey alive for one folder and ends it with the last app.

`sessions.embedded` starts this very file as `python -I -S supervisor.py <settings>`, so that neither the current
folder, nor the way Frontdesk is installed, nor its other packages matter. Therefore: standard library only, and no
import from this project. How it decides (research/embedded-redis.md, "Process lifetime"):

* Every app process holds a SHARED flock on `users.lock`. Getting it EXCLUSIVELY means that no app is left. The kernel
  drops a flock with the last descriptor, so a `kill -9` needs no handling.
* `supervisor.lock` comes locked from the starter, as an inherited descriptor: one supervisor per folder, without a gap.
* `server.lock` is inherited by the server: whoever holds it may still write the append-only file, so a new server waits
  until it is free. Two servers on one folder would destroy it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

USERS_LOCK = "users.lock"
SUPERVISOR_LOCK = "supervisor.lock"
SERVER_LOCK = "server.lock"
STATE_FILE = "server.json"
SERVER_LOG = "server.log"

TICK_S = 0.25  # how often to look whether an app is left; small beside the grace of 2 s, unnoticeable for the CPU
MAX_RESTARTS = 5  # a server that dies more often than this within WINDOW_S has a reason that a restart does not cure
WINDOW_S = 60.0
STOP_S = 10.0  # how long a server may take to end after SIGTERM
GAVE_UP = 3  # exit status
PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>


@dataclass(frozen=True)
class Answer:
    """What a server says about itself. `loading`: it is still reading its append-only file."""

    version: str
    pid: int
    loading: bool


@dataclass(frozen=True)
class Settings:
    """What the starter tells the supervisor. `lock_fd` is the inherited descriptor of `supervisor.lock`."""

    folder: str
    socket: str
    binary: str
    grace_s: float
    lock_fd: int


@dataclass(frozen=True)
class State:
    """What `server.json` says; it exists only while a supervisor's server has answered at least once."""

    socket: str
    supervisor_pid: int


def probe(socket_path: str, timeout_s: float = 1.0) -> Answer | None:
    """Ask the server behind a unix socket who it is (INFO also answers while it loads); None when nobody answers."""
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(timeout_s)
            peer.connect(socket_path)
            peer.sendall(b"INFO\r\n")
            return parse_info(_read_bulk(peer))
    except (OSError, ValueError):
        return None


def _read_bulk(peer: socket.socket) -> str:
    """One RESP bulk string; ValueError when something else or nothing comes."""
    received = b""
    while b"\r\n" not in received:
        received += _receive(peer)
    head, _, body = received.partition(b"\r\n")
    if not head.startswith(b"$"):
        raise ValueError(head.decode(errors="replace"))
    while len(body) < int(head[1:]):
        body += _receive(peer)
    return body.decode(errors="replace")


def _receive(peer: socket.socket) -> bytes:
    chunk = peer.recv(65536)
    if not chunk:
        raise ValueError("the connection was closed in the middle of an answer")
    return chunk


def parse_info(text: str) -> Answer:
    """The Answer in the text of INFO; ValueError when it is not complete."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    version = fields.get("valkey_version") or fields.get("redis_version") or ""
    return Answer(version, int(fields.get("process_id", "")), fields.get("loading") == "1")


def server_command(settings: Settings) -> list[str]:
    """The server's command line: a private unix socket only, and every write on the disk before its answer."""
    options = {
        "port": "0",
        "unixsocket": settings.socket,
        "unixsocketperm": "700",
        "dir": settings.folder,
        "appendonly": "yes",
        "appendfsync": "always",  # design/store.md: the promise that no acknowledged message is lost
        "aof-use-rdb-preamble": "no",  # plain commands: the folder can be moved to any Redis or Valkey
        "save": "",
        "maxmemory-policy": "noeviction",
        "maxclients": "10000",
        "daemonize": "no",
        "logfile": str(Path(settings.folder, SERVER_LOG)),
    }
    return [settings.binary, *(word for name, value in options.items() for word in (f"--{name}", value))]


def restart_allowed(crashes: list[float], now: float) -> bool:
    """Whether a server whose deaths are at `crashes` (monotonic seconds, the newest included) may start once more."""
    return sum(1 for at in crashes if now - at < WINDOW_S) <= MAX_RESTARTS


def try_lock(fd: int, how: int) -> bool:
    """Take a flock without waiting; False when somebody else holds it."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def say(text: str) -> None:
    """One line for supervisor.log, which the starter made this process's stderr."""
    print(time.strftime("%Y-%m-%d %H:%M:%S"), f"[{os.getpid()}]", text, file=sys.stderr, flush=True)


class Supervisor:
    """Owns one server process, from its start to its end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.folder = Path(settings.folder)
        self.users = os.open(self.folder / USERS_LOCK, os.O_RDWR)
        self.server_lock = os.open(self.folder / SERVER_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        self.server: subprocess.Popen[bytes] | None = None
        self.announced = False
        self.crashes: list[float] = []
        self.terms = 0  # SIGTERMs received: 1 = end as soon as no app is left, 2 = end now
        self.wake = _wake_on_signals(self._on_term)

    def run(self) -> int:
        """Start the server and stay until no app is left; the exit status."""
        if not self._wait_for_the_previous_server():
            return GAVE_UP
        self.server = self._spawn()
        idle_since: float | None = None
        while self.terms < 2:
            if self.server.poll() is not None and not self._restart():
                return GAVE_UP
            self._announce()
            idle_since = self._idle_since(idle_since)
            if idle_since is not None and time.monotonic() - idle_since >= self._grace_s():
                break  # still holding users.lock: a newcomer waits until this process is gone, then starts afresh
            if idle_since is not None:
                fcntl.flock(self.users, fcntl.LOCK_UN)
            self._pause(TICK_S if self.announced else 0.01)
        self._stop()
        return 0

    def _grace_s(self) -> float:
        # A process manager that ends a whole service group sends SIGTERM to this process too, while the apps still
        # drain: the store must outlive them.
        return 0.0 if self.terms else self.settings.grace_s

    def _idle_since(self, before: float | None) -> float | None:
        """Since when no app is left; None while there is one. Holds users.lock exclusively when it gives a time."""
        if not try_lock(self.users, fcntl.LOCK_EX):
            return None
        return time.monotonic() if before is None else before

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  # the binary comes from the starter, the options from this file
            server_command(self.settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=sys.stderr,
            pass_fds=(self.server_lock,),
            # preexec_fn is safe here: this process has one thread
            preexec_fn=_die_with(os.getpid()) if sys.platform == "linux" else None,
        )

    def _restart(self) -> bool:
        """Start a server that died once more, unless it keeps dying."""
        now = time.monotonic()
        status = self.server.returncode if self.server else None
        self.crashes = [at for at in self.crashes if now - at < WINDOW_S] + [now]
        if not restart_allowed(self.crashes, now):
            say(f"the server ended {len(self.crashes)} times within {WINDOW_S:.0f} s (last status {status}): giving up")
            self._forget()
            return False
        say(f"the server ended with status {status}: restart {len(self.crashes)}")
        self.server = self._spawn()
        return True

    def _announce(self) -> None:
        """Write server.json as soon as the server answers for the first time."""
        if self.announced:
            return
        answer = probe(self.settings.socket)
        if answer is None or answer.loading or self.server is None or answer.pid != self.server.pid:
            return
        temporary = self.folder / (STATE_FILE + ".new")
        temporary.write_text(json.dumps(asdict(State(self.settings.socket, os.getpid()))), encoding="utf-8")
        temporary.replace(self.folder / STATE_FILE)
        self.announced = True

    def _wait_for_the_previous_server(self) -> bool:
        """Take server.lock. A server without its supervisor (kill -9 on macOS) still holds it: ask that one to end."""
        deadline = time.monotonic() + STOP_S
        asked = False
        while not try_lock(self.server_lock, fcntl.LOCK_EX):
            left_over = probe(self.settings.socket)
            if left_over and not asked:
                say(f"a server without its supervisor, pid {left_over.pid}, is asked to end")
                _send(left_over.pid, signal.SIGTERM)
                asked = True
            if time.monotonic() > deadline:
                who = f"pid {left_over.pid}" if left_over else "a process that does not answer"
                say(f"an earlier server ({who}) still holds {self.folder / SERVER_LOCK}: stop it by hand")
                return False
            self._pause(0.02)
        return True

    def _stop(self) -> None:
        """SIGTERM lets the server write what it has; SIGKILL only when it does not end."""
        server = self.server
        if server is None:
            return
        server.terminate()
        deadline = time.monotonic() + STOP_S
        while server.poll() is None and time.monotonic() < deadline:
            self._pause(0.05)
        if server.poll() is None:
            say(f"the server did not end within {STOP_S:.0f} s: killed")
            server.kill()
            server.wait()
        self._forget()

    def _forget(self) -> None:
        """Remove what points at a server that is no more."""
        for path in (self.folder / STATE_FILE, Path(self.settings.socket)):
            path.unlink(missing_ok=True)
        if Path(self.settings.socket).parent != self.folder:
            with contextlib.suppress(OSError):
                Path(self.settings.socket).parent.rmdir()

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the next signal (a server that ended, a request to end)."""
        if select.select([self.wake], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 4096)

    def _on_term(self) -> None:
        self.terms += 1


def _wake_on_signals(on_term: Callable[[], None]) -> int:
    """A descriptor that becomes readable with each SIGCHLD and SIGTERM. Ctrl-C is not for this process."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: on_term())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return readable


def _die_with(supervisor_pid: int) -> Callable[[], None]:
    """Linux: a child that gets SIGTERM from the kernel when the supervisor dies, even by kill -9."""

    def before_exec() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor_pid:  # it died in between: the kernel will not tell any more
            os._exit(1)

    return before_exec


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def main() -> int:
    """Leave the starter's family (nobody has to reap this process), then supervise."""
    settings = Settings(**json.loads(sys.argv[1]))
    if os.fork():
        os._exit(0)
    os.umask(0o077)  # logs and data are this user's alone
    try:
        return Supervisor(settings).run()
    except (OSError, subprocess.SubprocessError) as error:
        say(f"failed: {error}")
        return GAVE_UP


if __name__ == "__main__":
    sys.exit(main())
