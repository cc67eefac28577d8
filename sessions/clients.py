"""The two redis-py clients of a store, for one server, for Sentinel and for a cluster. Nothing is sent here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import hiredis
from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis, RedisCluster, SSLConnection
from redis.asyncio.cluster import ClusterNode, ClusterPipeline
from redis.asyncio.connection import Connection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sessions.redis_url import RedisUrl

ANSWER_S = 5.0  # a script takes milliseconds; a server that needs longer is not there
CONNECT_S = 2.0
HEALTH_S = 15  # an idle connection is asked before it is used again: load balancers drop silent ones
POOL_WAIT_S = 5.0  # for a free connection, when all are in use (one server only: redis-py has it for no other kind)
LATE_S = 0.2  # how long the last Sentinels are waited for, once most have answered
CMD_CONNECTIONS = 500  # one per command in flight; many processes share the server's 10000
BLK_CONNECTIONS = 1000


class _Packed:
    """A connection whose commands hiredis packs: for 40 arguments five times as fast as redis-py's asyncio code."""

    def pack_command(self, *args: Any) -> list[bytes]:
        """The bytes to send. A name of two words (`CONFIG GET`) is two arguments, as everywhere in redis-py."""
        return [hiredis.pack_command((*args[0].split(), *args[1:]))]


class PackedConnection(_Packed, Connection):
    """Over TCP."""


class PackedSSLConnection(_Packed, SSLConnection):
    """Over TLS."""


class PackedUnixConnection(_Packed, UnixDomainSocketConnection):
    """Over a socket file."""


@dataclass(frozen=True)
class Clients:
    """`cmd` never sends anything twice and gives up after 5 s; `blk` waits for as long as it takes."""

    cmd: Redis
    blk: Redis
    sentinel: Sentinel | None = None


class Cluster(RedisCluster):
    """redis-py's cluster client, whose pipelines find the new master after a failover as well.

    redis-py (8.1) looks the cluster up again after a failed command, but not after a failed pipeline without retries: a
    process that only sweeps and reads would ask a dead master for ever.
    """

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> ClusterPipeline:
        return Pipeline(self, transaction)  # type: ignore[abstract]  # redis-py sets the attribute in __init__


class Pipeline(ClusterPipeline):
    """See Cluster."""

    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        try:
            return await super().execute(raise_on_error, allow_redirections)
        except RedisCluster.ERRORS_ALLOW_RETRY:
            self.cluster_client._initialize = True  # as redis-py does it for commands; it has no public name for this
            raise


class Sentinels(Sentinel):
    """redis-py's Sentinel client, which asks all Sentinels at once and believes the newest of their answers.

    After a failover the others learn of the new master from the one that did it, up to 2 s later.

    redis-py (8.1) believes the first one that answers, and swaps entries of its list around an await: two tasks that
    look for the master at the same time make it forget a Sentinel for ever.
    """

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """(host, port) of the master; MasterNotFoundError when no Sentinel knows a living one."""
        waiting = {asyncio.ensure_future(self._ask(sentinel, service_name)) for sentinel in self.sentinels}
        majority = len(waiting) // 2 + 1
        answers: list[dict[str, Any]] = []
        try:
            while waiting:
                patience = LATE_S if len(answers) >= majority else None
                done, waiting = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                answers += [state for task in done if (state := task.result())]
        finally:
            for task in waiting:
                task.cancel()
            if waiting:
                await asyncio.wait(waiting)
        if not answers:
            raise MasterNotFoundError(f"no Sentinel answers with a master called {service_name!r}")
        newest = max(answers, key=lambda state: int(state["config-epoch"]))
        if not self.check_master_state(newest, service_name):
            raise MasterNotFoundError(f"the Sentinels call the master of {service_name!r} down")
        return str(newest["ip"]), int(newest["port"])

    async def _ask(self, sentinel: Redis, service_name: str) -> dict[str, Any] | None:
        """What one Sentinel knows of the master; None when it does not answer or knows nothing."""
        try:
            masters = cast(dict[str, dict[str, Any]], await sentinel.sentinel_masters())
        except (RedisError, OSError):
            return None
        return masters.get(service_name)


