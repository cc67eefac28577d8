"""IsolatedSession: one agent's own history inside one conversation, as the OpenAI Agents SDK's `Session`.

Reads once (what the claim brought), buffers what the run writes, commits under the token: all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sessions.errors import Conflict
from sessions.model import Committed, Item, NewEvent, Owner, Token, Transferred, ValueWrite
from sessions.store import Store

if TYPE_CHECKING:  # the store knows no agents at run time
    from agents.memory import SessionSettings


Done = TypeVar("Done", Committed, Transferred)
Told = Callable[[int, Iterable[NewEvent]], None]
REBASES = 20  # of one commit; each needs somebody who changed the same value between two of our calls


class Shared(Protocol):
    """The shared values of a turn, as far as its commits must know."""

    async def flush(self, token: Token) -> None:
        """Write what is kept elsewhere than in the conversation. Conflict: the turn must not commit."""
        ...

    async def rebase(self) -> bool:
        """After a Conflict: read again, and say whether the changes could be made on what is stored now."""
        ...

    def writes(self) -> list[ValueWrite]:
        """What the commit writes."""
        ...


class IsolatedSession:
    """What the SDK reads and writes while `agent_id` runs. Other agents never see it.

    `history` is what the agent had before; `token` is the right to write, renewed by a transfer that goes on.
    `shared` are the turn's values: with them a commit that meets a newer value is made again where that loses nothing.
    `told(epoch, events)` hears which events a commit has written, and the epoch after it.
    """

    session_settings: SessionSettings | None = None  # the SDK's own limits stay off: `pair_safe` cuts here

    def __init__(
        self,
        store: Store,
        conversation_id: str,
        agent_id: str,
        token: Token,
        history: Sequence[Item] = (),
        shared: Shared | None = None,
        told: Told | None = None,
    ) -> None:
        self.session_id = f"{conversation_id}:{agent_id}"
        self.conversation_id = conversation_id
        self.agent_id = agent_id
        self.token = token
        self._store = store
        self._shared = shared
        self._told = told
        self._base = pair_safe(history)
        self._removed = 0  # of the stored items, newest first; -1: all
        self._buffer: list[Item] = []

    # -- the SDK's Session protocol --------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest `limit` items (all without one), oldest first; call and result pairs are never cut apart."""
        items = [*self._base, *self._buffer]
        if limit is None:
            return items
        return pair_safe(items[-limit:]) if limit > 0 else []

    async def add_items(self, items: Sequence[Any]) -> None:
        """Keep items for the commit."""
        self._buffer.extend(dict(item) for item in items)

    async def pop_item(self) -> Any | None:
        """Remove the newest item and give it back; None when there is none."""
        if self._buffer:
            return self._buffer.pop()
        if self._base:
            self._removed += self._removed >= 0
            return self._base.pop()
        return None

    async def clear_session(self) -> None:
        """Forget this agent's whole history, at commit."""
        self._base, self._buffer, self._removed = [], [], -1

    # -- what the router does with it ------------------------------------------------------------------------------

    @property
    def new_items(self) -> tuple[Item, ...]:
        """What the commit will add."""
        return tuple(self._buffer)

    def unwind(self, count: int) -> None:
        """Take the newest `count` stored items back: what a run wrote that is told anew from its beginning."""
        self._removed = count
        self._base = self._base[:-count] if count else self._base

    def keep(self, items: Iterable[Item]) -> None:
        """Replace what the run wrote (a transfer drops what must not be remembered)."""
        self._buffer = [dict(item) for item in items]

    async def commit(self, request_id: str, **what: Any) -> Committed:
        """`Store.commit` with this session's items. StaleOwner: somebody else owns now and nothing was written."""

        async def attempt(values: Any) -> Committed:
            return await self._store.commit(
                self.conversation_id,
                self.token,
                request_id,
                agent_id=self.agent_id,
                items=self._buffer,
                drop=self._removed,
                values=values,
                **what,
            )

        done = await self._with_values(attempt, what.pop("values", ()))
        self._settle()
        if self._told is not None:
            self._told(self.token.epoch, what.get("events", ()))
        return done

    async def transfer(self, request_id: str, *, to: Owner, **what: Any) -> Transferred:
        """`Store.transfer` with this session's items; afterwards this session is the old owner's and holds no token."""

        async def attempt(values: Any) -> Transferred:
            return await self._store.transfer(
                self.conversation_id,
                self.token,
                request_id,
                to=to,
                agent_id=self.agent_id,
                items=self._buffer,
                drop=self._removed,
                values=values,
                **what,
            )

        done = await self._with_values(attempt, what.pop("values", ()))
        self._settle()
        if self._told is not None:
            self._told(done.token.epoch, [*what.get("before", ()), *what.get("after", ())])
        return done

    async def _with_values(self, attempt: Callable[[Any], Awaitable[Done]], values: Any) -> Done:
        """Write, and again on newer values as long as a change of them is all that stands in the way."""
        if self._shared is None:
            return await attempt(values)
        await self._shared.flush(self.token)
        for _ in range(REBASES):
            try:
                return await attempt(values)
            except Conflict as conflict:
                if not conflict.field.startswith("value ") or not await self._shared.rebase():
                    raise
                values = self._shared.writes()
        return await attempt(values)

    def _settle(self) -> None:
        self._base += self._buffer
        self._buffer, self._removed = [], 0


def pair_safe(items: Sequence[Item]) -> list[Item]:
    """`items` without results whose call is missing, calls whose result is missing, and reasoning about nothing.

    A history that was cut must not break the rule of the model APIs that a call and its result come together.
    """
    whole = _paired(items)
    kept: list[Item] = []
    for index, item in enumerate(items):
        if item.get("type") in {"function_call", "function_call_output"} and index not in whole:
            continue
        if item.get("role") == "user":
            _drop_reasoning(kept)
        kept.append(dict(item))
    _drop_reasoning(kept)
    return kept


def _paired(items: Sequence[Item]) -> set[int]:
    """The places of calls and results that belong together: the first result after the first call of an id."""
    calls: dict[str, int] = {}
    places: set[int] = set()
    for index, item in enumerate(items):
        if item.get("type") == "function_call":
            calls.setdefault(item["call_id"], index)
        elif item.get("type") == "function_call_output":
            call = calls.get(item["call_id"])
            if call is not None and call not in places:
                places |= {call, index}
    return places


def _drop_reasoning(kept: list[Item]) -> None:
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
