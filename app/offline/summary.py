"""A running summary without a language model: the first sentence of each message, the newest kept."""

from __future__ import annotations

import re
from typing import Any

from app.offline.sentences import split
from handoffs.summary import BEFORE, TASK

MAX_CHARS = 800  # as long as a summary of 120 words
_SPEAKER = re.compile(r"^(customer|\[[^\]]+\])(?: said)?: ")


def is_wanted(system: str | None) -> bool:
    """Whether a call asks for a summary (handoffs.summary) and not for an answer to a customer."""
    return (system or "").startswith(TASK)


def extract(items: str | list[Any]) -> str:
    """The summary of the conversation in a summary call's input: what stands in it already, and each new message."""
    text = items if isinstance(items, str) else "\n".join(str(item.get("content", "")) for item in items)
    found = [_short(line) for line in text.splitlines() if line.startswith(BEFORE) or _SPEAKER.match(line)]
    told = " ".join(found)
    return told if len(told) <= MAX_CHARS else "... " + told[-MAX_CHARS:].partition(" ")[2]


def _short(line: str) -> str:
    if line.startswith(BEFORE):
        return line.removeprefix(BEFORE).strip()
    speaker, _, said = line.partition(": ")
    first = split(said)
    return f"{speaker.removesuffix(' said')}: {first[0].text if first else said.strip()}"
