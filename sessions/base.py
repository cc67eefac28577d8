"""What every part of the store has: the backend, the scripts, and reads whose failures have one name."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

from sessions.cancellation import obedient
from sessions.connect import Backend
from sessions.failures import FAILURES, store_error
from sessions.keys import Keys, checked_id
from sessions.model import Item, NewEvent, Question, ValueWrite
from sessions.scripts import Scripts, check, compact

Arguments = Sequence[str | int]

REQUEST_TTL_S = 86_400  # a client repeats a request within a day, or not at all
LEASE_MS = 20_000  # a worker that is alive renews every third of it
MAX_PENDING = 50  # messages answered by one turn
PRESENCE_MS = 180_000  # a person whose desk is open renews within it; browsers wake hidden tabs once a minute
MAX_WAIT_MS = 30 * 86_400_000  # offers and approvals: what nobody answers in a month, nobody will
RUNS_KEEP = 50  # newest records of a conversation; a turn with transfers has one for each owner
LOG_KEEP = 10_000  # newest events of a conversation that stay in its log, and all that a sink has not read


def new_fence() -> str:
    """A fresh 128-bit nonce: the half of a token that a failover cannot give out twice."""
    return secrets.token_hex(16)


class StoreBase:
    """One Redis. `worker` names this process in leases; `lease_ms` is how long a turn is held, `log_keep` how many
    events of a conversation are kept and `runs_keep` how many records of runs (0: none are written).

    `scripts` replaces the shipped ones (tests only).
    """

    def __init__(
        self,
        backend: Backend,
        *,
        worker: str = "",
        lease_ms: int = LEASE_MS,
        log_keep: int = LOG_KEEP,
        runs_keep: int = RUNS_KEEP,
        scripts: Scripts | None = None,
    ) -> None:
        self.backend = backend
        self.worker = worker or f"w_{secrets.token_hex(6)}"
        self.lease_ms = lease_ms
        self.log_keep = log_keep
        self.runs_keep = runs_keep
        self._redis = backend.cmd
        self._scripts = scripts or Scripts(backend.cmd, confirm=backend.confirm if backend.replaceable else None)

    async def _call(self, name: str, keys: Keys, args: Arguments = (), *, more: Sequence[str] = ()) -> list[Any]:
        """The reply of a script whose refusals that every script can give have become errors."""
        first: Arguments = [keys.conversation_id, keys.channel]
        reply = await self._scripts.call(name, [*keys.common, *more], [*first, *args])
        check(keys.conversation_id, reply)
        return reply

    async def _read(self, work: Awaitable[Any]) -> Any:
        try:
            return await obedient(work)
        except FAILURES as error:
            raise store_error("read", error) from error


def checked_wait(field: str, ms: int) -> int:
    """`ms` when it is a time that somebody can be given to answer; ValueError naming `field` otherwise."""
    if not 0 < ms <= MAX_WAIT_MS:
        raise ValueError(f"{field}: {ms} is not allowed; 1 to {MAX_WAIT_MS} ms are")
    return ms


def handed(data: Mapping[str, Any] | None) -> str:
    """The data of a handoff's records as the scripts take it, which add `from`: they alone know who owns at that
    moment. Empty: there are no records."""
    return compact(data) if data else ""


def event_rows(events: Iterable[NewEvent]) -> list[tuple[str, str, str]]:
    """Events as the scripts' `group` takes them."""
    return [(event.type, event.by, compact(event.data)) for event in events]


def item_rows(items: Iterable[Item]) -> list[tuple[str]]:
    """History items as the scripts' `group` takes them."""
    return [(compact(item),) for item in items]


def value_rows(values: Iterable[ValueWrite]) -> list[tuple[str, str, str]]:
    """Values as the scripts' `group` takes them."""
    return [
        (write.key, compact(write.value), "" if write.expected_rev is None else str(write.expected_rev))
        for write in values
    ]


def question_rows(asks: Iterable[Question]) -> list[tuple[str, str, str, str, str, str]]:
    """Questions as the scripts' `group` takes them."""
    return [
        (
            checked_id("approval_id", ask.approval_id),
            ask.arguments,
            str(checked_wait("valid_ms", ask.valid_ms)),
            ask.default,
            compact(ask.call),
            compact({"approval": ask.approval_id, "call": ask.call}),
        )
        for ask in asks
    ]
