"""Shared values as one agent may use them: the contract of desk.yaml is checked on every read and write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from handoffs.call_notes import under_way
from handoffs.errors import ValueInvalid, ValueNotAllowed
from handoffs.roster import AgentSpec, Roster
from handoffs.turn_values import Draft


class AgentValues:
    """`handoffs.context.Values` over the turn's working copy, for one agent. With `only_reads` it may write nothing."""

    def __init__(self, draft: Draft, roster: Roster, agent: AgentSpec, *, only_reads: bool = False) -> None:
        self._draft = draft
        self._roster = roster
        self._contracts = roster.desk.values
        self._agent = agent
        self._only_reads = only_reads

    def seen_by(self, agent: AgentSpec, *, only_reads: bool = False) -> AgentValues:
        """The same working copy under the contract of `agent`; what may only read gives only reading on."""
        return AgentValues(self._draft, self._roster, agent, only_reads=only_reads or self._only_reads)

    @property
    def readable(self) -> tuple[str, ...]:
        """Keys that the agent may read: what it may write it may read too."""
        return tuple(dict.fromkeys((*self._agent.values.read, *self._agent.values.write)))

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self.readable:
            raise ValueNotAllowed(key, agent_id=self._agent.id, action="read", allowed=self.readable)
        return self._draft.get(key, default)

    def set(self, key: str, value: Any) -> None:
        self._may_write(key)
        self._fits(key, value)
        self._draft.set(key, value)
        self._note_set(key, value)

    def increment(self, key: str, by: int | float = 1) -> int | float:
        """Count a value up (one that is not set counts as 0) and give what it is now, as far as this turn knows."""
        contract = self._contracts.get(key)
        if contract is not None and contract.type not in ("integer", "number"):
            raise ValueInvalid(key, f"only an integer or a number can be counted up, and it is a {contract.type}")
        counted: int | float = self._update(key, lambda value: (value or 0) + by)
        if (notes := under_way()) is not None:
            notes.changes.append({"key": key, "by": by})
        return counted

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Set a value to what `change` makes of it. ValueNotAllowed and ValueInvalid as `set`."""
        changed = self._update(key, change)
        self._note_set(key, changed)
        return changed

    def _update(self, key: str, change: Callable[[Any], Any]) -> Any:
        self._may_write(key)

        def checked(value: Any) -> Any:
            changed = change(value)
            self._fits(key, changed)
            return changed

        return self._draft.update(key, checked)

    def _note_set(self, key: str, value: Any) -> None:
        if (notes := under_way()) is not None:
            notes.changes.append({"key": key, "value": value, "rev": self._draft.stored(key).rev})

    def again(self, changes: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        """Make noted changes of an earlier attempt: numbers are counted on what is stored now, others are set again.

        A value that somebody else set since then stays theirs, as it would if they had done it after the commit, and so
        does one that the contract no longer lets this agent write. Their keys are given back.
        """
        lost = []
        for change in changes:
            key = str(change["key"])
            try:
                if "by" in change:
                    self.increment(key, change["by"])
                elif (now := self._draft.stored(key)).rev == change["rev"] or now.value == change["value"]:
                    self.set(key, change["value"])
                else:
                    lost.append(key)
            except (ValueNotAllowed, ValueInvalid):
                lost.append(key)
        return tuple(dict.fromkeys(lost))

    def _may_write(self, key: str) -> None:
        allowed = () if self._only_reads else self._agent.values.write
        if key not in allowed:
            raise ValueNotAllowed(key, agent_id=self._agent.id, action="write", allowed=allowed)

    def _fits(self, key: str, value: Any) -> None:
        why = self._contracts[key].why_not(value) if key in self._contracts else "desk.yaml has no contract for it"
        if why:
            raise ValueInvalid(key, why)

    def played(self, key: str, value: Any) -> bool:
        """Set a value as a record has it; False when this agent may not write it any more. For replays only."""
        if key not in self._agent.values.write:
            return False
        self._draft.set(key, value)
        return True

    def is_set(self, key: str) -> bool:
        """Whether `key` has a true value; for entry conditions, which every agent's transfer may ask about."""
        return bool(self._draft.get(key))

    def known(self) -> Iterator[tuple[str, Any]]:
        """The readable values that are set."""
        for key in self.readable:
            if key in self._draft:
                yield key, self._draft.get(key)
