"""Which log a client's position belongs to, and whether it may go on from there.

A sequence number means something only inside one log. The wire's `epoch` names the log: `e_<born>-<replid>`, where
`born` is the Redis time (ms) of the first event, kept with the owner record, and `replid` is the start of
the server's replication id. A conversation that was lost and begun again has another `born`; a server that came back
from a failover or a restart, where the tail of the log may have been lost and its numbers used again, has another
`replid`. Both force one snapshot instead of a silent gap. Before the first event `born` is 0, and the first event
itself carries the new epoch to the clients that saw it happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from app.public_view import Reason

MAX_REPLAY: Final = 500  # events; more than that is dearer to draw than a snapshot
REPLID_CHARS: Final = 8  # 32 bits are enough to tell two servers apart


def lineage(born_ms: int, replication_id: str) -> str:
    """The epoch of a log, as the wire names it."""
    return f"e_{born_ms}-{replication_id[:REPLID_CHARS]}"


@dataclass(frozen=True, slots=True)
class Resume:
    """Whether the client's position is good. `after` is where the stream goes on; `reason` is set for a snapshot."""

    after: int
    replay: int
    reason: Reason | None = None

    @property
    def recovered(self) -> bool:
        return self.reason is None


def decide_resume(epoch: str | None, seq: int, *, current: str, top: int) -> Resume:
    """Replay after `seq`, or a snapshot at `top`. A client that has nothing of an empty log has it all."""
    if top == 0 and seq == 0:
        return Resume(0, 0)
    if epoch != current:
        return Resume(top, 0, "epoch")
    if seq > top:
        return Resume(top, 0, "ahead")
    if top - seq > MAX_REPLAY:
        return Resume(top, 0, "too_far")
    return Resume(seq, top - seq)
