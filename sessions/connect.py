"""From REDIS_URL to a Backend: two clients to one store that was looked at before it is trusted.

A configured REDIS_URL that does not answer is an error and never a reason to take the embedded server: two stores would
mean two owners.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.client import PubSub
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from sessions.clients import MasterPool, build_clients
from sessions.errors import EmbeddedServerFailed, StoreMisconfigured, StoreUnavailable
from sessions.keys import PREFIX, SHARDS
from sessions.redis_url import HIDDEN, Kind, RedisUrl, masked, parse_redis_url
from sessions.server_checks import CHECKED_SETTINGS, ServerFacts, check_server

if TYPE_CHECKING:
    from sessions.embedded import Lease

__all__ = ["Backend", "connect", "masked"]

log = logging.getLogger(__name__)

LOADING_S = 60.0  # how long a server that was just started may read its data; about 1 GB per 10 s
LOOK_AGAIN_S = 0.1
KEEP_S = 1.0  # how soon a killed supervisor is noticed
KEEP_AGAIN_S = 30.0  # after a failure: a full disk, for example, needs a person
PROBE_MS = 10_000  # a probe's key goes by itself
EMBEDDED_FOLDER = "valkey"  # inside the data folder, which has other things in it as well


@dataclass
class Backend:
    """The store's server, as two clients.

    `cmd` is for commands and scripts: it answers within 5 s or raises, and never sends anything twice.
    `blk` is for pub/sub and blocking reads: no read timeout, and a lost connection is told as well, not papered over
    (a subscription that was silently renewed has missed what was published in between).
    Both give text, not bytes. For a cluster both are RedisCluster clients, which take the same commands.
    """

    kind: Kind
    cmd: Redis = field(repr=False)
    blk: Redis = field(repr=False)
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: list[str] = field(default_factory=list)
    shown: str = ""
    lease: Lease | None = field(default=None, repr=False)
    sentinel: Sentinel | None = field(default=None, repr=False)
    keeper: asyncio.Task[None] | None = field(default=None, repr=False)

    def describe(self) -> str:
        """One line for the banner, in plain words and without a password."""
        facts = ServerFacts(self.info, None)
        name = f"{facts.product} {facts.version}"
        if self.kind == "embedded":
            return f"embedded {name} in {self.lease.folder if self.lease else self.shown} (this machine only)"
        where = {"sentinel": " behind Sentinel", "cluster": " Cluster"}.get(self.kind, "")
        return f"{name}{where} at {self.shown}"

    async def probe(self) -> None:
        """Write a small key on every server that owns conversations; redis-py's error when one of them refuses.

        A PING is not enough: a server that is full, read-only or without its replicas answers that one.
        """
        keys = [probe_key(0)]
        if self.kind == "cluster":
            await cast(RedisCluster, self.cmd).initialize()
            keys = _one_key_each(cast(RedisCluster, self.cmd))
        await asyncio.gather(*(self.cmd.set(key, "1", px=PROBE_MS) for key in keys))

    @property
    def replaceable(self) -> bool:
        """Whether another server may become master in place of one that is silent."""
        return self.kind in ("sentinel", "cluster")

    async def confirm(self) -> None:
        """Ask the Sentinels who is master now; connections to another one are dropped. Cluster nodes say it themselves.

        A master that was frozen and replaced takes writes again when it wakes up, until the Sentinels reach it.
        """
        if self.sentinel is not None:
            await cast(MasterPool, self.cmd.connection_pool).get_master_address()

    async def pubsub(self) -> PubSub:
        """A new subscriber on `blk`. In a cluster it belongs to some primary that the cluster has now: all hear all."""
        if self.kind != "cluster":
            return self.blk.pubsub()
        cluster = cast(RedisCluster, self.blk)
        await cluster.initialize()
        await cluster.nodes_manager.initialize()  # the one before may have died, and nothing else would notice it here
        return cluster.pubsub(node=random.choice(cluster.get_primaries()))  # noqa: S311  # spreads load, no secret

    async def close(self) -> None:
        """Close both clients and give back the lease of an embedded server. May be called twice."""
        if self.keeper is not None:
            self.keeper.cancel()
            await asyncio.wait([self.keeper])
        try:
            for client in (self.cmd, self.blk):
                await client.aclose()
            if self.sentinel is not None:
                await self.sentinel.aclose()
        finally:
            if self.lease is not None:
                await asyncio.to_thread(self.lease.release)


async def connect(url: str | None, *, data_dir: Path, production: bool = False) -> Backend:
    """Connect to what REDIS_URL names, or to the embedded server in `data_dir`, and check it.

    Raises StoreMisconfigured (the URL or the server's settings must be changed), EmbeddedServerFailed, or
    StoreUnavailable (nobody answers there). No text holds a password.
    """
    target = parse_redis_url(url)
    if target.kind == "embedded":
        if production:
            raise StoreMisconfigured(
                "in production REDIS_URL must name a server: the embedded one lives on one machine only. "
                "Set REDIS_URL, or FRONTDESK_ENV=development"
            )
        backend = await _embedded(target, data_dir)
    else:
        backend = _remote(target)
    try:
        await _look_at(backend, target)
    except BaseException:
        await backend.close()
        raise
    return backend


async def _embedded(target: RedisUrl, data_dir: Path) -> Backend:
    if sys.platform == "win32":
        raise EmbeddedServerFailed("there is no embedded server on Windows: set REDIS_URL to a Redis or Valkey server")
    from sessions.embedded import acquire

    folder = target.folder or data_dir / EMBEDDED_FOLDER
    waiting = asyncio.ensure_future(asyncio.to_thread(acquire, folder))
    try:
        lease = await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(_release_unwanted)  # the thread goes on; its lease must not keep the server alive
        raise
    local = RedisUrl("standalone", f"the embedded server in {lease.folder}", path=str(lease.socket))
    clients = build_clients(local)
    keeper = asyncio.create_task(_keep(lease), name="frontdesk: keep the embedded server")
    return Backend("embedded", clients.cmd, clients.blk, shown=local.shown, lease=lease, keeper=keeper)


async def _keep(lease: Lease) -> None:
    """Bring the embedded server back when its supervisor was killed or gave up: the app must not outlive its store."""
    while True:
        await asyncio.sleep(KEEP_S)
        try:
            if lease.supervised():
                continue
            log.warning("the embedded server in %s has lost its supervisor: starting both again", lease.folder)
            await asyncio.to_thread(lease.revive)
        except EmbeddedServerFailed as error:
            log.error("%s", error)
            await asyncio.sleep(KEEP_AGAIN_S)


def _release_unwanted(waiting: asyncio.Future[Lease]) -> None:
    if not waiting.cancelled() and waiting.exception() is None:
        waiting.result().release()


def _remote(target: RedisUrl) -> Backend:
    try:
        clients = build_clients(target)
    except (RedisError, ValueError, TypeError, OSError) as error:  # an option's value that redis-py does not take
        raise StoreMisconfigured(f"REDIS_URL {target.shown} cannot be used: {_text(error, target)}") from None
    return Backend(target.kind, clients.cmd, clients.blk, shown=target.shown, sentinel=clients.sentinel)


async def _look_at(backend: Backend, target: RedisUrl) -> None:
    """Ask every server that can own a conversation what it is, and fill `info` and `warnings`."""
    try:
        servers = await _facts_when_loaded(backend)
    except (AuthenticationError, AuthorizationError, NoPermissionError) as error:
        raise StoreMisconfigured(
            f"{backend.shown} refuses this user or password: {_text(error, target)}. Check REDIS_URL"
        ) from None
    except MasterNotFoundError:
        raise StoreUnavailable(
            f"{backend.shown}: no Sentinel there answers with a master called {target.service!r}. "
            "Start them, or correct REDIS_URL"
        ) from None
    except (RedisConnectionError, RedisTimeoutError, OSError, TimeoutError) as error:
        raise StoreUnavailable(
            f"{backend.shown} does not answer: {_text(error, target)}. Start it, or correct REDIS_URL"
        ) from None
    except RedisClusterException as error:
        raise _cluster_failure(backend, error, target) from None
    except (RedisError, ValueError, TypeError) as error:
        raise StoreMisconfigured(f"{backend.shown} cannot be used: {_text(error, target)}. Check REDIS_URL") from None
    backend.info = servers[0].info
    for facts in servers:
        new = check_server(facts, kind=backend.kind, shown=backend.shown)
        backend.warnings += [warning for warning in new if warning not in backend.warnings]


def _cluster_failure(backend: Backend, error: Exception, target: RedisUrl) -> StoreMisconfigured | StoreUnavailable:
    text = _text(error, target)
    if "not enabled" in text:
        return StoreMisconfigured(f"{backend.shown} is a single server, not a cluster: write redis://host:6379/0")
    return StoreUnavailable(f"{backend.shown} does not answer as a cluster: {text}. Start it, or correct REDIS_URL")


def _text(error: BaseException, target: RedisUrl) -> str:
    """The error's own words, without a password."""
    text = str(error) or type(error).__name__
    for secret in target.secrets:
        text = text.replace(secret, HIDDEN)
    return text.rstrip(".")


async def _facts_when_loaded(backend: Backend) -> Sequence[ServerFacts]:
    """The facts once the data is there: a server that was just started answers INFO, and refuses everything else."""
    deadline = time.monotonic() + LOADING_S
    while True:
        with contextlib.suppress(BusyLoadingError):
            servers = await _facts(backend)
            if not any(facts.info.get("loading") for facts in servers):
                return servers
        if time.monotonic() > deadline:
            raise StoreUnavailable(f"{backend.shown} is still loading its data after {LOADING_S:.0f} s: try again")
        await asyncio.sleep(LOOK_AGAIN_S)


async def _facts(backend: Backend) -> Sequence[ServerFacts]:
    """INFO and CONFIG of the server, or of each primary of a cluster."""
    if backend.kind != "cluster":
        return [ServerFacts(await backend.cmd.info(), await _config(backend.cmd))]
    cluster = cast(RedisCluster, backend.cmd)
    await cluster.initialize()
    facts = []
    for node in cluster.get_primaries():
        info = await cluster.info(target_nodes=node)
        facts.append(ServerFacts(info, await _config(cluster, target_nodes=node)))
    if not facts:
        raise RedisClusterException("no primary node was found")
    return facts


def probe_key(shard: int) -> str:
    """A key without meaning that `probe` writes, on the server of that shard."""
    return f"{PREFIX}:{{s{shard:04d}}}:probe"


def _one_key_each(cluster: RedisCluster) -> list[str]:
    """For every primary the probe key of some shard that it owns."""
    keys: dict[str, str] = {}
    primaries = len(cluster.get_primaries())
    for shard in range(SHARDS):
        node = cluster.get_node_from_key(probe_key(shard))
        if node is not None:
            keys.setdefault(node.name, probe_key(shard))
        if len(keys) == primaries:
            break
    return list(keys.values())


async def _config(client: Redis | RedisCluster, **where: Any) -> Mapping[str, str] | None:
    """The settings that matter; None where CONFIG is renamed or forbidden (managed Redis)."""
    try:
        found: Mapping[Any, Any] = await client.config_get(*CHECKED_SETTINGS, **where)
    except (NoPermissionError, ResponseError):
        return None
    return {str(name): str(value) for name, value in found.items()}
