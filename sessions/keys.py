"""Names of keys and channels. All keys of a conversation and its shard's schedule share one Redis Cluster slot."""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from functools import lru_cache

from sessions.errors import InvalidId

SHARDS = 1024  # schedules a conversation can fall into; fixed for ever, it is part of every key name
MAX_LEASE_MS = 600_000  # as lua/lib.lua has it: a lease that ends later comes from a clock that was set back
PREFIX = "fd"
REMEMBERED = 4096  # conversations whose key names are not put together anew for each call
READY_CHANNEL = (
    f"{PREFIX}:ready"  # gateways tell workers here that a conversation has work: "<conversation id> <owner id>"
)
REVOKED_CHANNEL = f"{PREFIX}:revoked"  # somebody else took a conversation: whoever runs a turn of it must stop
ID_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


def checked_id(field: str, value: str) -> str:
    """`value` when it may be part of a key; InvalidId naming `field` otherwise."""
    if not ID_PATTERN.fullmatch(value):
        raise InvalidId(field, value)
    return value


def shard_of(conversation_id: str) -> int:
    """The conversation's shard, 0 to 1023: crc16 (the one of Redis Cluster) of the id."""
    return binascii.crc_hqx(conversation_id.encode(), 0) % SHARDS


def due_key(shard: int) -> str:
    """Sorted set: conversation -> when a worker must look at it (ms)."""
    return f"{PREFIX}:{{s{shard:04d}}}:due"


def index_key(shard: int) -> str:
    """Sorted set: conversation -> last change (ms)."""
    return f"{PREFIX}:{{s{shard:04d}}}:idx"


def customer_key(customer_id: str) -> str:
    """Hash: the values of one customer. `@` begins no conversation's id, so no conversation can have this key."""
    return f"{PREFIX}:{{s{shard_of(checked_id('customer_id', customer_id)):04d}}}:@{customer_id}:vars"


def customer_idempotency(customer_id: str, request_id: str) -> str:
    """String: a request that changed them."""
    return f"{customer_key(customer_id).removesuffix('vars')}i:{request_id}"


@dataclass(frozen=True, slots=True)
class Keys:
    """The key names of one conversation. `common` are KEYS 1 to 9 of every script, in the order of lua/lib.lua."""

    conversation_id: str
    shard: int
    base: str
    common: tuple[str, ...]

    @classmethod
    def of(cls, conversation_id: str) -> Keys:
        """InvalidId when the id cannot be a conversation's."""
        return _keys(conversation_id)

    @property
    def own(self) -> str:
        return self.base + "own"

    @property
    def inbox(self) -> str:
        return self.base + "in"

    @property
    def values(self) -> str:
        return self.base + "vars"

    @property
    def log(self) -> str:
        return self.base + "log"

    @property
    def draft(self) -> str:
        return self.base + "draft"

    @property
    def channel(self) -> str:
        return self.base + "ch"

    @property
    def offer(self) -> str:
        return self.base + "xfer"

    @property
    def journal(self) -> str:
        return self.base + "tj"

    @property
    def rest(self) -> str:
        return self.named("rest")

    @property
    def runs(self) -> str:
        return self.named("runs")

    @property
    def watchers(self) -> str:
        """The channel for those who watch agents work. Nobody who serves customers listens to it."""
        return self.base + "watch"

    def history(self, agent_id: str) -> str:
        return self.named(f"h:{agent_id}")

    def approval(self, approval_id: str) -> str:
        return self.named(f"ap:{approval_id}")

    def cursor(self, sink: str) -> str:
        return self.named(f"cur:{sink}")

    def named(self, name: str) -> str:
        """The key for a name as the owner record registers it: `h:<agent>`, `ap:<id>`, `cur:<sink>`, `rest`, `runs`."""
        return self.base + name

    def idempotency(self, request_id: str) -> str:
        return f"{self.base}i:{request_id}"


COMMON = ("own", "in", "vars", "log", "draft", "xfer", "tj")


@lru_cache(maxsize=REMEMBERED)
def _keys(conversation_id: str) -> Keys:
    checked_id("conversation_id", conversation_id)
    shard = shard_of(conversation_id)
    base = f"{PREFIX}:{{s{shard:04d}}}:{conversation_id}:"
    own, inbox, values, log, *rest = (base + name for name in COMMON)
    return Keys(conversation_id, shard, base, (own, inbox, values, log, due_key(shard), index_key(shard), *rest))
