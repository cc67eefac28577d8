"""Replays a conversation's log through a model of the promises: who owns, what waits, what was said (I1-I6, I10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions.model import Event
from tests.faults.checkers.evidence import Record, Violation
from tests.faults.harness.recorded import TAG


class Replay:
    """The model after the events so far. `run` feeds it a whole log and compares the end with what Redis says."""

    def __init__(self, conversation_id: str, start: str) -> None:
        self.conversation_id = conversation_id
        self.owner = start
        self.seq = 0
        self.epoch = 0
        self.waiting: list[int] = []
        self.violations: list[Violation] = []
        self.places: dict[str, int] = {}  # request -> place of its tagged event
        self.created: dict[str, int] = {}
        self.retracted: dict[str, int] = {}
        self._answered: set[int] = set()
        self._epoch_before = 0  # without retractions: a draft is taken back in the new epoch, then the owner changes

    @classmethod
    def run(cls, record: Record) -> Replay:
        """Replay a record's log, then compare."""
        replay = cls(record.conversation_id, record.start)
        for event in record.events:
            replay.take(event)
        replay.compare(record)
        return replay

    def take(self, event: Event) -> None:
        """The next event of the log."""
        if event.seq != self.seq + 1:
            self._bad("gap in the log", event, f"seq {event.seq} follows {self.seq}")
        if event.epoch < self.epoch:
            self._bad("epoch went back", event, f"{event.epoch} follows {self.epoch}")
        tag = event.data.get(TAG) or {}
        self._once(event, tag)
        self._token(event, tag)
        match event.type:
            case "msg.created":
                self._created(event)
            case "msg.retracted":
                self._retracted(event)
            case "owner.changed":
                self._changed(event)
        self._answers(event, tag)
        self.seq, self.epoch = event.seq, max(self.epoch, event.epoch)
        if event.type != "msg.retracted":
            self._epoch_before = self.epoch

    def compare(self, record: Record) -> None:
        """What Redis keeps beside the log must say the same as the log."""
        for name, here, there in (
            ("owner", self.owner, record.owner),
            ("seq", self.seq, record.seq),
            ("waiting messages", self.waiting, list(record.waiting)),
        ):
            if here != there:
                self._bad("record differs from the log", None, f"{name}: the log says {here}, the record {there}")
        if record.epoch < self.epoch:
            self._bad("record differs from the log", None, f"epoch {record.epoch} is below the log's {self.epoch}")

    # -- one event -------------------------------------------------------------------------------------------------

    def _once(self, event: Event, tag: Mapping[str, Any]) -> None:
        request = tag.get("rid")
        if request is None:
            return
        if request in self.places:
            self._bad("request took effect twice", event, f"{request}, first at {self.places[request]}")
        self.places.setdefault(request, event.seq)

    def _token(self, event: Event, tag: Mapping[str, Any]) -> None:
        """A write happens in the epoch of its token; a transfer ends that epoch."""
        used = tag.get("e")
        if used is None:
            return
        changed = event.type == "owner.changed"
        if (changed and not self.epoch <= used < event.epoch) or (not changed and used != event.epoch):
            self._bad("stale token was accepted", event, f"token of epoch {used} wrote in {event.epoch}")

    def _created(self, event: Event) -> None:
        message_id = str(event.data.get("id"))
        if message_id in self.created:
            self._bad("message is there twice", event, f"{message_id}, first at {self.created[message_id]}")
        if message_id in self.retracted:
            self._bad("retracted draft became a message", event, message_id)
        self.created.setdefault(message_id, event.seq)
        if event.by == "customer":
            self.waiting.append(event.seq)
        elif event.by != self.owner:
            self._bad("spoke without owning", event, f"{event.by} spoke while {self.owner} owned")

    def _retracted(self, event: Event) -> None:
        message_id = str(event.data.get("id"))
        if message_id in self.created:
            self._bad("message was taken back", event, message_id)
        self.retracted[message_id] = event.seq

    def _changed(self, event: Event) -> None:
        if event.owner_from != self.owner:
            self._bad("owner chain is broken", event, f"from {event.owner_from}, but {self.owner} owned")
        if event.epoch <= self._epoch_before:
            self._bad("owner changed in the same epoch", event, f"epoch {event.epoch}")
        self.owner = event.owner_to

    def _answers(self, event: Event, tag: Mapping[str, Any]) -> None:
        """A write answers the messages at the front of the inbox, those that its worker was given, each only once."""
        count = int(tag.get("n", 0))
        front = self.waiting[:count]
        meant = [int(seq) for seq in tag.get("saw", front)]
        again = [seq for seq in meant if seq in self._answered]
        if again:
            self._bad("message answered twice", event, f"messages at {again}")
        elif len(front) < count or meant != front:
            self._bad("answered what does not wait", event, f"meant {meant} ({count}), the inbox begins with {front}")
        self._answered.update(meant)
        del self.waiting[:count]

    def _bad(self, kind: str, event: Event | None, text: str) -> None:
        self.violations.append(Violation(kind, self.conversation_id, text, event.seq if event else 0))
