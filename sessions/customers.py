"""Values that outlive a conversation: one map for each customer, seen by every conversation of theirs.

They lie on the customer's own shard, so they are read and written in calls of their own, never inside a commit.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakValueDictionary

from sessions import replies
from sessions.base import REQUEST_TTL_S, Arguments, new_fence, value_rows
from sessions.cancellation import shielded
from sessions.errors import Conflict
from sessions.keys import customer_idempotency, customer_key
from sessions.lifecycle import Lifecycle
from sessions.model import Value, ValueWrite
from sessions.reads import Reads
from sessions.scripts import check, groups
from sessions.values import Change

LIFE_S = 90 * 86_400  # after the last look; a visitor's refresh token, renewed on each visit, is good for 30 days
FORGOTTEN_S = 86_400  # longer than any turn that has read the values may still run
UPDATE_S = 10.0  # how long `update` tries; each round somebody wins, so a hundred writers need a part of it
PAUSE_S = 0.002  # before the second try, twice as long before each further one
LONGEST_PAUSE_S = 0.1


Changes = Callable[[Mapping[str, Value]], list[ValueWrite]]  # from what is stored, each with the revision it saw


@dataclass(frozen=True, slots=True)
class CustomerValues:
    """What is stored for a customer. `generation` changes when the customer is forgotten."""

    values: Mapping[str, Value]
    generation: str


class Customers(Lifecycle, Reads):
    """customer_values, set_customer_values, forget_customer; change and update of both kinds of values."""

    @cached_property
    def _queues(self) -> WeakValueDictionary[str, asyncio.Lock]:
        """Who changes the same values in this process waits in line: only other processes can cause conflicts."""
        return WeakValueDictionary()

    async def customer_values(self, customer_id: str) -> CustomerValues:
        """The customer's values now; looking at them keeps them longer."""
        key = customer_key(customer_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(key)
            pipe.expire(key, LIFE_S)
            fields, _ = await self._read(pipe.execute())
        return CustomerValues(replies.values(fields), fields.get("gen", "0"))

    async def set_customer_values(
        self, customer_id: str, request_id: str, values: Iterable[ValueWrite], *, generation: str = ""
    ) -> bool:
        """Set values of a customer, all or none; the same `request_id` again changes nothing and gives False.

        Raises Conflict: a revision has moved on, or the customer was forgotten since `generation` was read.
        """
        keys = [customer_key(customer_id), customer_idempotency(customer_id, request_id)]
        args: Arguments = [REQUEST_TTL_S, LIFE_S, generation, *groups(value_rows(values))]
        return check(customer_id, await shielded(self._scripts.call("customer_set", keys, args))) == "OK"

    async def forget_customer(self, customer_id: str) -> None:
        """Delete the customer's values. A turn that read them before cannot write them again."""
        await shielded(self._scripts.call("customer_forget", [customer_key(customer_id)], [FORGOTTEN_S]))

    async def change_values(
        self, conversation_id: str, request_id: str, change: Changes, *, by: str
    ) -> Mapping[str, Value]:
        """Set what `change` makes of the values that are stored now, all or none; the values that were written.

        Whatever others write at the same time, no change is lost: on a conflict `change` is called again with newer
        values. The same `request_id` again changes nothing. Raises Conflict when that did not help for 10 s, and what
        `change` raises.
        """

        async def read() -> Mapping[str, Value]:
            return await self.values(conversation_id)

        async def write(wishes: list[ValueWrite]) -> None:
            await self.set_values(conversation_id, request_id, wishes, by=by)

        async with self._queues.setdefault(conversation_id, asyncio.Lock()):
            return await _again(read, write, change)

    async def change_customer_values(self, customer_id: str, request_id: str, change: Changes) -> Mapping[str, Value]:
        """The same for the values of a customer."""

        async def read() -> Mapping[str, Value]:
            return (await self.customer_values(customer_id)).values

        async def write(wishes: list[ValueWrite]) -> None:
            await self.set_customer_values(customer_id, request_id, wishes)

        async with self._queues.setdefault(customer_key(customer_id), asyncio.Lock()):
            return await _again(read, write, change)

    async def update_value(self, conversation_id: str, key: str, change: Change, *, by: str) -> Value:
        """Set one value to what `change` makes of it (of None when it is not set); see `change_values`."""
        done = await self.change_values(conversation_id, f"update:{new_fence()}", _of_one(key, change), by=by)
        return done[key]

    async def update_customer_value(self, customer_id: str, key: str, change: Change) -> Value:
        """The same for a value of a customer."""
        done = await self.change_customer_values(customer_id, f"update:{new_fence()}", _of_one(key, change))
        return done[key]


def _of_one(key: str, change: Change) -> Changes:
    def changes(now: Mapping[str, Value]) -> list[ValueWrite]:
        old = now.get(key, Value(None, 0))
        return [ValueWrite(key, change(old.value), old.rev)]

    return changes


async def _again(
    read: Callable[[], Awaitable[Mapping[str, Value]]],
    write: Callable[[list[ValueWrite]], Awaitable[None]],
    change: Changes,
) -> Mapping[str, Value]:
    """Read, change, compare and set, again until it holds."""
    give_up = time.monotonic() + UPDATE_S
    pause = PAUSE_S
    while True:
        now = await read()
        wishes = change(now)
        try:
            await write(wishes)
        except Conflict:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311  # jitter, not a secret
            pause = min(2 * pause, LONGEST_PAUSE_S)
        else:
            return {wish.key: Value(wish.value, now[wish.key].rev + 1 if wish.key in now else 1) for wish in wishes}
