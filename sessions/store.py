"""The store: one typed method per script, and the reads. Everything that changes a conversation goes through here.

The invariants I1 to I13 that these calls keep are listed in the design (store.md) and in docs/explanation/ownership.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from sessions import replies
from sessions.cancellation import obedient, shielded
from sessions.connect import Backend
from sessions.errors import (
    MessageIdReused,
    NotClaimable,
    OwnerBusy,
    StoreUnavailable,
    UnknownConversation,
)
from sessions.keys import SHARDS, Keys, checked_id, due_key, index_key
from sessions.model import (
    Committed,
    Conversation,
    Ephemeral,
    Event,
    Grant,
    Item,
    NewEvent,
    Owner,
    OwnerKind,
    Receipt,
    Taken,
    Token,
    Transferred,
    Value,
    ValueWrite,
)
from sessions.scripts import Scripts, check, compact, groups

Arguments = Sequence[str | int]

REQUEST_TTL_S = 86_400  # a client repeats a request within a day, or not at all
LEASE_MS = 20_000  # a worker that is alive renews every third of it
PRESENCE_MS = 90_000  # a person whose desk is open renews within it
MAX_PENDING = 50  # messages answered by one turn
HISTORY_TAIL = 40  # newest items of an isolated history that a turn sees; the SDK costs CPU for each, every run
LOG_TAIL = 60  # newest events that a turn sees, for seeds


def new_fence() -> str:
    """A fresh 128-bit nonce: the half of a token that a failover cannot give out twice."""
    return secrets.token_hex(16)


class Store:
    """The conversations of one Redis. `worker` names this process in leases; `lease_ms` is how long a turn is held."""

    def __init__(self, backend: Backend, *, worker: str = "", lease_ms: int = LEASE_MS) -> None:
        self.backend = backend
        self.worker = worker or f"w_{secrets.token_hex(6)}"
        self.lease_ms = lease_ms
        self._redis = backend.cmd
        self._scripts = Scripts(backend.cmd)

    # -- customers -----------------------------------------------------------------------------------------------

    async def enqueue(
        self,
        conversation_id: str,
        message_id: str,
        data: Mapping[str, Any],
        *,
        start: Owner,
        meta: Mapping[str, Any] | None = None,
        claim: bool = False,
        hint: str = "",
    ) -> Receipt:
        """Store a customer's message, once per message id; the conversation is made with owner `start` when it is new.

        `data` is the event's data and has at least `text`. With `claim` the turn is taken in the same call when it is
        free; `hint` is the agent that the caller believes to own (its history comes along when right).
        Raises MessageIdReused when the id was used for another text, ConversationClosed and what Scripts.call raises.
        """
        keys = Keys.of(conversation_id)
        checked_id("message_id", message_id)
        hint = hint or start.id
        fence = new_fence() if claim else ""
        body = hashlib.sha256(str(data.get("text", "")).encode()).hexdigest()[:32]
        reply = await self._scripts.call(
            "enqueue",
            [*keys.common, keys.idempotency(f"msg:{message_id}"), keys.history(hint)],
            [
                *(conversation_id, keys.channel, message_id, body, compact(data), start.kind.value, start.id),
                *(compact(meta or {}), REQUEST_TTL_S, self.worker if claim else "", fence, self.lease_ms, hint),
                *(MAX_PENDING, HISTORY_TAIL, LOG_TAIL),
            ],
        )
        if reply[0] == "REUSED":
            raise MessageIdReused(conversation_id, message_id)
        tag = check(conversation_id, reply)
        grant = await self._grant(keys, fence, reply[4]) if reply[4] else None
        event_id = str(reply[1])
        return Receipt(
            seq=int(event_id.partition("-")[2]),
            event_id=event_id,
            message_id=str(data.get("id", message_id)),
            duplicate=tag == "DUP",
            owner=Owner(OwnerKind(reply[2]), reply[3]),
            grant=grant,
        )

    # -- workers -------------------------------------------------------------------------------------------------

    async def claim(self, conversation_id: str, *, hint: str = "-", fence: str = "") -> Grant:
        """Take the turn of a conversation in which messages wait. NotClaimable says why not; `fence` repeats it."""
        keys = Keys.of(conversation_id)
        fence = fence or new_fence()
        reply = await self._scripts.call(
            "claim",
            [*keys.common, keys.history(hint)],
            [
                *(conversation_id, keys.channel, self.worker, fence, self.lease_ms, hint),
                *(MAX_PENDING, HISTORY_TAIL, LOG_TAIL),
            ],
        )
        tag = check(conversation_id, reply)
        if tag == "BUSY":
            raise NotClaimable(conversation_id, why="busy", owner=reply[1], retry_ms=int(reply[2]))
        if tag == "IDLE":
            raise NotClaimable(conversation_id, why="idle")
        if tag == "NOTAI":
            raise NotClaimable(conversation_id, why="not_ai", owner=reply[1])
        return await self._grant(keys, fence, reply[1])

    async def _grant(self, keys: Keys, fence: str, reply: Sequence[Any]) -> Grant:
        history = None
        if reply[3] == "":  # the hint named another agent than the owner: one more read
            owner = replies.pairs(reply[0])["owner"]
            history = await self._read(self._redis.lrange(keys.history(owner), -HISTORY_TAIL, -1))
        return replies.grant(keys.conversation_id, fence, reply, history)

    async def renew(self, conversation_id: str, token: Token, *, lease_ms: int | None = None) -> int:
        """Keep the conversation longer; the lease's new end in ms. StaleOwner: stop, somebody else has it."""
        keys = Keys.of(conversation_id)
        args: Arguments = [conversation_id, keys.channel, token.epoch, token.fence, lease_ms or self.lease_ms]
        reply = await self._scripts.call("renew", keys.common, args)
        check(conversation_id, reply)
        return int(reply[1])

    async def release(self, conversation_id: str, token: Token) -> None:
        """Give a turn back without an answer; the waiting messages stay and another worker may claim them at once."""
        keys = Keys.of(conversation_id)
        args: Arguments = [conversation_id, keys.channel, token.epoch, token.fence]
        check(conversation_id, await self._scripts.call("release", keys.common, args))

    async def commit(
        self,
        conversation_id: str,
        token: Token,
        request_id: str,
        *,
        answered: int = 0,
        events: Iterable[NewEvent] = (),
        agent_id: str = "",
        items: Iterable[Item] = (),
        drop: int = 0,
        values: Iterable[ValueWrite] = (),
        meta: Mapping[str, Any] | None = None,
        lease_ms: int | None = None,
    ) -> Committed:
        """Make the holder's work true, all of it or nothing. The turn is given back when no message waits.

        `answered` messages leave the front of the inbox; `items` go to the history of `agent_id` after `drop` of its
        newest were removed (-1: all). Raises StaleOwner or Conflict; the same `request_id` again gets the first answer.
        """
        keys = Keys.of(conversation_id)
        reply = await shielded(
            self._scripts.call(
                "commit",
                [*keys.common, keys.idempotency(request_id), keys.history(agent_id or "-")],
                [
                    *(conversation_id, keys.channel, token.epoch, token.fence, answered, lease_ms or self.lease_ms),
                    *(REQUEST_TTL_S, "" if meta is None else compact(meta), agent_id, drop, MAX_PENDING),
                    *groups(_event_rows(events), _item_rows(items), _value_rows(values)),
                ],
            )
        )
        duplicate = check(conversation_id, reply) == "DUP"
        seq, ids = json.loads(reply[1])
        waiting = () if duplicate else replies.pending(reply[2])
        return Committed(seq=int(seq), event_ids=tuple(ids), pending=waiting, duplicate=duplicate)

    async def transfer(
        self,
        conversation_id: str,
        token: Token,
        request_id: str,
        *,
        to: Owner,
        change: Mapping[str, Any],
        decided_by: str = "",
        answered: int = 0,
        before: Iterable[NewEvent] = (),
        after: Iterable[NewEvent] = (),
        agent_id: str = "",
        items: Iterable[Item] = (),
        drop: int = 0,
        seed: Iterable[Item] = (),
        values: Iterable[ValueWrite] = (),
        meta: Mapping[str, Any] | None = None,
        go_on: bool = False,
        expected_seq: int | None = None,
    ) -> Transferred:
        """Commit as `commit` does and change the owner in the same instant. `change` is the data of `owner.changed`.

        `seed` goes to the end of the new agent's history; what it had before comes back in `Transferred.history`.
        With `go_on` this worker keeps the turn as the new owner. `expected_seq` refuses when the log has moved on.
        """
        keys = Keys.of(conversation_id)
        fence = new_fence() if go_on else ""
        reply = await shielded(
            self._scripts.call(
                "transfer",
                [
                    *keys.common,
                    keys.idempotency(request_id),
                    keys.history(agent_id or "-"),
                    keys.history(to.id if to.kind is OwnerKind.AI else "-"),
                ],
                [
                    *(conversation_id, keys.channel, token.epoch, token.fence, answered, REQUEST_TTL_S),
                    *("" if meta is None else compact(meta), agent_id, drop, to.kind.value, to.id, fence, self.worker),
                    *(self.lease_ms, "" if expected_seq is None else expected_seq, decided_by, compact(change)),
                    *(MAX_PENDING, HISTORY_TAIL),
                    *groups(
                        _event_rows(before),
                        _item_rows(items),
                        _item_rows(seed),
                        _value_rows(values),
                        _event_rows(after),
                    ),
                ],
            )
        )
        duplicate = check(conversation_id, reply) == "DUP"
        seq, ids, epoch, first_fence = json.loads(reply[1])
        return Transferred(
            token=Token(int(epoch), first_fence),
            seq=int(seq),
            event_ids=tuple(ids),
            history=() if duplicate else replies.items(reply[2]),
            pending=() if duplicate else replies.pending(reply[3]),
            duplicate=duplicate,
        )

    async def relay(
        self, conversation_id: str, token: Token, what: Ephemeral, *, message_id: str = "", piece: str = ""
    ) -> None:
        """Show something that is not kept, only while `token` is the owner's: StaleOwner means that nothing was shown.

        With `message_id` the piece is added to that message's draft, for widgets that connect meanwhile.
        """
        keys = Keys.of(conversation_id)
        payload = compact(["X", what.type, what.data])
        args: Arguments = [conversation_id, keys.channel, token.epoch, token.fence, message_id, piece, payload]
        check(conversation_id, await self._scripts.call("relay", keys.common, args, repeat=False))

    # -- people --------------------------------------------------------------------------------------------------

    async def takeover(
        self,
        conversation_id: str,
        person_id: str,
        *,
        change: Mapping[str, Any],
        expected_epoch: int | None = None,
        force: bool = False,
        presence_ms: int = PRESENCE_MS,
    ) -> Taken:
        """A person takes the conversation now. OwnerBusy when another live person has it (unless `force`)."""
        keys = Keys.of(conversation_id)
        checked_id("person_id", person_id)
        fence = new_fence()
        reply = await shielded(
            self._scripts.call(
                "takeover",
                keys.common,
                [
                    *(conversation_id, keys.channel, person_id, fence, presence_ms),
                    *("" if expected_epoch is None else expected_epoch, int(force), compact(change)),
                ],
            )
        )
        if check(conversation_id, reply) == "BUSY":
            raise OwnerBusy(conversation_id, owner=reply[1], epoch=int(reply[2]))
        return Taken(Token(int(reply[1]), fence), Owner.parse(reply[2]), int(reply[3]))

    # -- reads ---------------------------------------------------------------------------------------------------

    async def get(self, conversation_id: str) -> Conversation:
        """The owner record now; UnknownConversation when there is none."""
        keys = Keys.of(conversation_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.own)
            pipe.llen(keys.inbox)
            own, waiting = await self._read(pipe.execute())
        if not own:
            raise UnknownConversation(conversation_id)
        return replies.conversation(conversation_id, own, int(waiting))

    async def read(self, conversation_id: str, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        """Events with a seq above `after_seq`, oldest first, at most `limit`."""
        keys = Keys.of(conversation_id)
        newest_first = await self._read(self._redis.xrevrange(keys.log, "+", "-", count=limit))
        found = [event for event in reversed(replies.events(newest_first)) if event.seq > after_seq]
        if not found or found[0].seq == after_seq + 1:
            return found
        # more than `limit` behind: read from the front
        entries = await self._read(self._redis.xrange(keys.log, "-", "+"))
        return [event for event in replies.events(entries) if event.seq > after_seq][:limit]

    async def draft(self, conversation_id: str) -> tuple[str, str]:
        """The message id and text of what the owner is writing just now; two empty strings when nothing is."""
        keys = Keys.of(conversation_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(keys.own, "draft")
            pipe.get(keys.draft)
            message_id, text = await self._read(pipe.execute())
        return (message_id or "", text or "") if message_id else ("", "")

    async def values(self, conversation_id: str) -> dict[str, Value]:
        """The shared values now."""
        return replies.values(await self._read(self._redis.hgetall(Keys.of(conversation_id).values)))

    async def history(self, conversation_id: str, agent_id: str) -> tuple[Item, ...]:
        """One agent's whole isolated history, oldest first."""
        return replies.items(await self._read(self._redis.lrange(Keys.of(conversation_id).history(agent_id), 0, -1)))

    async def recent(self, limit: int = 50) -> list[Conversation]:
        """The conversations that changed last, newest first."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrevrange(index_key(shard), 0, limit - 1, withscores=True)
            rows = await self._read(pipe.execute())
        newest = sorted((row for shard in rows for row in shard), key=lambda row: -row[1])[:limit]
        found = await asyncio.gather(*(self.get(conversation_id) for conversation_id, _ in newest))
        return list(found)

    async def due(self, limit_per_shard: int = 20) -> list[str]:
        """Conversations at which a worker must look now: messages wait and no live lease covers them."""
        now = await self.now()
        async with self._redis.pipeline(transaction=False) as pipe:
            for shard in range(SHARDS):
                pipe.zrangebyscore(due_key(shard), "-inf", now, start=0, num=limit_per_shard)
            rows = await self._read(pipe.execute())
        return [conversation_id for shard in rows for conversation_id in shard]

    async def now(self) -> int:
        """Redis' clock in milliseconds."""
        seconds, micros = await self._read(self._redis.time())
        return int(seconds) * 1000 + int(micros) // 1000

    async def publish(self, conversation_id: str, what: Ephemeral) -> None:
        """Show something that anybody may show (a customer's typing), without a token."""
        keys = Keys.of(conversation_id)
        await self._read(self._redis.publish(keys.channel, compact(["X", what.type, what.data])))

    async def ping(self) -> None:
        """StoreUnavailable unless Redis answers."""
        await self._read(self._redis.ping())

    async def secret(self, name: str) -> str:
        """A random secret that all processes share, made on first use (development; production sets its own)."""
        key = f"fd:secret:{checked_id('name', name)}"
        await self._read(self._redis.set(key, secrets.token_urlsafe(32), nx=True))
        return str(await self._read(self._redis.get(key)))

    async def _read(self, work: Awaitable[Any]) -> Any:
        try:
            return await obedient(work)
        except RedisError as error:
            raise StoreUnavailable(f"Redis does not answer: {error}") from error


def _event_rows(events: Iterable[NewEvent]) -> list[tuple[str, str, str]]:
    return [(event.type, event.by, compact(event.data)) for event in events]


def _item_rows(items: Iterable[Item]) -> list[tuple[str]]:
    return [(compact(item),) for item in items]


def _value_rows(values: Iterable[ValueWrite]) -> list[tuple[str, str, str]]:
    return [
        (write.key, compact(write.value), "" if write.expected_rev is None else str(write.expected_rev))
        for write in values
    ]
