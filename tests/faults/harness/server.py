"""The Valkey of a run: `appendfsync always`, on a unix socket of its own, and the nemesis may kill it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from sessions.server_binary import find_server_binary

START_S = 20.0  # on a busy machine with some megabytes of append-only file to read
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be imported


def die_with_parent() -> None:
    """In a child between fork and exec: the kernel kills it when its parent is gone, so that nothing is left over."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class ValkeyServer:
    """One server process on one folder. `start` after `kill` comes back on the same data."""

    def __init__(self, folder: Path, *, fsync: str = "always", env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self._fsync = fsync
        self._env = env or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def append_only_folder(self) -> Path:
        return self.folder / "appendonlydir"

    def start(self) -> None:
        """Start, and wait until it answers with its data loaded."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start only. The kernel kills the server when the *thread* that called this ends."""
        self._process = subprocess.Popen(
            [
                *(
                    str(find_server_binary()),
                    "--port",
                    "0",
                    "--unixsocket",
                    str(self.socket),
                    "--dir",
                    str(self.folder),
                ),
                *("--appendonly", "yes", "--appendfsync", self._fsync, "--save", "", "--logfile", "server.log"),
                *("--auto-aof-rewrite-percentage", "0", "--daemonize", "no"),
            ],
            env={**os.environ, **self._env},
            preexec_fn=die_with_parent,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_ready(self) -> None:
        """Return once it answers; AssertionError with the end of its log when it does not."""
        deadline = time.monotonic() + START_S
        with self.client() as client:
            while True:
                try:
                    if client.ping():
                        return
                except (RedisError, OSError):
                    pass
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / "server.log").read_text("utf-8", errors="replace")
                    raise AssertionError(f"the server did not start:\n{log[-2000:]}")
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody says goodbye."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def freeze(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def client(self) -> Redis:
        """A plain client, for the nemesis and for evidence."""
        return Redis(unix_socket_path=str(self.socket), decode_responses=True, retry=Retry(NoBackoff(), 0))

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
