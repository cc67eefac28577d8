"""Values that outlive a conversation: one map for each customer, seen by every conversation of theirs.

They lie on the customer's own shard, so they are read and written in calls of their own, never inside a commit.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class CustomerValues:
    """What is stored for a customer. `generation` changes when the customer is forgotten."""

    values: Mapping[str, Value]
    generation: str


class Customers(Lifecycle, Reads):
    """customer_values, set_customer_values, forget_customer; update_value and update_customer_value."""

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
    ) -> None:
        """Set values of a customer, all or none; the same `request_id` again changes nothing.

        Raises Conflict: a revision has moved on, or the customer was forgotten since `generation` was read.
        """
        keys = [customer_key(customer_id), customer_idempotency(customer_id, request_id)]
        args: Arguments = [REQUEST_TTL_S, LIFE_S, generation, *groups(value_rows(values))]
        check(customer_id, await shielded(self._scripts.call("customer_set", keys, args)))

    async def forget_customer(self, customer_id: str) -> None:
        """Delete the customer's values. A turn that read them before cannot write them again."""
        await shielded(self._scripts.call("customer_forget", [customer_key(customer_id)], [FORGOTTEN_S]))

    async def update_value(self, conversation_id: str, key: str, change: Change, *, by: str) -> Value:
        """Set a shared value to what `change` makes of it (of None when it is not set), outside a turn.

        Whatever others write at the same time, no change is lost: on a conflict `change` is called again with the
        newer value. Raises Conflict when that did not help for 10 s, and what `change` raises.
        """

        async def read() -> Mapping[str, Value]:
            return await self.values(conversation_id)

        async def write(wish: ValueWrite) -> None:
            await self.set_values(conversation_id, f"update:{new_fence()}", [wish], by=by)

        return await _update(read, write, key, change)

    async def update_customer_value(self, customer_id: str, key: str, change: Change) -> Value:
        """The same for a value of a customer."""

        async def read() -> Mapping[str, Value]:
            return (await self.customer_values(customer_id)).values

        async def write(wish: ValueWrite) -> None:
            await self.set_customer_values(customer_id, f"update:{new_fence()}", [wish])

        return await _update(read, write, key, change)


async def _update(
    read: Callable[[], Awaitable[Mapping[str, Value]]],
    write: Callable[[ValueWrite], Awaitable[None]],
    key: str,
    change: Change,
) -> Value:
    """Read, change, compare and set, again until it holds."""
    give_up = time.monotonic() + UPDATE_S
    pause = PAUSE_S
    while True:
        now = (await read()).get(key, Value(None, 0))
        fresh = Value(change(now.value), now.rev + 1)
        try:
            await write(ValueWrite(key, fresh.value, now.rev))
        except Conflict:
            if time.monotonic() > give_up:
                raise
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311  # jitter, not a secret
            pause = min(2 * pause, LONGEST_PAUSE_S)
        else:
            return fresh