class MasterPool(SentinelConnectionPool):
    """redis-py's pool, which never gives out a connection to a server that is known not to be the master any more."""

    async def get_master_address(self) -> tuple[str, int]:
        """(host, port), asked anew."""
        found: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]
        return found

    async def ensure_connection(self, connection: Any) -> None:
        known = self.master_address
        if connection.is_connected and known is not None and (connection.host, connection.port) != known:
            await connection.disconnect()
        await super().ensure_connection(connection)


def build_clients(target: RedisUrl) -> Clients:
    """The clients for a parsed URL; redis-py's errors pass through when an option has a value that it does not take."""
    if target.kind == "sentinel":
        return _sentinel(target)
    if target.kind == "cluster":
        return _cluster(target)
    return _standalone(target)


def _arguments(target: RedisUrl, *, blocking: bool) -> dict[str, Any]:
    """redis-py's arguments for one of the two clients. The URL's options win, except where a rule depends on them."""
    arguments: dict[str, Any] = {
        "socket_timeout": ANSWER_S,
        "socket_connect_timeout": CONNECT_S,
        "health_check_interval": HEALTH_S,
        "max_connections": BLK_CONNECTIONS if blocking else CMD_CONNECTIONS,
        "username": target.username,
        "password": target.password,
        **{name: value for name, value in target.options.items() if not name.startswith("sentinel_")},
        "decode_responses": True,
        "retry": Retry(NoBackoff(), 0),  # a lost reply must reach the caller: the script may have run
    }
    if blocking:
        arguments["socket_timeout"] = None
    return arguments


def _standalone(target: RedisUrl) -> Clients:
    place: dict[str, Any] = {"db": target.db}
    if target.path:
        place |= {"path": target.path, "connection_class": PackedUnixConnection}
    else:
        host, port = target.hosts[0]
        place |= {
            "host": host,
            "port": port,
            "connection_class": PackedSSLConnection if target.tls else PackedConnection,
        }
    cmd = BlockingConnectionPool(timeout=POOL_WAIT_S, **place, **_arguments(target, blocking=False))
    blk = ConnectionPool(**place, **_arguments(target, blocking=True))
    return Clients(Redis.from_pool(cmd), Redis.from_pool(blk))


def _sentinel(target: RedisUrl) -> Clients:
    tls: dict[str, Any] = {"ssl": True} if target.tls else {}
    tls_options = {name: value for name, value in target.options.items() if name.startswith("ssl_")}
    sentinel = Sentinels(  # type: ignore[no-untyped-call]  # redis-py left this one without types
        target.hosts,
        sentinel_kwargs={
            "socket_timeout": CONNECT_S,
            "socket_connect_timeout": CONNECT_S,
            "decode_responses": True,
            "retry": Retry(NoBackoff(), 0),  # the next Sentinel is asked instead
            "username": target.options.get("sentinel_username"),
            "password": target.options.get("sentinel_password"),
            **tls,
            **tls_options,
        },
    )
    cmd, blk = (
        sentinel.master_for(
            target.service,
            connection_pool_class=MasterPool,
            db=target.db,
            **tls,
            **_arguments(target, blocking=blocking),
        )
        for blocking in (False, True)
    )
    return Clients(cmd, blk, sentinel)


def _cluster(target: RedisUrl) -> Clients:
    tls: dict[str, Any] = {"ssl": True} if target.tls else {}
    cmd, blk = (
        # MOVED and ASK are followed by an inner loop of redis-py that does not depend on `retry`
        Cluster(
            startup_nodes=[ClusterNode(host, port) for host, port in target.hosts],
            **tls,
            **_arguments(target, blocking=blocking),
        )
        for blocking in (False, True)
    )
    return Clients(cast(Redis, cmd), cast(Redis, blk))
