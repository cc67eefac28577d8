"""What a Redis server must be like before Frontdesk trusts it with owners (design/store.md, decision 11). No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions.errors import StoreMisconfigured

OLDEST = (6, 2)  # XAUTOCLAIM, COPY, GETDEL; what Debian 11 ships
CHECKED_SETTINGS = ("appendfsync", "min-replicas-to-write")


@dataclass(frozen=True)
class ServerFacts:
    """What one server says: INFO's fields (numbers as numbers), and CONFIG GET's, or None where CONFIG is forbidden."""

    info: Mapping[str, Any]
    config: Mapping[str, str] | None

    @property
    def version(self) -> str:
        return str(self.info.get("valkey_version") or self.info.get("redis_version") or "unknown")

    @property
    def product(self) -> str:
        return "Valkey" if self.info.get("server_name") == "valkey" or "valkey_version" in self.info else "Redis"


def check_server(facts: ServerFacts, *, kind: str, shown: str) -> list[str]:
    """Warnings, in plain words. Raises StoreMisconfigured when the server would lose or double an owner."""
    _refuse_old(facts, shown)
    _refuse_role(facts, kind, shown)
    _refuse_eviction(facts, shown)
    return [*_durability(facts, shown), *_replication(facts, kind, shown)]


def _refuse_old(facts: ServerFacts, shown: str) -> None:
    """Valkey reports the Redis version that it is compatible with (7.2.4) in redis_version."""
    text = str(facts.info.get("redis_version", ""))
    parts = text.split(".")[:2]
    if len(parts) == 2 and all(part.isdigit() for part in parts) and tuple(int(part) for part in parts) < OLDEST:
        raise StoreMisconfigured(f"{shown} is Redis {text}: too old, 6.2 or newer is needed")


def _refuse_role(facts: ServerFacts, kind: str, shown: str) -> None:
    mode = facts.info.get("server_mode") or facts.info.get("redis_mode")  # Valkey 9 and Redis name it differently
    if mode == "sentinel":
        raise StoreMisconfigured(
            f"{shown} is a Sentinel, not a data server: write redis+sentinel://host:26379/<service>"
        )
    if kind == "standalone" and (mode == "cluster" or facts.info.get("cluster_enabled") == 1):
        raise StoreMisconfigured(f"{shown} is a node of a Redis Cluster: write redis+cluster://host:6379")
    role = facts.info.get("role", "master")
    if role != "master":
        raise StoreMisconfigured(
            f"{shown} is a {role}, owners can only be written to a master: name the master, or use redis+sentinel://"
        )


def _refuse_eviction(facts: ServerFacts, shown: str) -> None:
    policy = facts.info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StoreMisconfigured(
            f"{shown} has maxmemory-policy {policy}: it may throw away who owns a conversation. "
            "Run `CONFIG SET maxmemory-policy noeviction` there and put it into its configuration file "
            "(managed Redis: in its parameter group)"
        )


def _durability(facts: ServerFacts, shown: str) -> list[str]:
    if not facts.info.get("aof_enabled", 1):
        return [
            f"{shown} keeps no append-only file: a crash loses owners and messages since its last snapshot. "
            "Run `CONFIG SET appendonly yes`"
        ]
    if facts.config is None:
        return [f"{shown} does not allow CONFIG: appendfsync and min-replicas-to-write could not be checked"]
    fsync = facts.config.get("appendfsync", "always")
    if fsync != "always":
        return [
            f"{shown} has appendfsync {fsync}: a power loss can take back about the last second of acknowledged "
            "messages. Run `CONFIG SET appendfsync always`"
        ]
    return []


def _replication(facts: ServerFacts, kind: str, shown: str) -> list[str]:
    replicas = int(facts.info.get("connected_slaves", 0))
    if facts.config is None or (kind == "standalone" and not replicas) or kind == "embedded":
        return []
    if kind == "cluster" and not replicas:
        return [f"{shown}: a master has no replica: when it dies, its conversations cannot be served"]
    if facts.config.get("min-replicas-to-write", "0") != "0":
        return []
    if (
        kind == "cluster" and replicas == 1
    ):  # it would also refuse writes after each failover, until the old one is back
        return []
    return [
        f"{shown} has replicas and min-replicas-to-write 0: a master that was cut off keeps accepting writes which are "
        "lost later. Run `CONFIG SET min-replicas-to-write 1` and `CONFIG SET min-replicas-max-lag 3`"
    ]
