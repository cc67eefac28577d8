"""The shared values of one turn, each kept as long as its contract says: `turn`, `conversation` or `customer`.

Values of the turn lie in the router's own memory and go when it rests. Those of the conversation come with the claim
and go with the commit. Those of the customer are read when the turn begins and written just before a commit, each in a
call of its own; a desk that declares none makes neither call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from handoffs.roster import ValueContract
from handoffs.state import RouterState
from sessions.errors import Conflict
from sessions.isolated import REBASES
from sessions.model import Grant, Token, Value, ValueWrite
from sessions.store import Store
from sessions.values import ValuesDraft

log = logging.getLogger("frontdesk.values")

NAMED_ONLY = "[not recorded]"  # forgetting a customer must not leave their values in the records of conversations


class Draft(Protocol):
    """A working copy of shared values: `sessions.values.ValuesDraft`, or several of them behind one face."""

    def get(self, key: str, default: Any = None) -> Any: ...

    def set(self, key: str, value: Any) -> None: ...

    def update(self, key: str, change: Callable[[Any], Any]) -> Any: ...

    def stored(self, key: str) -> Value: ...

    def __contains__(self, key: object) -> bool: ...


class TurnValues:
    """Every shared value that a turn may read or change. The commits take them as `sessions.isolated.Shared`."""

    def __init__(
        self,
        store: Store,
        grant: Grant,
        turn_id: str,
        contracts: Mapping[str, ValueContract],
        state: RouterState,
    ) -> None:
        self._store = store
        self._conversation_id = grant.conversation_id
        self._turn_id = turn_id
        self._place = turn_id
        self._customer_id = state.customer
        self._elsewhere = {key: spec.lifetime for key, spec in contracts.items() if spec.lifetime != "conversation"}
        self._own = ValuesDraft(grant.values)
        self._passing = ValuesDraft({key: Value(value, 1) for key, value in state.passing.get(turn_id, {}).items()})
        self._customer: ValuesDraft | None = None  # None: nobody knows whose conversation this is, or nobody asks
        self._generation = ""
        self._flushed = 0
        self._written_before = False  # an earlier attempt had counted, so what is stored is not what this one reckons
        self.changes = 0  # calls of `set` and `update`: a run that made none may be begun again

    async def load(self) -> None:
        """Read the customer's values, if this desk has any and this customer is known."""
        if self._customer_id and "customer" in self._elsewhere.values():
            found = await self._store.customer_values(self._customer_id)
            self._customer, self._generation = ValuesDraft(found.values), found.generation

    def begin(self, turn_id: str, place: str) -> None:
        """An owner begins to work on the messages of this turn; `place` names the work up to its next commit."""
        self._turn_id, self._place = turn_id, place

    def _draft(self, key: object) -> ValuesDraft:
        """Where a key lives. A value of the customer stays with the conversation when nobody knows the customer."""
        lifetime = self._elsewhere.get(str(key)) if self._elsewhere else None
        if lifetime is None:
            return self._own
        if lifetime == "turn":
            return self._passing
        return self._own if self._customer is None else self._customer

    def get(self, key: str, default: Any = None) -> Any:
        """The value now, the changed one first."""
        return self._draft(key).get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Change a value, for this turn now and for everybody at the commit."""
        self.changes += 1
        self._draft(key).set(key, value)

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Change a value to what `change` makes of it; made again when somebody else changed it meanwhile."""
        self.changes += 1
        return self._draft(key).update(key, change)

    def stored(self, key: str) -> Value:
        """What is stored outside of this turn, with its revision."""
        return self._draft(key).stored(key)

    def __contains__(self, key: object) -> bool:
        return key in self._draft(key)

    def __iter__(self) -> Iterator[str]:
        drafts = (self._own, self._passing, *((self._customer,) if self._customer is not None else ()))
        yield from (key for draft in drafts for key in draft if self._draft(key) is draft)

    # -- commits ---------------------------------------------------------------------------------------------------

    def writes(self) -> list[ValueWrite]:
        """What the commit writes: the values of the conversation."""
        return self._own.writes()

    def changed(self) -> list[ValueWrite]:
        """Everything that was set, for the record of the run. What belongs to the customer is named only."""
        if not self._elsewhere:
            return self._own.writes()
        passing = [ValueWrite(key, self._passing.get(key)) for key in self._passing]
        lasting = [ValueWrite(write.key, NAMED_ONLY) for write in (self._customer.writes() if self._customer else ())]
        return [*self._own.writes(), *passing, *lasting]

    def lasting(self) -> tuple[str, ...]:
        """The names of the customer's values that are set."""
        return tuple(key for key in self._customer if self._customer.get(key)) if self._customer else ()

    def settle(self) -> None:
        """The commit succeeded."""
        self._own.settle()

    async def rebase(self) -> bool:
        """After a Conflict of the commit: make the changes on what is stored now, where that loses nothing."""
        return self._made_again(self._own, await self._store.values(self._conversation_id))

    async def flush(self, token: Token) -> None:
        """Write what changed of the customer's values. Raises StaleOwner before, and Conflict instead of, writing.

        The token is asked for first, since the customer's values know no owner. When the process dies between this and
        the commit, or the commit is refused, they are written and the turn runs again: what it counts is not counted
        again, what it sets is set again.
        """
        customer = self._customer
        if customer is None or not customer.writes():
            return
        await self._store.renew(self._conversation_id, token)
        for _ in range(REBASES):
            try:
                await self._write(customer, token)
                break
            except Conflict:
                found = await self._store.customer_values(self._customer_id)
                if found.generation != self._generation or not self._made_again(customer, found.values):
                    raise
        else:
            await self._write(customer, token)
        if self._written_before:
            self._written_before = False
            await self.load()

    async def _write(self, customer: ValuesDraft, token: Token) -> None:
        """What was counted, each key under a name that every attempt of this step has; then what was set.

        The one key of a request tells which: an attempt that counts something else as well gets that counted.
        """
        counted = customer.counted()
        for write in [write for write in customer.writes() if write.key in counted]:
            request_id = f"turn:{self._conversation_id}:{self._place}:{write.key}"
            if not await self._set(request_id, [write]):
                self._written_before = True
            customer.settle(write.key)
        if writes := customer.writes():
            self._flushed += 1
            await self._set(f"turn:{self._conversation_id}:{token.epoch}:{self._flushed}", writes)
        customer.settle()

    async def _set(self, request_id: str, writes: list[ValueWrite]) -> bool:
        return await self._store.set_customer_values(self._customer_id, request_id, writes, generation=self._generation)

    def _made_again(self, draft: ValuesDraft, now: Mapping[str, Value]) -> bool:
        try:
            return draft.rebase(now)
        except Exception as error:  # an agent's own function, or a contract: the turn runs again on what is now
            log.info("%s: a value could not be changed again: %s", self._conversation_id, type(error).__name__)
            return False

    # -- the router's memory ---------------------------------------------------------------------------------------

    def rest(self) -> None:
        """The turn is over: its own values are gone."""
        self._passing = ValuesDraft({})

    def kept_in(self, state: RouterState) -> RouterState:
        """The router's memory with the values of this turn, as the next commit keeps it."""
        passing = {key: self._passing.get(key) for key in self._passing}
        if not passing and not state.passing:
            return state
        return state.model_copy(update={"passing": {self._turn_id: passing} if passing else {}})
