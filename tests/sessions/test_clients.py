"""The clients' connections: what hiredis packs is what redis-py would have sent."""

from __future__ import annotations

import pytest
from redis.asyncio.connection import Connection

from sessions.clients import PackedConnection


@pytest.mark.parametrize(
    "command",
    [
        ("PING",),
        ("CONFIG GET", "maxmemory"),
        ("EVALSHA", "0" * 40, 2, "fd:{c}:own", b"\xff\x00", "caf\u00e9 \u8d26\u5355", 12, 1.5, ""),
        ("SET", "long", "x" * 20_000),
    ],
    ids=lambda command: command[0],
)
def test_a_command_is_packed_as_redis_py_packs_it(command: tuple[str | bytes | int | float, ...]) -> None:
    """The same bytes, for names of two words, bytes, numbers and long texts."""
    assert b"".join(PackedConnection().pack_command(*command)) == b"".join(Connection().pack_command(*command))


def test_what_cannot_be_sent_is_refused() -> None:
    """None and booleans have no form in Redis: an error, not a text that looks like one."""
    with pytest.raises((TypeError, ValueError)):
        PackedConnection().pack_command("SET", "a", None)
