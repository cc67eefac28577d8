"""The embedded server: a real Valkey that all local app processes share, without anybody having to start it.

    lease = acquire(folder)        # starts the server when nobody has; joins it when it runs
    redis.asyncio.Redis(unix_socket_path=str(lease.socket))
    lease.release()                # optional: the kernel releases it on any death, kill -9 included

`sessions.supervisor` explains the locks; here is the app's side of them. Linux and macOS only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sessions import supervisor
from sessions.embedded_folder import (
    ELSEWHERE,
    POLL_S,
    open_lock,
    prepare_folder,
    socket_path,
    try_folder_lock,
    unlock,
    wait_for_lock,
)
from sessions.errors import EmbeddedServerFailed
from sessions.server_binary import find_server_binary
from sessions.supervisor import Answer, Settings, State, probe

START_LOCK = "start.lock"
SUPERVISOR_LOG = "supervisor.log"
HELD = f"a process holds its {supervisor.SUPERVISOR_LOCK} (`lsof` names it)"
LOG_TAIL_BYTES = 1200  # enough for the last errors of the server, short enough for a terminal
LOG_MAX_BYTES = 1_000_000  # older logs are moved aside at the next start

# What the supervisor may know of this process's environment: where programs and libraries are, and no secrets.
ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass
class Lease:
    """The right of this process to use the server, until `release()` or the process's end, whatever ends it.

    `started` says that the last call (`acquire` or `revive`) started the server; the pids are those of that moment.
    """

    folder: Path
    socket: Path
    version: str
    server_pid: int
    supervisor_pid: int
    started: bool
    grace_s: float
    _users: int = field(repr=False)

    def supervised(self) -> bool:
        """Whether a supervisor still watches over the server. Costs three system calls."""
        lock = _free_supervisor_lock(self.folder)
        if lock is None:
            return True
        os.close(lock)
        return False

    def revive(self, *, timeout_s: float = 30.0) -> None:
        """Start supervisor and server again, at the same socket, when somebody killed the supervisor; else do nothing.

        Raises EmbeddedServerFailed, also when the lease was released.
        """
        if self._users < 0:
            raise EmbeddedServerFailed(f"the lease of the embedded server in {self.folder} was released")
        deadline = time.monotonic() + timeout_s
        with _one_starter(self.folder, deadline):
            state, answer, self.started = _join_or_start(self.folder, deadline, self.grace_s, self.socket)
        self.server_pid, self.supervisor_pid, self.version = answer.pid, state.supervisor_pid, answer.version

    def release(self) -> None:
        """Give the lease back; the server ends when it was the last one. May be called twice."""
        if self._users >= 0:
            os.close(self._users)
            self._users = -1

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(data_dir: Path, *, timeout_s: float = 30.0, grace_s: float = 2.0) -> Lease:
    """Join the server of `data_dir`, or start one; blocks up to `timeout_s`.

    The server outlives its last user by `grace_s`, so that a restart of the app finds it warm.
    Raises EmbeddedServerFailed with the folder, the reason and what to do.
    """
    deadline = time.monotonic() + timeout_s
    folder = prepare_folder(data_dir)
    with _one_starter(folder, deadline):
        users = open_lock(folder / supervisor.USERS_LOCK)
        try:
            holder = "the previous server is still stopping, or a program that is not Frontdesk holds it"
            wait_for_lock(users, fcntl.LOCK_SH, folder / supervisor.USERS_LOCK, deadline, holder)
            state, answer, started = _join_or_start(folder, deadline, grace_s, None)
        except BaseException:
            os.close(users)
            raise
    pids = (answer.pid, state.supervisor_pid)
    return Lease(folder, Path(state.socket), answer.version, *pids, started, grace_s, users)


@contextlib.contextmanager
def _one_starter(folder: Path, deadline: float) -> Iterator[None]:
    """Let one process at a time look for a server and start it.

    Without it, a second one could take the server that a killed supervisor left behind, and that is just ending, for
    the new one.
    """
    path = folder / START_LOCK
    fd = open_lock(path)
    try:
        wait_for_lock(fd, fcntl.LOCK_EX, path, deadline, "another process is starting the server there")
    except BaseException:
        os.close(fd)
        raise
    try:
        yield
    finally:
        unlock(fd)


def _join_or_start(folder: Path, deadline: float, grace_s: float, socket: Path | None) -> tuple[State, Answer, bool]:
    """The running supervisor and its server, and whether they were started here (at `socket`, or a fitting path)."""
    started = False
    while True:
        lock = _free_supervisor_lock(folder)
        if lock is not None:
            try:
                if started:
                    raise EmbeddedServerFailed(_failure(folder, "did not start"))
                _start_supervisor(folder, lock, grace_s, socket or socket_path(folder))
                started = True
            finally:
                os.close(lock)  # the supervisor has inherited it, and with it the lock
        elif (found := _running(folder)) is not None:
            return *found, started
        if time.monotonic() > deadline:
            raise EmbeddedServerFailed(_failure(folder, f"was not ready in time, though {HELD}"))
        time.sleep(POLL_S)


def _free_supervisor_lock(folder: Path) -> int | None:
    """The descriptor of supervisor.lock, locked, when no supervisor runs; else None."""
    path = folder / supervisor.SUPERVISOR_LOCK
    fd = open_lock(path)
    if try_folder_lock(fd, fcntl.LOCK_EX, path):
        return fd
    os.close(fd)
    return None


def _running(folder: Path) -> tuple[State, Answer] | None:
    """What the running supervisor has written down, when its server answers and has its data."""
    try:
        state = State(**json.loads((folder / supervisor.STATE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    answer = probe(state.socket)
    return None if answer is None or answer.loading else (state, answer)


def _start_supervisor(folder: Path, lock: int, grace_s: float, socket: Path) -> None:
    """Start the supervisor in a session of its own: Ctrl-C in the terminal must not reach the server."""
    settings = Settings(str(folder), str(socket), str(find_server_binary()), grace_s, lock)
    if not sys.executable:
        raise EmbeddedServerFailed(f"the embedded server needs a Python program to watch over it. {ELSEWHERE}.")
    (folder / supervisor.STATE_FILE).unlink(missing_ok=True)  # of a supervisor that was killed
    for name in (SUPERVISOR_LOG, supervisor.SERVER_LOG):
        _set_aside(folder / name)
    with (folder / SUPERVISOR_LOG).open("ab") as log:
        subprocess.run(  # noqa: S603  # this interpreter and a file of this package
            [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(asdict(settings))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,
            cwd=folder,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            check=False,
            timeout=30,
        )


def _set_aside(log: Path) -> None:
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_MAX_BYTES:
            log.replace(log.with_suffix(".log.1"))


def _failure(folder: Path, what: str) -> str:
    tails = [
        f"{path.name}: ...{tail}"
        for path in (folder / SUPERVISOR_LOG, folder / supervisor.SERVER_LOG)
        if (tail := _tail(path))
    ]
    ending = "\n".join(["The ends of its logs:", *tails]) if tails else "It wrote no log."
    return f"the embedded server in {folder} {what}. {ELSEWHERE}. {ending}"


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace").strip()
    except OSError:
        return ""
