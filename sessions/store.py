"""The store: one typed method per script, and the reads. Everything that changes a conversation goes through here.

The invariants I1 to I13 that these calls keep are listed in the design (store.md) and in docs/explanation/ownership.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sessions import replies
from sessions.approvals import Approvals
from sessions.attend import Attend
from sessions.base import (
    LEASE_MS,
    MAX_PENDING,
    PRESENCE_MS,
    REQUEST_TTL_S,
    Arguments,
    event_rows,
    handed,
    item_rows,
    new_fence,
    question_rows,
    value_rows,
)
from sessions.cancellation import shielded
from sessions.customers import Customers
from sessions.errors import MessageIdReused, NotClaimable, OwnerBusy
from sessions.journal import Journal
from sessions.keys import Keys, checked_id
from sessions.model import (
    Committed,
    Ephemeral,
    Grant,
    Item,
    NewEvent,
    Owner,
    OwnerKind,
    Question,
    Receipt,
    Recorded,
    Taken,
    Token,
    Transferred,
    ValueWrite,
)
from sessions.offers import Offers
from sessions.positions import Positions
from sessions.reads import Reads
from sessions.runs import Runs
from sessions.scripts import check, compact, groups
from sessions.sinks import Sinks
from sessions.watching import Watching

HISTORY_TAIL = 40  # newest items of an isolated history that a turn sees; the SDK costs CPU for each, every run
NO_RECORD = Recorded("")
LOG_TAIL = 24  # newest events that come with a claim: the seed of an ordinary transfer; a longer one is read then

__all__ = ["HISTORY_TAIL", "LEASE_MS", "PRESENCE_MS", "Store", "new_fence"]


class Store(Attend, Offers, Approvals, Journal, Customers, Positions, Runs, Watching, Sinks, Reads):
    """The conversations of one Redis: customers, workers and people here, the rest in the parts that it is made of."""

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
        """Keep the conversation longer; the lease's new end in ms. StaleOwner: stop, somebody else has it.

        A person's token renews their presence, for as long as the takeover said.
        """
        keys = Keys.of(conversation_id)
        args: Arguments = [token.epoch, token.fence, "" if lease_ms is None else lease_ms, self.lease_ms]
        return int((await self._call("renew", keys, args))[1])

    async def release(self, conversation_id: str, token: Token, *, record: Recorded = NO_RECORD) -> None:
        """Give a turn back without an answer; the waiting messages stay and another worker may claim them at once."""
        keys = Keys.of(conversation_id)
        await self._call("release", keys, [token.epoch, token.fence, *self._kept(record)[1:]], more=[keys.runs])

    def _kept(self, record: Recorded) -> tuple[str, str, int]:
        return record.run, record.text if self.runs_keep else "", self.runs_keep

    async def append(self, conversation_id: str, token: Token, request_id: str, event: NewEvent) -> str:
        """One event of a running turn now, before its commit; its id. The same `request_id` gets the same id."""
        keys = Keys.of(conversation_id)
        args: Arguments = [token.epoch, token.fence, REQUEST_TTL_S, event.type, event.by, compact(event.data)]
        reply = await shielded(self._call("append", keys, args, more=[keys.idempotency(request_id)]))
        return str(reply[1])

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
        asks: Iterable[Question] = (),
        rest: bool = False,
        needs: str | None = None,
        record: Recorded = NO_RECORD,
    ) -> Committed:
        """Make the holder's work true, all of it or nothing. The turn is given back when no message waits.

        `answered` messages leave the front of the inbox; `items` go to the history of `agent_id` after `drop` of its
        newest were removed (-1: all); `record` is kept beside them. Raises StaleOwner or Conflict; the same
        `request_id` again gets the first answer.

        `asks` are approvals that are asked for in the same instant. With `rest` the turn is given back and the waiting
        messages stay until one of them is decided; `needs` is what the next worker needs to go on (empty: forget it).
        """
        keys = Keys.of(conversation_id)
        questions = tuple(asks)
        reply = await shielded(
            self._scripts.call(
                "commit",
                [
                    *(*keys.common, keys.idempotency(request_id), keys.history(agent_id or "-"), keys.rest),
                    *(keys.approval(question.approval_id) for question in questions),
                    keys.runs,
                ],
                [
                    *(conversation_id, keys.channel, token.epoch, token.fence, answered, lease_ms or self.lease_ms),
                    *(REQUEST_TTL_S, "" if meta is None else compact(meta), agent_id, drop, MAX_PENDING, self.log_keep),
                    *groups(event_rows(events), item_rows(items), value_rows(values), question_rows(questions)),
                    *(int(rest), "" if needs is None else needs or "-"),
                    *self._kept(record),
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
        record: Recorded = NO_RECORD,
    ) -> Transferred:
        """Commit as `commit` does and change the owner in the same instant. `change` is the data of `owner.changed`.

        `seed` goes to the end of the new agent's history; what it had before comes back in `Transferred.history`.
        With `go_on` this worker keeps the turn as the new owner. `expected_seq` refuses when the log has moved on.
        """
        keys = Keys.of(conversation_id)
        fence = new_fence() if go_on else ""
        lease_ms = PRESENCE_MS if to.kind is OwnerKind.HUMAN else self.lease_ms  # a person has time to turn up
        reply = await shielded(
            self._scripts.call(
                "transfer",
                [
                    *keys.common,
                    keys.idempotency(request_id),
                    keys.history(agent_id or "-"),
                    keys.history(to.id if to.kind is OwnerKind.AI else "-"),
                    keys.runs,
                ],
                [
                    *(conversation_id, keys.channel, token.epoch, token.fence, answered, REQUEST_TTL_S),
                    *("" if meta is None else compact(meta), agent_id, drop, to.kind.value, to.id, fence, self.worker),
                    *(lease_ms, "" if expected_seq is None else expected_seq, decided_by, compact(change)),
                    *(MAX_PENDING, HISTORY_TAIL),
                    *groups(
                        event_rows(before),
                        item_rows(items),
                        item_rows(seed),
                        value_rows(values),
                        event_rows(after),
                    ),
                    *self._kept(record),
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
        handing: Mapping[str, Any] | None = None,
        expected_epoch: int | None = None,
        force: bool = False,
        presence_ms: int = PRESENCE_MS,
        fence: str = "",
    ) -> Taken:
        """A person takes the conversation now. OwnerBusy when another live person has it (unless `force`).

        They hold it for `presence_ms`, renewed by `renew` and by each `commit`. `fence` repeats a call that was lost.
        `handing` is the data of the records of the handoff, without `from`: none are written without it, nor when the
        person owns already.
        """
        keys = Keys.of(conversation_id)
        checked_id("person_id", person_id)
        fence = fence or new_fence()
        reply = await shielded(
            self._scripts.call(
                "takeover",
                keys.common,
                [
                    *(conversation_id, keys.channel, person_id, fence, presence_ms),
                    *("" if expected_epoch is None else expected_epoch, int(force), compact(change), handed(handing)),
                ],
            )
        )
        if check(conversation_id, reply) == "BUSY":
            raise OwnerBusy(conversation_id, owner=reply[1], epoch=int(reply[2]))
        return Taken(Token(int(reply[1]), fence), Owner.parse(reply[2]), int(reply[3]))
