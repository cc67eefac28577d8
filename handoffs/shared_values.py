"""Shared values as one agent may use them: the contract of desk.yaml is checked on every read and write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from handoffs.errors import ValueInvalid, ValueNotAllowed
from handoffs.roster import AgentSpec, Roster
from sessions.values import ValuesDraft


class AgentValues:
    """`handoffs.context.Values` over the turn's working copy, for one agent."""

    def __init__(self, draft: ValuesDraft, roster: Roster, agent: AgentSpec) -> None:
        self._draft = draft
        self._roster = roster
        self._contracts = roster.desk.values
        self._agent = agent

    def seen_by(self, agent: AgentSpec) -> AgentValues:
        """The same working copy under the contract of `agent`."""
        return AgentValues(self._draft, self._roster, agent)

    @property
    def readable(self) -> tuple[str, ...]:
        """Keys that the agent may read: what it may write it may read too."""
        return tuple(dict.fromkeys((*self._agent.values.read, *self._agent.values.write)))

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self.readable:
            raise ValueNotAllowed(key, agent_id=self._agent.id, action="read", allowed=self.readable)
        return self._draft.get(key, default)

    def set(self, key: str, value: Any) -> None:
        if key not in self._agent.values.write:
            raise ValueNotAllowed(key, agent_id=self._agent.id, action="write", allowed=self._agent.values.write)
        why = self._contracts[key].why_not(value) if key in self._contracts else "desk.yaml has no contract for it"
        if why:
            raise ValueInvalid(key, why)
        self._draft.set(key, value)

    def is_set(self, key: str) -> bool:
        """Whether `key` has a true value; for entry conditions, which every agent's transfer may ask about."""
        return bool(self._draft.get(key))

    def known(self) -> Iterator[tuple[str, Any]]:
        """The readable values that are set."""
        for key in self.readable:
            if key in self._draft:
                yield key, self._draft.get(key)
