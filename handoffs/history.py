"""What a new owner sees of the work before it: the seed. Foreign turns are data, fenced, in the third person."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from handoffs.roster import History
from handoffs.transfer import Brief
from sessions.model import Event, Item

NOTE = "handoff-note"
MAX_LINE = 2000  # characters of one foreign message in a seed; the whole text stays in the log


@dataclass(frozen=True, slots=True)
class Line:
    """One customer-visible message: `by` is `customer`, `ai:<agent>` or `human:<person>`."""

    seq: int
    message_id: str
    by: str
    text: str


def lines_of(events: Iterable[Event]) -> Iterator[Line]:
    """The customer-visible messages among `events`, in the order given, each read when it is asked for."""
    for event in events:
        if event.type == "msg.created":
            yield Line(event.seq, str(event.data.get("id", "")), event.by, str(event.data.get("text", "")))


def visible(newest_first: Iterable[Line], mode: History, *, seen: int, pending: Iterable[int]) -> list[Line]:
    """What `mode` shows an agent that has seen the log up to `seen`, oldest first.

    `pending` messages come as its input instead. No more of `newest_first` is read than is shown.
    """
    if mode.mode == "none":
        return []
    waiting = set(pending)
    fresh = takewhile(lambda line: line.seq > seen, newest_first)
    shown = list(islice((line for line in fresh if line.seq not in waiting), mode.last))
    return shown[::-1]


def note(
    *,
    sender: str,
    reason: str,
    brief: Brief,
    lines: Sequence[Line],
    intro: str = "",
    summary: str = "",
    retold: Sequence[str] = (),
) -> Item:
    """One item for the new owner's history: who hands over, why, the brief, and the earlier messages.

    `retold` stands for the lines when something else is told of them; it is quoted already (`quote`, `told`).
    """
    nonce = secrets.token_hex(4)  # unknown to whoever wrote the quoted texts, so that nobody can close the note early
    body = [f"From: {quote(sender)}"] if sender else []
    if intro:
        body.append(f"What happened: {quote(intro)}")
    if reason:
        body.append(f"Reason: {quote(reason)}")
    if brief.goal:
        body.append(f"Goal: {quote(brief.goal)}")
    for title, entries in (
        ("Facts", brief.facts),
        ("Tried", brief.tried),
        ("Promised", brief.promised),
        ("Open questions", brief.open_questions),
    ):
        if entries:
            body += [f"{title}:", *(f"- {quote(entry)}" for entry in entries)]
    if summary:
        body.append(f"Summary of what was said before: {quote(summary)}")
    if lines or retold:
        body += ["Earlier messages:", *(told(line) for line in lines), *retold]
    text = "\n".join(body)
    return {"role": "user", "content": f'<{NOTE} id="{nonce}">\n{text}\n</{NOTE}>'}


def told(line: Line) -> str:
    """A line in the third person, quoted."""
    if line.by == "customer":
        return f"customer: {quote(line.text)}"
    kind, _, who = line.by.partition(":")
    name = who if kind == "ai" else f"{kind} {who}".strip()
    return f"[{name}] said: {quote(line.text)}"


def quote(text: str, limit: int = MAX_LINE) -> str:
    """Foreign text on lines of its own making only: no new line of the note, no note tag, `limit` characters long."""
    short = text if len(text) <= limit else text[:limit] + " [...]"
    flat = re.sub(r"[\r\n\u2028\u2029]+", "\n  ", short.strip())
    return re.sub(rf"<\s*(/?)\s*{NOTE}", r"‹\1" + NOTE, flat, flags=re.IGNORECASE)


def is_note(item: Item) -> bool:
    """Whether a history item is a note of ours."""
    content = item.get("content")
    return item.get("role") == "user" and isinstance(content, str) and content.startswith(f"<{NOTE} id=")


def customer_item(text: str) -> Item:
    """A customer's message as the model reads it. A forged note tag in it is made harmless."""
    return {"role": "user", "content": re.sub(rf"<\s*(/?)\s*{NOTE}", r"‹\1" + NOTE, text, flags=re.IGNORECASE)}
