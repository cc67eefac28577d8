"""What the terminal shows of a conversation: frames of the widget's protocol become text. No I/O but the writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.commands.output import safe

Frame = Mapping[str, Any]
Write = Callable[[str], None]


@dataclass
class Screen:
    """Shows frames as they come, drafts piece by piece, and knows whether the last message has been answered.

    `write` gets text for stdout, `note` gets whole lines about the conversation (owner changes, notices).
    """

    write: Write
    note: Write
    own_ids: set[str] = field(default_factory=set)
    seq: int = 0
    owner: str = ""
    asked_at: int | None = None  # seq of our last message, once acknowledged
    answered: bool = False
    working: bool = False
    _shown: dict[str, str] = field(default_factory=dict)  # draft id -> the text written so far
    _open: str = ""  # the draft whose line is not finished

    def ask(self, client_id: str) -> None:
        """We are about to send a message."""
        self.own_ids.add(client_id)
        self.asked_at, self.answered, self.working = None, False, False

    def show(self, frame: Frame) -> None:
        """Take in one frame of the server."""
        match frame.get("t"):
            case "welcome":
                self.owner = _name(frame.get("owner"))
                self.note(f"connected; {self.owner} answers")
            case "snapshot":
                self.seq = int(frame["seq"])
                for event in frame["messages"]:
                    self._event(event)
            case "ack":
                self.asked_at = int(frame["seq"])
            case "ev":
                self.seq = int(frame["seq"])
                self._event(frame)
            case "eph":
                self._ephemeral(frame)

    def _event(self, event: Frame) -> None:
        details = event.get("d") or {}
        match event.get("e"):
            case "msg.created":
                self._message(event, str(details.get("text", "")))
            case "msg.retracted":
                self._close_line(" [taken back]")
                self.working = False
            case "owner.changed":
                self._owner_changed(details)
            case "notice":
                self._close_line()
                self.note(safe(str(details.get("text", ""))))
                self.answered, self.working = True, False

    def _owner_changed(self, details: Frame) -> None:
        self._close_line()
        target = details.get("to") or {}
        self.owner = _name(target)
        sentence = details.get("text") or f"{_name(details.get('from'))} hands over to {self.owner}"
        self.note(safe(f"{sentence} [{target.get('kind')}: {self.owner}]"))
        # An agent that just took over answers next; people answer when they can.
        self.answered = target.get("kind") != "ai"
        self.working = not self.answered

    def _message(self, event: Frame, text: str) -> None:
        by = event.get("by") or {}
        if by.get("kind") == "visitor":
            if event.get("cid") not in self.own_ids:
                self._close_line()
                self.write(f"you: {safe(text)}\n")
            return
        self.answered, self.working = True, False
        message_id = str(event.get("id"))
        already = self._shown.pop(message_id, None)
        if already is not None and text.startswith(already) and self._open == message_id:
            self.write(safe(text[len(already) :]))
        else:
            self._close_line()
            self.write(f"{_name(by)}: {safe(text)}")
        self._open = message_id
        self._close_line()

    def _ephemeral(self, frame: Frame) -> None:
        if frame.get("e") == "run.status":
            self.working = True
        if frame.get("e") != "msg.delta":
            return
        self.working = True
        message_id, offset, piece = str(frame["mid"]), int(frame["off"]), str(frame["d"])
        already = self._shown.get(message_id, "")
        if offset > len(already):
            return  # a piece is missing: the whole message comes at the end
        fresh = piece[len(already) - offset :]
        if not fresh:
            return
        if self._open != message_id:
            self._close_line()
            self.write(f"{_name(frame.get('by'))}: {safe(already)}")
            self._open = message_id
        self.write(safe(fresh))
        self._shown[message_id] = already + fresh

    def _close_line(self, ending: str = "") -> None:
        if self._open:
            self.write(ending + "\n")
            self._open = ""


def _name(party: Any) -> str:
    if not isinstance(party, Mapping):
        return "desk"
    return safe(str(party.get("name") or party.get("id") or party.get("kind") or "desk"))
