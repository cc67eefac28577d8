"""What a checker judges, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sessions.model import Ephemeral, Event
from tests.faults.harness.history import Operation

Shown = tuple[Event | Ephemeral, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What Redis held about one conversation at the end. `waiting` are the places (seq) of unanswered messages."""

    conversation_id: str
    start: str  # who owned when it was made, for example ai:triage
    owner: str
    epoch: int
    seq: int
    draft: str
    waiting: tuple[int, ...]
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run: the operations, oldest invocation first, and the records by conversation."""

    operations: tuple[Operation, ...]
    records: Mapping[str, Record]
    screens: Mapping[str, Shown] = field(default_factory=dict)  # what was shown of each conversation
    faults: Mapping[str, int] = field(default_factory=dict)
    settled_s: float = 0.0  # how long after the last fault the last waiting message was answered

    def of(self, conversation_id: str) -> list[Operation]:
        """The operations on one conversation."""
        return [operation for operation in self.operations if operation.conversation_id == conversation_id]

    def by_conversation(self) -> dict[str, list[Operation]]:
        """All operations, by conversation: those that Redis knows, and those that it lost."""
        found: dict[str, list[Operation]] = {conversation_id: [] for conversation_id in self.records}
        for operation in self.operations:
            found.setdefault(operation.conversation_id, []).append(operation)
        return found


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise. `kind` is one of a fixed set of words, `seq` the place in the log (0: none)."""

    kind: str
    conversation_id: str
    text: str
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.conversation_id}@{self.seq}: {self.kind}: {self.text}"
