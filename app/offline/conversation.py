"""Reading the input items of a model call: what came before, what is new, what was called in this turn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOTE_START = "<handoff-note"
NOTE_END = "</handoff-note>"
_FIELD = re.compile(r"^([A-Z][A-Za-z ]{2,30}):[ \t]*(.*)$")
_SPEAKER = re.compile(r"^(customer|\[[^\]]+\] said):\s*(.*)$", re.IGNORECASE)


@dataclass(frozen=True)
class Note:
    """A handoff note. Everything in it is data: it may be quoted and searched for slot values, never obeyed."""

    sender: str = ""
    goal: str = ""
    facts: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    customer: tuple[str, ...] = ()  # the customer's earlier messages, oldest first


@dataclass(frozen=True)
class ToolCall:
    """A call of this model and its result; `output` is None while there is none."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]
    output: str | None = None


@dataclass(frozen=True)
class Exchange:
    """One text of the history: `speaker` is `customer`, `agent` or `tool`."""

    speaker: str
    text: str


@dataclass(frozen=True)
class Conversation:
    """What the model is asked to go on from. `messages` are the customer's texts of this turn, oldest first."""

    messages: tuple[str, ...] = ()
    note: Note | None = None  # arrived in this turn
    calls: tuple[ToolCall, ...] = ()  # of this turn, oldest first
    past: tuple[Exchange, ...] = ()  # before this turn, oldest first
    notes: tuple[Note, ...] = ()  # all of them, oldest first
    done: tuple[ToolCall, ...] = field(default=(), repr=False)  # calls of earlier turns

    @property
    def text(self) -> str:
        return "\n".join(self.messages)

    @property
    def last_reply(self) -> str:
        """What this agent said last before this turn; empty when it has not spoken yet."""
        return next((e.text for e in reversed(self.past) if e.speaker == "agent"), "")

    @property
    def earlier_messages(self) -> tuple[str, ...]:
        """The customer's texts before this turn, newest first, those in handoff notes after the agent's own."""
        own = [e.text for e in reversed(self.past) if e.speaker == "customer"]
        told = [text for note in reversed(self.notes) for text in reversed(note.customer)]
        return tuple(dict.fromkeys((*own, *told)))

    def called(self, name: str) -> list[ToolCall]:
        """This turn's calls of one tool."""
        return [call for call in self.calls if call.name == name]


def read(items: str | list[Any]) -> Conversation:
    """Split input items at the start of the turn: after the last answer, or at a handoff note that came later."""
    if isinstance(items, str):
        return Conversation(messages=(items,))
    plain: list[Mapping[str, Any]] = [i if isinstance(i, Mapping) else i.model_dump() for i in items]
    start = _turn_start(plain)
    calls = _calls(plain)
    now, before = plain[start:], plain[:start]
    ids = {item.get("call_id") for item in now if item.get("type") == "function_call"}
    notes = [(k >= start, parse_note(_text(item))) for k, item in enumerate(plain) if _is_note(item)]
    return Conversation(
        messages=tuple(_text(item) for item in now if item.get("role") == "user" and not _is_note(item)),
        note=next((note for new, note in reversed(notes) if new), None),
        calls=tuple(call for call in calls if call.call_id in ids),
        past=tuple(e for e in map(_exchange, before) if e is not None),
        notes=tuple(note for _, note in notes),
        done=tuple(call for call in calls if call.call_id not in ids),
    )


def parse_note(text: str) -> Note:
    """The parts of a handoff note; unknown lines are ignored, missing parts are empty."""
    single: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    customer: list[str] = []
    section, to_customer = "", False
    for line in text.splitlines()[1:]:
        spoken = _SPEAKER.match(line) if section == "earlier messages" else None
        heading = _FIELD.match(line)
        if spoken:
            to_customer = spoken[1].lower() == "customer"
            if to_customer:
                customer.append(spoken[2].strip())
        elif heading and not line.startswith("- "):
            section = heading[1].strip().lower()
            single.setdefault(section, heading[2].strip())
        elif line.startswith("- "):
            lists.setdefault(section, []).append(line[2:].strip())
        elif line.startswith("  ") and customer and section == "earlier messages" and to_customer:
            customer[-1] += "\n" + line.strip()  # the router indents the further lines of a message
    return Note(
        sender=single.get("from", "").removeprefix("ai:"),
        goal=single.get("goal", ""),
        facts=tuple(lists.get("facts", ())),
        open_questions=tuple(lists.get("open questions", ())),
        customer=tuple(customer),
    )


def _turn_start(items: Sequence[Mapping[str, Any]]) -> int:
    answered = max((k + 1 for k, item in enumerate(items) if _says(item)), default=0)
    noted = max((k for k, item in enumerate(items) if _is_note(item)), default=0)
    start = max(answered, noted)
    if any(item.get("role") == "user" for item in items[start:]):
        return start
    return max((k for k, item in enumerate(items) if item.get("role") == "user"), default=0)


def _says(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" and bool(_text(item).strip())


def _is_note(item: Mapping[str, Any]) -> bool:
    text = _text(item).strip() if item.get("role") == "user" else ""
    return text.startswith(NOTE_START) and text.endswith(NOTE_END)


def _text(item: Mapping[str, Any]) -> str:
    content = item.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))


def _exchange(item: Mapping[str, Any]) -> Exchange | None:
    if item.get("type") == "function_call_output":
        return Exchange("tool", _output(item))
    if item.get("role") == "user" and not _is_note(item):
        return Exchange("customer", _text(item))
    return Exchange("agent", _text(item)) if _says(item) else None


def _calls(items: Sequence[Mapping[str, Any]]) -> list[ToolCall]:
    """Every call with the output that carries its own call_id (an earlier transfer's output is not this one's)."""
    outputs = {item.get("call_id"): _output(item) for item in items if item.get("type") == "function_call_output"}
    return [
        ToolCall(str(item.get("call_id")), str(item.get("name")), _arguments(item), outputs.get(item.get("call_id")))
        for item in items
        if item.get("type") == "function_call"
    ]


def _arguments(item: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        found = json.loads(item.get("arguments") or "{}")
    except ValueError:  # another model wrote this history
        return {}
    return found if isinstance(found, dict) else {}


def _output(item: Mapping[str, Any]) -> str:
    output = item.get("output")
    if isinstance(output, list):
        return "\n".join(str(part.get("text") or "") for part in output if isinstance(part, Mapping))
    return "" if output is None else str(output)
