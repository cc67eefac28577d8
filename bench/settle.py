"""Wait until a Redis or Valkey server is done with what preparing gave it to do: no turn is measured beside that."""

from __future__ import annotations

import time

from redis import Redis

TICK_S = 0.15  # the server decides ten times a second whether to rewrite its log: two looks apart see the decision
PATIENCE_S = 60.0
BUSY = ("aof_pending_bio_fsync", "aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


def settle(client: Redis) -> None:
    """Return when two looks in a row found the server idle; TimeoutError after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    idle = 0
    while idle < 2:
        if idle or time.monotonic() < deadline:
            time.sleep(TICK_S)
        else:
            raise TimeoutError(f"the server is still busy with its log after {PATIENCE_S:.0f} s")
        found = client.info("persistence")
        assert isinstance(found, dict)
        idle = 0 if any(int(found.get(name, 0)) for name in BUSY) else idle + 1
